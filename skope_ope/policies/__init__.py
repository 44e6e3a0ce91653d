# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Policies, and their probabilities on logs."""

from skope_ope.policies._action_probabilities import action_probabilities
from skope_ope.policies._classifier_policy import ClassifierPolicy
from skope_ope.policies._fit_free_policies import (
    ConstantPolicy,
    FunctionPolicy,
    UniformPolicy,
)
from skope_ope.policies._mixture_policy import MixturePolicy
from skope_ope.policies.adaptive._context_free import (
    UCB1,
    AdaptiveFunctionPolicy,
    EpsilonGreedy,
)
from skope_ope.policies.adaptive._lin_ucb import LinUCB
from skope_ope.policies.adaptive._online_classifier_policy import (
    EpochGreedy,
    OnlineClassifierPolicy,
)
from skope_ope.policies.adaptive._segmented_policy import BatchPolicy, SegmentedPolicy
from skope_ope.policies.slate._composed_slate_policies import (
    MixtureSlatePolicy,
    ProductSlatePolicy,
    SampledSlatePolicy,
)
from skope_ope.policies.slate._empirical_slate_policy import EmpiricalSlatePolicy
from skope_ope.policies.slate._ranking_policy import (
    PlackettLuceSlatePolicy,
    RankingPolicy,
    UniformSlatePolicy,
)

__all__ = [
    "UCB1",
    "AdaptiveFunctionPolicy",
    "BatchPolicy",
    "ClassifierPolicy",
    "ConstantPolicy",
    "EmpiricalSlatePolicy",
    "EpochGreedy",
    "EpsilonGreedy",
    "FunctionPolicy",
    "LinUCB",
    "MixturePolicy",
    "MixtureSlatePolicy",
    "OnlineClassifierPolicy",
    "PlackettLuceSlatePolicy",
    "ProductSlatePolicy",
    "RankingPolicy",
    "SampledSlatePolicy",
    "SegmentedPolicy",
    "UniformPolicy",
    "UniformSlatePolicy",
    "action_probabilities",
]

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Policies, and their probabilities on logs."""

from skope_ope.policies import _logger_policies  # noqa: F401  # with_logger_policies
from skope_ope.policies._action_probabilities import action_probabilities
from skope_ope.policies._classifier_policy import ClassifierPolicy
from skope_ope.policies._constant_policy import ConstantPolicy
from skope_ope.policies._function_policy import FunctionPolicy
from skope_ope.policies._mixture_policy import MixturePolicy
from skope_ope.policies._uniform_policy import UniformPolicy
from skope_ope.policies.adaptive._adaptive_function_policy import AdaptiveFunctionPolicy
from skope_ope.policies.adaptive._batch_policy import BatchPolicy
from skope_ope.policies.adaptive._context_free import UCB1, EpsilonGreedy
from skope_ope.policies.adaptive._epoch_greedy import EpochGreedy
from skope_ope.policies.adaptive._lin_ucb import LinUCB
from skope_ope.policies.adaptive._online_classifier_policy import OnlineClassifierPolicy
from skope_ope.policies.adaptive._segmented_policy import SegmentedPolicy
from skope_ope.policies.slate._empirical_slate_policy import EmpiricalSlatePolicy
from skope_ope.policies.slate._mixture_slate_policy import MixtureSlatePolicy
from skope_ope.policies.slate._plackett_luce_slate_policy import PlackettLuceSlatePolicy
from skope_ope.policies.slate._product_slate_policy import ProductSlatePolicy
from skope_ope.policies.slate._ranking_policy import RankingPolicy
from skope_ope.policies.slate._sampled_slate_policy import SampledSlatePolicy
from skope_ope.policies.slate._uniform_slate_policy import UniformSlatePolicy

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

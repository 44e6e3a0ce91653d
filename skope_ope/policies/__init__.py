# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What we want to evaluate: policies, and their probabilities on logs."""

from skope_ope.policies._action_probabilities import action_probabilities
from skope_ope.policies._adaptive import AdaptivePolicy
from skope_ope.policies._adaptive_function_policy import AdaptiveFunctionPolicy
from skope_ope.policies._base import BasePolicy
from skope_ope.policies._batch_policy import BatchPolicy
from skope_ope.policies._classifier_policy import ClassifierPolicy
from skope_ope.policies._constant_policy import ConstantPolicy
from skope_ope.policies._epoch_greedy import EpochGreedy
from skope_ope.policies._epsilon_greedy import EpsilonGreedy
from skope_ope.policies._function_policy import FunctionPolicy
from skope_ope.policies._lin_ucb import LinUCB
from skope_ope.policies._mixture_policy import MixturePolicy
from skope_ope.policies._online_classifier_policy import OnlineClassifierPolicy
from skope_ope.policies._segmented_policy import SegmentedPolicy
from skope_ope.policies._ucb1 import UCB1
from skope_ope.policies._uniform_policy import UniformPolicy

__all__ = [
    "UCB1",
    "AdaptiveFunctionPolicy",
    "AdaptivePolicy",
    "BasePolicy",
    "BatchPolicy",
    "ClassifierPolicy",
    "ConstantPolicy",
    "EpochGreedy",
    "EpsilonGreedy",
    "FunctionPolicy",
    "LinUCB",
    "MixturePolicy",
    "OnlineClassifierPolicy",
    "SegmentedPolicy",
    "UniformPolicy",
    "action_probabilities",
]

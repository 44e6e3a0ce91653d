# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What we want to evaluate: policies, and their probabilities on logs."""

from skope_ope.policies._action_probabilities import action_probabilities
from skope_ope.policies._base import BasePolicy
from skope_ope.policies._classifier_policy import ClassifierPolicy
from skope_ope.policies._constant_policy import ConstantPolicy
from skope_ope.policies._function_policy import FunctionPolicy
from skope_ope.policies._mixture_policy import MixturePolicy
from skope_ope.policies._uniform_policy import UniformPolicy

__all__ = [
    "BasePolicy",
    "ClassifierPolicy",
    "ConstantPolicy",
    "FunctionPolicy",
    "MixturePolicy",
    "UniformPolicy",
    "action_probabilities",
]

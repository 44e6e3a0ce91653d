# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Base classes for your own policies and evaluators."""

from skope_ope.evaluators.base._evaluator import BaseEvaluator, EvaluatorTags
from skope_ope.evaluators.core._design import Sampling
from skope_ope.evaluators.core._functions import (
    mean,
    mean_plus_ratio,
    ratio,
    sum_of_two,
)
from skope_ope.evaluators.core._requires import Requires
from skope_ope.evaluators.core._sums import WEIGHT
from skope_ope.evaluators.slate._base import SlateEvaluator
from skope_ope.evaluators.static._base import StaticEvaluator
from skope_ope.logs._transformer import BaseLogTransformer
from skope_ope.policies._adaptive import AdaptivePolicy
from skope_ope.policies._base import BasePolicy
from skope_ope.policies.slate._slate_base import BaseSlatePolicy

__all__ = [
    "WEIGHT",
    "AdaptivePolicy",
    "BaseEvaluator",
    "BaseLogTransformer",
    "BasePolicy",
    "BaseSlatePolicy",
    "EvaluatorTags",
    "Requires",
    "Sampling",
    "SlateEvaluator",
    "StaticEvaluator",
    "mean",
    "mean_plus_ratio",
    "ratio",
    "sum_of_two",
]

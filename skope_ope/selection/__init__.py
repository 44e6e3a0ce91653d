# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Which one: searches over evaluators and over policies, comparisons."""

from skope_ope.selection._compare_policies import compare_policies
from skope_ope.selection._evaluator_scorer import EvaluatorScorer
from skope_ope.selection._gain_answers import rounds_needed
from skope_ope.selection._ope_search import OPESearchCV, in_order, one_standard_error
from skope_ope.selection._policy_comparison import PolicyComparison
from skope_ope.selection._policy_scorer import PolicyScorer
from skope_ope.selection._slope_search import SlopeSearch
from skope_ope.selection._suggest import suggest
from skope_ope.selection._suggestion import Suggestion

__all__ = [
    "EvaluatorScorer",
    "OPESearchCV",
    "PolicyComparison",
    "PolicyScorer",
    "SlopeSearch",
    "Suggestion",
    "compare_policies",
    "in_order",
    "one_standard_error",
    "rounds_needed",
    "suggest",
]

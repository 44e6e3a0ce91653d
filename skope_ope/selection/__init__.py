# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Which one: searches over evaluators and over policies, comparisons."""

from skope_ope.selection._compare_policies import compare_policies
from skope_ope.selection._gain_answers import rounds_needed
from skope_ope.selection._ope_search import OPESearchCV, in_order, one_standard_error
from skope_ope.selection._policy_comparison import PolicyComparison
from skope_ope.selection._scorers import EvaluatorScorer, PolicyScorer
from skope_ope.selection._slope_search import SlopeSearch
from skope_ope.selection._suggest import Suggestion, suggest

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

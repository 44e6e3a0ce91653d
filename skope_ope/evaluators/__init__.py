# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""How we evaluate: estimators of the value of a policy.

What a family lists in its `__all__` is here, and has a name for `evaluate`.
"""

from skope_ope.evaluators import (
    adaptive_logger,
    multi_logger,
    scavenging,
    sequential,
    slate,
    static,
)
from skope_ope.evaluators._evaluate import evaluate
from skope_ope.evaluators._value_summary import ValueSummary, summarize
from skope_ope.evaluators._value_table import ValueTable
from skope_ope.evaluators.adaptive_logger import *
from skope_ope.evaluators.core._lift import Lift
from skope_ope.evaluators.core._policy_value import PolicyValue
from skope_ope.evaluators.core._sensitivity import Sensitivity
from skope_ope.evaluators.multi_logger import *
from skope_ope.evaluators.scavenging import *
from skope_ope.evaluators.sequential import *
from skope_ope.evaluators.slate import *
from skope_ope.evaluators.static import *

__all__ = [
    "Lift",
    "PolicyValue",
    "Sensitivity",
    "ValueSummary",
    "ValueTable",
    "evaluate",
    "summarize",
    *static.__all__,
    *sequential.__all__,
    *scavenging.__all__,
    *multi_logger.__all__,
    *adaptive_logger.__all__,
    *slate.__all__,
]

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""CAN THE LOG ANSWER? Findings about a log, alone or with a policy."""

from skope_ope.audit._audit import audit, verdict
from skope_ope.audit._result import Audit
from skope_ope.evaluators.core._verdict import Verdict, VerdictThresholds

__all__ = ["Audit", "Verdict", "VerdictThresholds", "audit", "verdict"]

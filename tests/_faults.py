# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The planted faults and the right logs of the gallery's example on audits."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "examples" / "1_first_steps"))

from _faults import FAULTS, SEEN_BY, UNSEEN, faulty
from _right_logs import RIGHT_LOGS, right

__all__ = ["FAULTS", "RIGHT_LOGS", "SEEN_BY", "UNSEEN", "faulty", "right"]

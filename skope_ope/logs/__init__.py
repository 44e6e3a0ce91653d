# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What was logged: containers of rounds, and readers of other formats."""

from skope_ope.logs._bandit_logs import BanditLogs
from skope_ope.logs._distinct_views import DistinctViews
from skope_ope.logs._read_open_bandit import read_open_bandit
from skope_ope.logs._read_vw import read_vw
from skope_ope.logs._slate_logs import SlateLogs

__all__ = ["BanditLogs", "DistinctViews", "SlateLogs", "read_open_bandit", "read_vw"]

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What was logged: containers of rounds, and readers of other formats."""

from skope_ope.logs._bandit_logs import BanditLogs

__all__ = ["BanditLogs"]

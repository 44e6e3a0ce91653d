# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Where to practise: logs whose true values are known."""

from skope_ope.datasets._load import load_classification
from skope_ope.datasets._supervised import make_logs_from_classification
from skope_ope.datasets._synthetic import make_bandit_logs

__all__ = ["load_classification", "make_bandit_logs", "make_logs_from_classification"]

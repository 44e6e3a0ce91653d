# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Containers of logged rounds."""

from skope_ope.logs._bandit_logs import BanditLogs
from skope_ope.logs._concat import concat
from skope_ope.logs._context_encoder import ContextEncoder
from skope_ope.logs._folds import HashKFold
from skope_ope.logs._slate_logs import SlateLogs
from skope_ope.logs._transformer import DistinctViews
from skope_ope.logs.lazy._lazy_logs import LazyLogs
from skope_ope.logs.lazy._scan_logs import scan_logs

__all__ = [
    "BanditLogs",
    "ContextEncoder",
    "DistinctViews",
    "HashKFold",
    "LazyLogs",
    "SlateLogs",
    "concat",
    "scan_logs",
]

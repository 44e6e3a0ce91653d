# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Readers of logs in other formats."""

from skope_ope.readers._obp import from_obp, to_obp
from skope_ope.readers._read_assignments import read_eppo, read_growthbook
from skope_ope.readers._read_open_bandit import read_open_bandit
from skope_ope.readers._read_vw import read_vw
from skope_ope.readers._table_logs import read_jsonl

__all__ = [
    "from_obp",
    "read_eppo",
    "read_growthbook",
    "read_jsonl",
    "read_open_bandit",
    "read_vw",
    "to_obp",
]

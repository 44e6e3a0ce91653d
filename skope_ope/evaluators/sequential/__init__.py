# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Evaluators that take the rounds in their order, for policies that may learn."""

from skope_ope.evaluators.sequential._drns import DRns, drns_sum_bias_bound
from skope_ope.evaluators.sequential._repeated_runs import repeated_runs
from skope_ope.evaluators.sequential._replay import (
    RejectionSampling,
    Replay,
    replay_log_length,
)

__all__ = [
    "DRns",
    "RejectionSampling",
    "Replay",
    "drns_sum_bias_bound",
    "repeated_runs",
    "replay_log_length",
]

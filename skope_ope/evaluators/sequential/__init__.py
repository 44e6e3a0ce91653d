# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Evaluators that walk through the logs in order, for policies that may learn."""

from skope_ope.evaluators.sequential._drns import DRns
from skope_ope.evaluators.sequential._drns_bounds import drns_sum_bias_bound
from skope_ope.evaluators.sequential._rejection_sampling import RejectionSampling
from skope_ope.evaluators.sequential._repeated_runs import repeated_runs
from skope_ope.evaluators.sequential._replay import Replay, replay_log_length

__all__ = [
    "DRns",
    "RejectionSampling",
    "Replay",
    "drns_sum_bias_bound",
    "repeated_runs",
    "replay_log_length",
]

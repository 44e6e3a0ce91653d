# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""How well a log covers a policy that learns, as far as its walk through it tells."""

from skope_ope.evaluators.core._overlap import Overlap
from skope_ope.evaluators.core._warnings import (
    mean_weight_warnings,
    propensity_warnings,
)

WALK_Z = 4.5  # weights of a policy that learns are far from normal


def walked_overlap(runs, logs):
    r"""Sum the weights :math:`\pi(a_k|x_k, h) / p_k` of the histories that were lived.

    Given its history each has mean one, where the policy wants nothing that the logger
    never does. What it wants of other actions is not known: it was not recorded.
    """
    overlap = Overlap()
    for run in runs:
        overlap.add(run.trace.pi / logs.propensity[run.rows], 0.0)
    return overlap


def walk_warnings(logs, overlap):
    """Return warnings where the propensities do not fit the walk, or the log."""
    warned = propensity_warnings(logs)
    # Mass on actions that are never logged lowers the mean weight by itself.
    if overlap.mean_weight_z > 0 or not _leaves_out(logs):
        warned += mean_weight_warnings(overlap, logs, WALK_Z)
    return warned


def _leaves_out(logs):
    return logs.unseen.size or logs.propensity.max() >= 1

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Whether recorded propensities fit the logged actions."""

from math import copysign, inf, nan, sqrt

BLOCK = 8192  # rows; nothing as long as the logs is made


def inverse_propensity_z(logs):
    r"""Return the mean of 1/p against the number of actions, in standard errors.

    Under the right propensities :math:`E[1/p]` is the number of offered actions that
    the logger may take. Actions that were never logged are left out: what that means
    for a policy is a matter of its support.
    """
    n_rounds = len(logs)
    if n_rounds < 2:
        return nan
    total = square = 0.0
    offered = logs.n_actions - len(logs.unseen)
    for start in range(0, n_rounds, BLOCK):
        rows = slice(start, start + BLOCK)
        if logs.available is not None:
            offered = (logs.available[rows] & (logs.action_counts > 0)).sum(axis=1)
        gap = 1 / logs.propensity[rows] - offered
        if logs.sample_weight is not None:
            gap *= logs.sample_weight[rows]
        total += float(gap.sum())
        square += float(gap.dot(gap))
    variance = (square - total * total / n_rounds) / (n_rounds - 1)
    if variance <= 1e-14 * square / n_rounds:
        # the same gap in all rounds: rounding, or propensities of another experiment
        return 0.0 if abs(total) <= 1e-6 * n_rounds else copysign(inf, total)
    return total / n_rounds / sqrt(variance / n_rounds)

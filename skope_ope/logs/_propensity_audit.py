# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Whether recorded propensities fit the logged actions."""

from __future__ import annotations

from math import copysign, inf, log, nan, sqrt
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaln

from skope_ope._types import Array
from skope_ope.logs._labels import row_blocks, rows_of_codes
from skope_ope.logs._validation import PROBA_TOLERANCE

if TYPE_CHECKING:
    from skope_ope.logs._bandit_logs import BanditLogs

SURPRISING_CHANCE = 1e-5  # chances below this are told
DRIFT_Z = 6  # standard errors, one comparison per action
AUDITED_ROWS = 8192  # at a time; nothing as long as the logs is made


def acting_loggers(logs):
    """Return how many loggers acted; logs that do not say who did have one."""
    if getattr(logs, "loggers", None) is None:
        return 1
    return int((logs._logger_counts > 0).sum())


def estimating_step(logs):
    """Return the name of the step that estimates the propensities of such logs."""
    several = acting_loggers(logs) > 1
    return "LoggerPropensityEstimator" if several else "PropensityEstimator"


def uneven_weight(logs, rows):
    """Return the sample weights of rows over the largest, None where they are equal."""
    weight = logs.sample_weight
    if weight is None or weight.min() == weight.max():
        return None
    return weight[rows] / weight.max()


def inverse_propensity_z(logs: BanditLogs) -> float:
    r"""Return the mean of 1/p against the number of actions, in standard errors.

    Under the right propensities :math:`E[1/p]` is the number of offered actions that
    the logger may take. Actions that were never logged are left out: what that means
    for a policy is a matter of its support.
    """
    n_rounds = len(logs)
    if n_rounds < 2:
        return nan
    total = square = 0.0
    grouped = None if logs.group is None else np.zeros((2, logs.n_groups))
    offered = logs.n_actions - len(logs._unseen)
    for rows in row_blocks(len(logs), AUDITED_ROWS):
        if logs.available is not None:
            offered = (logs.available[rows] & (logs._action_counts > 0)).sum(axis=1)
        gap = 1 / logs.propensity[rows] - offered
        if logs.sample_weight is not None:
            gap *= logs.sample_weight[rows]
        total += float(gap.sum())
        square += float(gap.dot(gap))
        if grouped is not None:
            np.add.at(grouped[0], logs.group_index[rows], gap)
            np.add.at(grouped[1], logs.group_index[rows], 1.0)
    spread = gap_spread(n_rounds, total, square)
    if not spread:
        n_units = n_rounds if grouped is None else grouped.shape[1]
        return same_gap_z(total / n_rounds, logs.propensity, n_units)
    if grouped is None:
        return total / spread
    change = grouped[0] - total / n_rounds * grouped[1]
    return grouped_z(total, change, len(change))


def gap_spread(n_rounds, total, square, size=0.0):
    """Return the standard error of a sum of gaps, 0 where all are the same."""
    variance = (square - total * total / n_rounds) / (n_rounds - 1)
    if variance <= 1e-14 * max(square, size) / n_rounds:
        return 0.0
    return sqrt(variance * n_rounds)


def grouped_z(total, change, n_groups):
    """Return a sum in standard errors of the sums of its groups."""
    if n_groups < 2:
        return nan  # nothing tells how groups differ
    square = float(change @ change) * n_groups / len(change)
    error = sqrt(n_groups / (n_groups - 1) * square)
    return total / error if error > 0 else copysign(inf, total)


def same_gap_z(gap, p, n_units):
    r"""Return a z for 1/p that exceeds the number of actions by the same everywhere."""
    # Either rounding, or 1/p counts actions that were never drawn: K of M were, which
    # has a probability of at most :math:`\binom{M}{K} (K / M)^n`. Fewer than K cannot
    # be.
    if abs(gap) <= 1e-6:
        return 0.0
    if gap < 0:
        return -inf
    m = float((1 / p).mean())
    k = m - gap
    log_chance = gammaln(m + 1) - gammaln(k + 1) - gammaln(gap + 1)
    return sqrt(max(-2 * (log_chance + n_units * log(k / m)), 0.0))


def action_count_law(logs: BanditLogs) -> tuple[Array, Array] | None:
    """Return mean and variance of the counts of the actions, or None if not known.

    They follow from the whole logging distribution, or from propensities that belong
    to the actions alone or are uniform over the offered ones.
    """
    mu, p = logs.logging_proba, logs.propensity
    if mu is not None:
        return law_of(mu)
    if p is None:
        return None
    if logs.available is not None:
        return uniform_law(logs)
    return law_by_action(logs._propensity_by_action, len(logs))


def law_of(mu):
    """Return mean and variance of the counts of independent draws from rows of mu."""
    mean = mu.sum(axis=0)
    return mean, mean - np.einsum("ij,ij->j", mu, mu)


def propensity_by_action(logs: BanditLogs) -> Array | None:
    """Return the propensity of every action where it belongs to the action alone.

    Returns
    -------
    propensity : ndarray of shape (n_actions,) or None
        Zero for actions that were never logged.
    """
    by_action = np.zeros(logs.n_actions)
    for rows in row_blocks(len(logs), AUDITED_ROWS):  # most loggers differ in the first
        code, p = logs.action_index[rows], logs.propensity[rows]
        new = by_action[code] == 0
        by_action[code[new]] = p[new]
        if (by_action[code] != p).any():
            return None
    return by_action


def law_by_action(by_action, n_rounds):
    """Return the law where the propensity belongs to the action alone, else None."""
    if by_action is None or abs(by_action.sum() - 1) > PROBA_TOLERANCE:
        return None
    mean = n_rounds * by_action
    return mean, mean * (1 - by_action)


def uniform_law(logs):
    """Return the law of uniform choices among the offered actions."""
    # None where the propensities tell that they were not uniform.
    mean, variance = np.zeros((2, logs.n_actions))
    for rows in row_blocks(len(logs), AUDITED_ROWS):
        mu = logs.available[rows] / logs.available[rows].sum(axis=1)[:, None]
        taken = mu[np.arange(len(mu)), logs.action_index[rows]]
        if np.abs(taken - logs.propensity[rows]).max() > PROBA_TOLERANCE:
            return None
        mean += mu.sum(axis=0)
        variance += (mu * (1 - mu)).sum(axis=0)
    return mean, variance


def action_count_z(logs):
    """Return how far the counts are from their means, in standard deviations."""
    # With groups the deviations are those of rounds that all repeat the choice of their
    # group: the largest that there can be.
    mean, variance = logs._action_count_law
    variance = variance * group_sizes(logs._group_sizes)[0]
    excess = logs._action_counts - mean
    out = np.zeros(len(mean))
    return np.divide(excess, np.sqrt(variance), out=out, where=variance > 0)


def least_possible(n_rounds, n_actions):
    """Return what no propensity of a log of this size should lie below."""
    return SURPRISING_CHANCE / (n_rounds * n_actions)


def count_chance(excess, variance, sizes=None):
    r"""Bound how probable counts at least as far from their means are, by action."""
    # Bennett's inequality in both directions: for sums of independent indicators (and
    # of those of a logger that learns) with variance V, :math:`P(|S - E S| \ge t) \le 2
    # \exp(-V h(t / V))`, :math:`h(u) = (1 + u) \ln(1 + u) - u`. A normal quantile would
    # ring where an action that is expected .01 times was logged once.
    usual, largest = group_sizes(sizes)
    variance = np.maximum(variance * usual, 1e-12) / largest**2
    u = np.abs(excess) / largest / variance
    return 2 * np.exp(-variance * ((1 + u) * np.log1p(u) - u))


def group_sizes(sizes):
    """Return the size of the group of a usual round, and of the largest group."""
    if sizes is None:
        return 1.0, 1.0
    return float(sizes @ sizes / sizes.sum()), float(sizes.max())


def propensities_drift(logs: BanditLogs) -> bool:
    """Tell whether propensities of some action move with time beyond chance."""
    time = np.arange(len(logs)) - (len(logs) - 1) / 2
    for rows in rows_of_codes(logs.action_index, logs.n_actions):
        p, t = logs.propensity[rows], time[rows]
        if len(rows) < 30 or p.std() < 1e-9:
            continue
        if logs.group is None:
            z = abs(np.corrcoef(p, t)[0, 1]) * np.sqrt(len(rows))
        else:
            z = _grouped_drift_z((p - p.mean()) * (t - t.mean()), logs, rows)
        if z > DRIFT_Z:
            return True
    return False


def _grouped_drift_z(product, logs, rows):
    """Return the sum of some rounds' products in standard errors of sums of groups."""
    group = logs.group_index[rows]
    sizes = np.bincount(group)
    n_groups = np.count_nonzero(sizes)
    if n_groups < 30:
        return 0.0  # too few to tell a trend from what groups have in common
    change = np.bincount(group, product) - product.mean() * sizes
    error = np.sqrt(n_groups / (n_groups - 1) * change.dot(change))
    return abs(product.sum()) / error if error > 0 else 0.0

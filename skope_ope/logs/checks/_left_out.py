# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Whether chance left actions out of a log, or the logger could not take them."""

from math import sqrt

import numpy as np
from scipy.special import pdtrc

from skope_ope.logs._propensity_audit import uneven_weight

ERRORS = 3  # standard errors of the mean of 1/p
SURPRISE = 1e-3  # chance below which it did not leave so many out


def left_out_by_chance(logs):
    r"""Tell whether a logger could take the actions that it never took.

    The mean of 1/p is the number of offered actions that the logger may take: K where
    it may take all, and K less the number U of those that were never logged where it
    may take none of them. It must be K within U / 2, three standard errors included,
    and chance must be able to leave out U: with constant p it leaves out
    :math:`K (1 - p)^n` on average. Otherwise about as many actions, or more, must
    have been taken once.

    Parameters
    ----------
    logs : BanditLogs
        The rounds.

    Returns
    -------
    by_chance : bool
        False where the propensities are not known, estimated or weighted unevenly, or
        where `logging_proba` tells what the logger could do.
    """
    p, unseen = logs.propensity, logs.unseen
    known = p is not None and logs.logging_proba is None
    if not known or logs.propensity_estimated or not len(unseen):
        return False
    if uneven_weight(logs, slice(None)) is not None:
        return False
    offered, never = logs.n_actions, len(unseen)
    if logs.available is not None:
        offered = logs.available.sum(axis=1)
        never = float(logs.available[:, unseen].sum(axis=1).mean())
    gap, error = _mean_and_error(1 / p - offered, logs)
    if not abs(gap) + ERRORS * error < never / 2:
        return False
    return bool(pdtrc(len(unseen) - 1, _expected(logs)) >= SURPRISE)


def _mean_and_error(values, logs):
    """Return a mean and its standard error, with groups that of their sums."""
    mean = float(values.mean())
    change = values - mean
    if logs.group is not None:
        change = np.bincount(logs.group_index, change)
    n = len(change)
    if n < 2:
        return mean, np.inf
    return mean, sqrt(n / (n - 1) * float(change @ change)) / len(values)


def _expected(logs):
    """Return how many actions chance may leave out of so many choices."""
    counts = logs.action_counts
    if logs.group is not None:  # a group that repeats a choice has made it once
        pair = np.unique(logs.group_index * logs.n_actions + logs.action_index)
        counts = np.bincount(pair % logs.n_actions, minlength=logs.n_actions)
    n_choices, p = int(counts.sum()), logs.propensity
    if logs.available is None and p.min() == p.max():
        return logs.n_actions * (1 - float(p[0])) ** n_choices
    once = int((counts == 1).sum())
    return once * max(1.0, 2 * logs.n_actions / n_choices)

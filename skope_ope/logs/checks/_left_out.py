# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Whether chance left actions out of a log, or the logger could not take them."""

from math import inf, isnan, nan, sqrt
from typing import NamedTuple

import numpy as np
from scipy.special import pdtrc

ERRORS = 3  # standard errors of the mean of 1/p
SURPRISE = 1e-3  # chance below which it did not leave so many out


def left_out_by_chance(logs):
    r"""Tell whether a logger could take the actions that it never took."""
    # The mean of 1/p is the number of offered actions that the logger may take: K where
    # it may take all, and K less the number U of those that were never logged where it
    # may take none of them. It must be K within U / 2, three standard errors included,
    # and chance must be able to leave out U: with constant p it leaves out :math:`K (1
    # - p)^n` on average. Otherwise about as many actions, or more, must have been taken
    # once.
    known = logs.propensity is not None and logs.logging_proba is None
    if not known or logs.propensity_estimated or not len(logs._unseen):
        return False
    if logs._weighs_unevenly:
        return False
    return is_by_chance(logs, logs._choices)


class Choices(NamedTuple):
    """What the rounds of a log tell of the actions that the logger could take."""

    gap: float  # mean of 1/p less the number of offered actions, and its standard error
    # Mean of 1/p less the number of offered actions, and its standard error
    error: float
    never: float  # mean number of the offered actions that were never logged
    n: int  # number of choices: a group that repeats one has made it once
    n_once: int  # number of actions that were chosen once
    # The propensity of all rounds where all actions are always offered, NaN where they
    # differ
    constant: float


def is_by_chance(logs, told):
    """Tell whether chance left out what was never logged."""
    if not abs(told.gap) + ERRORS * told.error < told.never / 2:
        return False
    n_actions, n_unseen = logs.n_actions, len(logs._unseen)
    if isnan(told.constant):
        expected = told.n_once * max(1.0, 2 * n_actions / told.n)
    else:
        expected = n_actions * (1 - told.constant) ** told.n
    return bool(pdtrc(n_unseen - 1, expected) >= SURPRISE)


def choices_of(logs):
    """Return the `Choices` of logs with propensities and actions never logged."""
    p, unseen = logs.propensity, logs._unseen
    offered, never, constant = logs.n_actions, len(unseen), nan
    if logs.available is not None:
        offered = logs.available.sum(axis=1)
        never = float(logs.available[:, unseen].sum(axis=1).mean())
    elif p.min() == p.max():
        constant = float(p[0])
    gap, error = _mean_and_error(1 / p - offered, logs)
    counts = logs._action_counts
    if logs.group is not None:
        pair = np.unique(logs.group_index * logs.n_actions + logs.action_index)
        counts = np.bincount(pair % logs.n_actions, minlength=logs.n_actions)
    n_once = int((counts == 1).sum())
    return Choices(gap, error, never, int(counts.sum()), n_once, constant)


def choices_of_sums(sums):
    """Get the `Choices` of a log from its `LogSums`; its weights are all the same."""
    # With groups and actions that one part has not seen and another does not know, what
    # the groups chose is not known: then nothing is by chance.
    told, n, unseen = sums.propensities, sums.n, sums._unseen
    weight = sums.weight_high
    never, constant = float(len(unseen)), nan
    if told.offered is not None:
        never = float(told.offered[unseen].sum()) / n
    elif told.low == told.high:
        constant = told.low
    gap = told.gap / weight / n
    if sums.groups is None:
        square = told.gap_square / weight**2 - n * gap * gap
        counts = sums._action_counts
        n_once = int((counts == 1).sum())
        return Choices(gap, error_of_mean(square, n, n), never, n, n_once, constant)
    groups, pairs = sums.groups, sums.pairs
    change = groups["gap"] / weight - gap * groups["n"]
    square = float(change @ change) * groups.per_kept
    error = error_of_mean(square, groups.n_groups, n)
    if pairs is None:
        return Choices(gap, inf, never, n, 0, constant)
    return Choices(gap, error, never, pairs.n_pairs, pairs.n_once, constant)


def _mean_and_error(values, logs):
    """Return a mean and its standard error, with groups that of their sums."""
    mean = float(values.mean())
    change = values - mean
    if logs.group is not None:
        change = np.bincount(logs.group_index, change)
    square = float(change @ change)
    return mean, error_of_mean(square, len(change), len(values))


def error_of_mean(square, n_units, n_rounds):
    """Return the standard error of a mean, from squares of centred sums of units."""
    if n_units < 2:
        return inf
    return sqrt(n_units / (n_units - 1) * max(square, 0.0)) / n_rounds

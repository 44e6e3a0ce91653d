# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Sums of recorded propensities, laws of counts, and what chance leaves out.

The tests of propensities follow from these, in memory as from parts of a log.
"""

from __future__ import annotations

from copy import copy
from math import copysign, inf, isnan, log, nan, sqrt
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln, pdtrc

from skope_ope._types import Array
from skope_ope.logs._labels import row_blocks, rows_of_codes
from skope_ope.logs._validation import PROBA_TOLERANCE
from skope_ope.logs.sums._group_sums import (
    EVERY_GROUP,
    WordsOfGroups,
    pairs_of_groups,
    sums_of_groups,
)

SURPRISING_CHANCE = 1e-5  # chances below this are told
DRIFT_Z = 6  # standard errors, one comparison per action
AUDITED_ROWS = 8192  # at a time; nothing as long as the logs is made
GRIDS = (1, 2, 3)  # decimals of rounded propensities
ROWS_NAMED = 10  # rows
FEW_DECIMALS = 5  # with one decimal, that loggers are set to: .5, .9


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


def inverse_propensity_z(logs: Any) -> float:
    """Return the mean of 1/p against the number of actions, in standard errors."""
    # Under the right propensities :math:`E[1/p]` is the number of offered actions that
    # the logger may take. Actions that were never logged are left out: what that means
    # for a policy is a matter of its support.
    if len(logs) < 2:
        return nan
    total = square = 0.0
    change = n = None
    if logs.group is not None:
        change, n = np.zeros((2, logs.n_groups))
    offered = logs.n_actions - len(logs._unseen)
    for rows in row_blocks(len(logs), AUDITED_ROWS):
        if logs.available is not None:
            offered = (logs.available[rows] & (logs._action_counts > 0)).sum(axis=1)
        gap = 1 / logs.propensity[rows] - offered
        if logs.sample_weight is not None:
            gap *= logs.sample_weight[rows]
        total += float(gap.sum())
        square += float(gap.dot(gap))
        if change is not None:
            np.add.at(change, logs.group_index[rows], gap)
            np.add.at(n, logs.group_index[rows], 1.0)
    if change is not None:
        change = change - total / len(logs) * n
    return z_of_gaps(logs, total, square, change)


def z_of_gaps(logs, total, square, change=None, size=0.0):
    """Return a sum of gaps in standard errors, `change` those of groups about it."""
    n_rounds, n_groups = len(logs), logs.n_groups
    variance = (square - total * total / n_rounds) / (n_rounds - 1)
    if variance <= 1e-14 * max(square, size) / n_rounds:
        n_units = n_rounds if change is None else n_groups
        return same_gap_z(total / n_rounds, logs.propensity, n_units)
    if change is None:
        return total / sqrt(variance * n_rounds)
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


def action_count_law(logs: Any) -> tuple[Array, Array] | None:
    """Return mean and variance of the counts of the actions, or None if not known."""
    # They follow from the whole logging distribution, or from propensities that belong
    # to the actions alone or are uniform over the offered ones.
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
    mean = np.einsum("ij->j", mu)  # quicker than `sum` where columns are few
    return mean, mean - np.einsum("ij,ij->j", mu, mu)


def propensity_by_action(logs: Any) -> Array | None:
    """Return the propensity of every action where it belongs to the action alone."""
    # It is zero for actions that were never logged.
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


def rounding_error(p, n_actions):
    """Return half the step of the grid on which propensities lie, 0 if on none."""
    # A few values with one decimal are taken to have two: loggers are set to .5 and .9.
    # One or two values that add up to one over all actions were not rounded at all.
    for digits in GRIDS:
        near = np.round(p, digits)
        if ((np.abs(p - near) < 1e-7) & (near > 0)).all():
            values = np.unique(near)
            others = n_actions - 1 if len(values) == 2 else n_actions
            rest = 1 - values[-1] if len(values) == 2 else 1
            if len(values) <= 2 and abs(rest - others * values[0]) < 1e-6:
                return 0.0
            if digits == 1 and len(values) < FEW_DECIMALS:
                digits = 2
            return 0.5 * 10.0**-digits
    return 0.0


def propensities_drift(logs: Any) -> bool:
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


# -- whether chance left actions out of a log, or the logger could not take them -------


GAP_ERRORS = 3  # standard errors of the mean of 1/p
LEFT_OUT_CHANCE = 1e-3  # chance below which it did not leave so many out


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
    return not logs._weighs_unevenly and is_by_chance(logs, logs._choices)


class Choices(NamedTuple):
    """What the rounds of a log tell of the actions that the logger could take."""

    gap: float  # mean of 1/p less the number of offered actions,
    error: float  # and its standard error
    never: float  # mean number of the offered actions that were never logged
    n: int  # number of choices: a group that repeats one has made it once
    n_once: int  # number of actions that were chosen once
    # The propensity of all rounds where all actions are always offered, NaN where they
    # differ
    constant: float


def is_by_chance(logs, told):
    """Tell whether chance left out what was never logged."""
    if not abs(told.gap) + GAP_ERRORS * told.error < told.never / 2:
        return False
    n_actions, n_unseen = logs.n_actions, len(logs._unseen)
    if isnan(told.constant):
        expected = told.n_once * max(1.0, 2 * n_actions / told.n)
    else:
        expected = n_actions * (1 - told.constant) ** told.n
    return bool(pdtrc(n_unseen - 1, expected) >= LEFT_OUT_CHANCE)


def choices_of(logs):
    """Return the `Choices` of logs with propensities and actions never logged."""
    propensities, gap = PropensitySums.of(logs)
    weight, groups, pairs = logs.sample_weight, None, None
    if logs.group is not None:
        words = WordsOfGroups(logs, EVERY_GROUP)
        groups = sums_of_groups(logs, words, {"gap": gap})
        pairs = pairs_of_groups(logs, words, len(logs))
    weight = 1.0 if weight is None else float(weight.max())
    return choices_of_sums(logs, propensities, weight, groups, pairs)


def choices_of_sums(log, propensities, weight, groups, pairs):
    """Return the `Choices` of a log of rounds with one weight, from its sums."""
    # With groups and actions that one part has not seen and another does not know, what
    # the groups chose is not known: then nothing is by chance.
    n, unseen = propensities.n, log._unseen
    never, constant = float(len(unseen)), nan
    if propensities.offered is not None:
        never = float(propensities.offered[unseen].sum()) / n
    elif propensities.low == propensities.high:
        constant = propensities.low
    gap = propensities.gap / weight / n
    if groups is None:
        square = propensities.gap_square / weight**2 - n * gap * gap
        n_once = int((log._action_counts == 1).sum())
        return Choices(gap, error_of_mean(square, n, n), never, n, n_once, constant)
    change = groups["gap"] / weight - gap * groups["n"]
    square = float(change @ change) * groups.per_kept
    error = error_of_mean(square, groups.n_groups, n)
    if pairs is None:
        return Choices(gap, inf, never, n, 0, constant)
    return Choices(gap, error, never, pairs.n_pairs, pairs.n_once, constant)


def error_of_mean(square, n_units, n_rounds):
    """Return the standard error of a mean, from squares of centred sums of units."""
    if n_units < 2:
        return inf
    return sqrt(n_units / (n_units - 1) * max(square, 0.0)) / n_rounds


# -- sums that add up over parts of a log ----------------------------------------------

FACTORS = 16  # propensities whose product is a float, whatever they are
MOST_SMALL = 64  # impossible propensities that are kept
PROPENSITY_SUMS = (
    "n",
    "total",
    "log_sum",
    "mass",
    "mass_square",
    "gap",
    "gap_cross",
    "gap_square",
)


class PropensitySums:
    r"""Sums of the propensities p of some rounds of logs with actions."""

    # A gap is :math:`d = 1 / p - K`, with the number K of the actions that were
    # offered; it counts with the sample weight :math:`\omega` of its round.

    @classmethod
    def of(cls, logs):
        """Return the sums of some rounds, at least one, and the gaps of the rounds."""
        out = cls.__new__(cls)
        p, weight = logs.propensity, logs.sample_weight
        out.n, out.n_actions = len(p), logs.n_actions
        out.low, out.high, out.total = float(p.min()), float(p.max()), float(p.sum())
        out.log_sum = log_sum(p, out.low)
        offered = logs.n_actions
        out.offered = None
        if logs.available is not None:
            offered = logs.available.sum(axis=1)
            out.offered = logs.available.sum(axis=0)
        gap = 1 / p
        gap -= offered
        out.mass = out.mass_square = float(out.n)
        out.gap, out.gap_square = float(gap.sum()), float(gap @ gap)
        out.gap_cross = out.gap
        if weight is not None:
            out.mass, out.mass_square = float(weight.sum()), float(weight @ weight)
            out.gap_cross = float(weight @ (weight * gap))
            gap *= weight
            out.gap, out.gap_square = float(gap.sum()), float(gap @ gap)
        out.by_action = logs._propensity_by_action
        out.law = None
        if logs.logging_proba is not None:
            out.law = np.array(law_of(logs.logging_proba))
        elif logs.available is not None:
            law = uniform_law(logs)
            out.law = None if law is None else np.array(law)
        out.small = _smallest_of(logs, out.low)
        return out, gap

    def among(self, n_actions, places):
        """Return the same where the actions are some of others."""
        if places is None:
            return self
        out = copy(self)
        out.n_actions = n_actions
        out.small = {**self.small, "action": places[self.small["action"]]}
        for name in ("by_action", "offered", "law"):
            values = getattr(self, name)
            if values is not None:
                wide = np.zeros((*values.shape[:-1], n_actions), dtype=values.dtype)
                wide[..., places] = values
                setattr(out, name, wide)
        if self.offered is None:
            more = n_actions - self.n_actions
            out.gap, out.gap_square = self.about(more)
            out.gap_cross = self.gap_cross - more * self.mass_square
        return out

    def about(self, more):
        """Return the sum of the gaps to some more actions, and of their squares."""
        square = self.gap_square - 2 * more * self.gap_cross
        return self.gap - more * self.mass, square + more * more * self.mass_square

    def __add__(self, other):
        """Return the sums of both parts, whose actions are the same."""
        out = copy(self)
        for name in PROPENSITY_SUMS:
            setattr(out, name, getattr(self, name) + getattr(other, name))
        out.low, out.high = min(self.low, other.low), max(self.high, other.high)
        for name in ("offered", "law"):
            mine, theirs = getattr(self, name), getattr(other, name)
            both = mine is not None and theirs is not None
            setattr(out, name, mine + theirs if both else None)
        out.by_action = _agreed(self.by_action, other.by_action)
        small = {
            name: np.concatenate([values, other.small[name]])
            for name, values in self.small.items()
        }
        out.small = _smallest(small)
        return out

    def below(self, limit):
        """Return kept propensities below a limit, rising, their positions, actions."""
        some = self.small["p"] < limit
        return tuple(self.small[name][some] for name in ("p", "position", "action"))


def _smallest_of(logs, lowest):
    limit = least_possible(len(logs), logs.n_actions)
    p, rows, action = logs._propensities_below(limit if lowest < limit else 0.0)
    position = logs.row_id.position[rows] if len(rows) else rows
    return _smallest({"p": p, "position": position, "action": action})


def _smallest(small):
    order = np.lexsort((small["position"], small["p"]))[:MOST_SMALL]
    return {name: values[order] for name, values in small.items()}


def _agreed(one, other):
    """Return propensities by action that two parts agree about, else None."""
    if one is None or other is None:
        return None
    both = (one > 0) & (other > 0)
    return np.maximum(one, other) if (one[both] == other[both]).all() else None


def log_sum(p, lowest=-inf):
    """Return the sum of the logarithms of some numbers in (0, 1]."""
    if lowest**FACTORS < 1e-290 or len(p) < FACTORS:  # their products are no floats
        return float(np.log(p).sum())
    whole = len(p) // FACTORS * FACTORS
    products = np.multiply.reduce(p[:whole].reshape(FACTORS, -1), axis=0)
    return float(np.log(products).sum() + np.log(p[whole:]).sum())

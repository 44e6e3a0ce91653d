# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What the mean of 1/p tells of propensities: too small ones, too large ones."""

from dataclasses import dataclass
from functools import cached_property
from math import inf, log, sqrt

import numpy as np

FEW_CLUSTERS = 30  # groups, from which nothing is told about a mean
MANY_ROUNDS = 15  # in one half of the rounds: an action that the other half tests
GRIDS = (1, 2, 3)  # decimals of rounded propensities
HEAVY = 4  # 1/p above sqrt(n) / 4 stands for more of the kind, not seen yet:
UNSEEN_PER_SEEN = 8  # so much more
OFTEN_ENOUGH = 50  # rounds of an action, for what is missing


@dataclass(frozen=True)
class Excess:
    """By how much a mean exceeds what it should be.

    Parameters
    ----------
    ratio : float
        The mean over what it should be.
    z : float
        Its distance from that in standard errors; `inf` where rounds do not differ.
    n : int
        Number of rounds or groups that tell.
    """

    ratio: float
    z: float
    n: int

    def beyond(self, z, ratio):
        """Tell whether it is far beyond chance and large.

        A log of n rounds with the same 1/p has no error. Then it is the chance that
        nothing else was drawn that counts: ratio to the power -n.
        """
        return (
            self.n >= FEW_CLUSTERS
            and self.z > z
            and self.ratio > ratio
            and self.n * log(self.ratio) > z**2 / 2
        )


class InversePropensities:
    r"""Means of 1/p, by rounds or groups, with sample weights.

    Under right propensities :math:`E[I(a \in S)/p] = |S|` for actions that may be
    taken in every context, and less where some may not. Recorded ones that were
    rounded stand for all in half a step of them: what follows is told only where no
    such propensities explain it.

    Parameters
    ----------
    logs : BanditLogs
        With propensities.
    """

    def __init__(self, logs):
        self.logs = logs

    @cached_property
    def half_step(self):
        """Largest error that rounding may have made, 0 where none is apparent."""
        return rounding_error(self.logs.propensity)

    @cached_property
    def at_least(self):
        """The smallest that 1/p can be, ndarray of shape (n_rounds,)."""
        return self._weighted(1 / (self.logs.propensity + self.half_step))

    def _weighted(self, values):
        weight = self.logs.sample_weight
        return values if weight is None else values * (weight / weight.mean())

    @cached_property
    def _cell(self):
        """Codes of (acting logger, action)."""
        logs = self.logs
        if logs.loggers is None or len(logs.loggers) < 2:
            return logs.action_index
        return logs.logger_index * logs.n_actions + logs.action_index

    @cached_property
    def _half(self):
        """Halves of the rounds; the rounds of a group stand in the same."""
        logs = self.logs
        rounds = np.arange(len(logs)) if logs.group is None else logs.group_index
        return rounds % 2

    @cached_property
    def frequent(self):
        """Which rounds took an action that the other half of the rounds took often.

        Actions that are chosen by their counts in the same rounds would look too
        frequent.
        """
        often = self._often
        return often[1 - self._half, self._cell]

    @cached_property
    def _often(self):
        n_cells = self.logs.n_actions
        if self.logs.loggers is not None:
            n_cells *= max(len(self.logs.loggers), 1)
        return np.array(
            [
                np.bincount(self._cell[self._half == half], minlength=n_cells)
                >= MANY_ROUNDS
                for half in (0, 1)
            ]
        )

    def _sizes(self, which):
        """Return how many actions of a set by logger each round could take.

        `which` has shape (n_loggers * n_actions,).
        """
        logs = self.logs
        which = which.reshape(-1, logs.n_actions)
        logger = None if len(which) == 1 else logs.logger_index
        if logs.available is None:
            sizes = which.sum(axis=1).astype(float)
            return sizes[0] if logger is None else sizes[logger]
        if logger is None:
            return logs.available @ which[0].astype(float)
        return np.einsum("ij,ij->i", logs.available, which[logger].astype(float))

    def too_small(self):
        """Return the `Excess` of 1/p over the number of the frequent actions."""
        often = self._often
        expected = np.empty(len(self.logs))
        for half in (0, 1):
            rows = self._half == half
            sizes = self._sizes(often[1 - half])
            expected[rows] = sizes if np.ndim(sizes) == 0 else sizes[rows]
        return self._excess(self.at_least * self.frequent, self._weighted(expected))

    def too_small_for(self, action):
        """Return the `Excess` of I(a)/p over one, for an action by its code."""
        taken = self.at_least * (self.logs.action_index == action)
        offered = np.ones(len(self.logs))
        if self.logs.available is not None:
            offered = self.logs.available[:, action].astype(float)
        return self._excess(taken, self._weighted(offered))

    def by_action(self):
        """Return the means of I(a)/p over what they should be."""
        logs = self.logs
        sums = np.bincount(logs.action_index, self.at_least, minlength=logs.n_actions)
        if logs.available is None:
            return sums / len(logs)
        offered = self._weighted(np.ones(len(logs))) @ logs.available
        return np.divide(sums, offered, out=np.zeros(len(sums)), where=offered > 0)

    def _excess(self, values, expected):
        total, error, n = self._sum_and_error(values - expected)
        should = float(np.sum(expected))
        if should <= 0:
            return Excess(1.0, 0.0, n)
        z = total / error if error > 0 else (inf if total > 0 else 0.0)
        return Excess(1 + total / should, z, n)

    def _sum_and_error(self, gap, rows=None):
        """Return the sum of some rounds' numbers, its error, and how many tell."""
        logs = self.logs
        if logs.group is not None:
            code = logs.group_index if rows is None else logs.group_index[rows]
            sizes = np.bincount(code, minlength=logs.n_groups)
            present = sizes > 0
            change = np.bincount(code, gap, minlength=logs.n_groups)[present]
            change -= gap.mean() * sizes[present]
        else:
            change = gap - gap.mean()
        n = len(change)
        error = sqrt(n / (n - 1) * float(change @ change)) if n > 1 else inf
        if error <= 1e-9 * np.abs(gap).sum():
            error = 0.0  # rounding
        return float(gap.sum()), error, n

    def too_large(self):
        r"""Return the `Excess` of a number of actions over what 1/p tells of it.

        Of rounds with a choice (p < 1) and the set S of actions that the acting logger
        took at least 50 times in them,

        .. math:: D = |S| - \overline{I(a \in S) / p}
           - 8\, \overline{I(1 / p > \sqrt{n} / 4) / p}

        The last term, of all actions, stands for what no log of this size can show:
        contexts in which an action is so improbable that it was never seen. A softmax
        of sharp logits has some in every octave of 1/p.

        Returns
        -------
        excess : Excess or None
            `ratio` is 1 + D / |S|. None where the propensities were rounded to so few
            digits that 1/p may be anything, and where no action was taken often.
        """
        logs, p = self.logs, self.logs.propensity
        rows = np.flatnonzero(p < 1 - 1e-9)
        if self.half_step and p.min() < 3.1 * self.half_step:
            return None
        counts = np.bincount(self._cell[rows], minlength=self._often.shape[1])
        often = counts >= OFTEN_ENOUGH
        if not often.any():
            return None
        could = self._weighted(self._could_take(often))[rows]
        every = self._weighted(1 / (p - self.half_step))[rows]
        most = every * often[self._cell[rows]]
        n = len(rows) if logs.group is None else len(np.unique(logs.group_index[rows]))
        root = sqrt(n)
        unseen = UNSEEN_PER_SEEN * every * (every > root / HEAVY)
        missing = float((could - most - unseen).sum())
        _, error, n = self._sum_and_error(np.minimum(most, root) - could, rows)
        z = missing / error if error > 0 else (inf if missing > 0 else 0.0)
        return Excess(1 + missing / float(could.sum()), z, n)

    def _could_take(self, often):
        logs = self.logs
        if logs.logging_proba is not None:
            of_action = often.reshape(-1, logs.n_actions).any(axis=0)
            return (logs.logging_proba > 0) @ of_action.astype(float)
        return np.broadcast_to(self._sizes(often), len(logs))


def rounding_error(p):
    """Return half the step of the grid on which propensities lie, 0 if on none.

    Those with one decimal are taken to have two, unless there are many of them:
    .5 and .1 are what loggers are set to.
    """
    some = p[:: max(len(p) // 100, 1)]
    for digits in GRIDS:
        if _on_grid(some, digits) and _on_grid(p, digits):
            if digits == 1 and len(np.unique(np.rint(10 * p))) < 5:
                digits = 2
            return 0.5 * 10.0**-digits
    return 0.0


def _on_grid(p, digits):
    return bool((np.abs(p - np.round(p, digits)) < 1e-7).all())

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What the mean of 1/p tells of propensities: too small ones, too large ones."""

from dataclasses import dataclass
from functools import cached_property
from math import inf, log, sqrt

import numpy as np

from skope_ope.logs._propensity_audit import uneven_weight

FEWEST_CLUSTERS = 30  # rounds or groups, from which a mean is judged
OFTEN_IN_HALF = 15  # in one half of the rounds: an action that the other half tests
OFTEN_ENOUGH = 50  # rounds of an action, for what is missing
HEAVY = 4  # 1/p above sqrt(n) / 4 stands for more of the kind, not seen yet:
UNSEEN_PER_SEEN = 40  # so much more
HARDLY_A_CHOICE = 0.99  # a probability that leaves others unseen in most logs
MOST_PAIRS = 1_000_000  # loggers times actions
GRIDS = (1, 2, 3)  # decimals of rounded propensities
ROWS_NAMED = 10  # rows
FEW_DECIMALS = 5  # with one decimal, that loggers are set to: .5, .9


@dataclass(frozen=True)
class Excess:
    """By how much a mean exceeds what it should be."""

    ratio: float  # the mean over what it should be
    # Its distance from that in standard errors; `inf` where rounds do not differ
    z: float
    n: int  # number of rounds or groups that tell

    def beyond(self, z, ratio):
        """Tell whether it is far beyond chance and large."""
        # Where 1/p is the same in all rounds there is no error. Then it counts how
        # probable it is that nothing else was drawn: at most ratio to the power -n.
        if self.n < FEWEST_CLUSTERS or self.z <= z or self.ratio <= ratio:
            return False
        return self.n * log(self.ratio) > z**2 / 2


class InversePropensities:
    r"""Means of 1/p, by rounds or groups, with sample weights."""

    # Under right propensities :math:`E[I(a \in S)/p] = |S|` for actions that may be
    # taken in every context, and less where some may not. Recorded ones that were
    # rounded stand for all in half a step of them: what follows is told only where no
    # such propensities explain it.

    def __init__(self, logs, rows, names=None):
        def part(values):
            return None if values is None else values[rows]

        self.held, self.rows, self._names = logs, rows, names
        self.p, self.action = logs.propensity[rows], logs.action_index[rows]
        self.group, self.available = part(logs.group_index), part(logs.available)
        self.mu, self.logger = part(logs.logging_proba), part(logs.logger_index)
        self.share = uneven_weight(logs, rows)
        self.weight = None if self.share is None else self.share / self.share.mean()
        self.n_actions = logs.n_actions
        n_loggers = 1 if logs.loggers is None else len(logs.loggers)
        # too many to tell apart: what each of them never does is not known
        self.pooled = n_loggers > 1 and n_loggers * logs.n_actions > MOST_PAIRS
        self.n_loggers = 1 if self.pooled else n_loggers

    def names(self, places):
        """Return where the rounds at some places of `p` stand in the log, as a list."""
        return self._named(self.rows[places])

    def shown(self, mask):
        """Return the same of the first rounds of `held` that a mask shows."""
        return self._named(np.flatnonzero(mask)[:ROWS_NAMED])

    def of(self, some):
        """Return the same of some of the rounds, given as a mask."""
        return InversePropensities(self.held, self.rows[some], self._names)

    def _named(self, rows):
        return (rows if self._names is None else self._names[rows]).tolist()

    @property
    def counts(self):
        """How often each action was taken, ndarray of shape (n_actions,)."""
        return np.bincount(self.action, minlength=self.n_actions)

    @property
    def group_sizes(self):
        """Numbers of rounds of the groups, or None."""
        if self.group is None:
            return None
        sizes = np.bincount(self.group)
        return sizes[sizes > 0]

    @cached_property
    def half_step(self):
        """Largest error that rounding may have made, 0 where none is apparent."""
        return rounding_error(self.p, self.n_actions)

    @cached_property
    def at_least(self):
        """The smallest that 1/p can be, weighted, ndarray of shape (n_rounds,)."""
        return self._weighted(1 / (self.p + self.half_step))

    def _weighted(self, values):
        return values if self.weight is None else values * self.weight

    @cached_property
    def _cell(self):
        """Codes of (acting logger, action)."""
        if self.n_loggers == 1:
            return self.action
        return self.logger * self.n_actions + self.action

    def _counts(self, rows):
        return np.bincount(self._cell[rows], minlength=self.n_loggers * self.n_actions)

    @cached_property
    def _half(self):
        """Halves of the rounds by lot; the rounds of a group stand in the same."""
        lots = np.random.RandomState(0)
        if self.group is None:
            return lots.randint(2, size=len(self.p))
        return lots.randint(2, size=self.group.max() + 1)[self.group]

    @cached_property
    def _often(self):
        """Cells that the rounds of the other half took often, (2, n_cells)."""
        # Actions that are chosen by their counts in the same rounds would look too
        # frequent.
        often = [self._counts(self._half == other) for other in (1, 0)]
        return np.array(often) >= OFTEN_IN_HALF

    @cached_property
    def frequent(self):
        """Which rounds took an action that the other half took often."""
        return self._often[self._half, self._cell]

    def _sizes(self, cells):
        """Return how many actions of some cells each round could take."""
        cells = cells.reshape(self.n_loggers, self.n_actions).astype(float)
        several = self.n_loggers > 1
        if self.available is None:
            sizes = cells.sum(axis=1)
            return sizes[self.logger] if several else sizes.repeat(len(self.p))
        mine = cells[self.logger] if several else cells
        return (self.available * mine).sum(axis=1)

    def too_small(self):
        """Return the `Excess` of 1/p over the number of the frequent actions."""
        sizes = [self._sizes(cells) for cells in self._often]
        expected = np.where(self._half == 0, *sizes)
        return self._excess(self.at_least * self.frequent, expected)

    def too_small_for(self, action):
        """Return the `Excess` of I(a)/p over one, for an action by its code."""
        offered = np.ones(len(self.p))
        if self.available is not None:
            offered = self.available[:, action].astype(float)
        return self._excess(self.at_least * (self.action == action), offered)

    def by_action(self):
        """Return the means of I(a)/p over what they should be."""
        sums = np.bincount(self.action, self.at_least, minlength=self.n_actions)
        if self.available is None:
            return sums / len(self.p)
        offered = self._weighted(np.ones(len(self.p))) @ self.available
        return np.divide(sums, offered, out=np.zeros(len(sums)), where=offered > 0)

    def _excess(self, values, expected):
        expected = self._weighted(expected)
        total, error, n = self._sum_and_error(values - expected, slice(None))
        should = float(expected.sum())
        if should <= 0:
            return Excess(1.0, 0.0, n)
        return Excess(1 + total / should, _in_errors(total, error), n)

    def _sum_and_error(self, gap, rows):
        """Return the sum of some rounds' numbers, its error, and how many tell."""
        change = gap - gap.mean()
        if self.group is not None:
            present = np.bincount(self.group[rows]) > 0
            change = np.bincount(self.group[rows], change)[present]
        n = len(change)
        error = sqrt(n / (n - 1) * float(change @ change)) if n > 1 else inf
        if error <= 1e-9 * np.abs(gap).sum():
            error = 0.0  # rounding
        return float(gap.sum()), error, n

    def too_large(self):
        r"""Return the `Excess` of a number of actions over what 1/p tells of it."""
        # Of rounds with a choice (p < .99) and the set S of actions that the acting
        # logger took at least 50 times in them,
        #
        # .. math:: D = |S| - \overline{I(a \in S) / p}
        #    - 40\, \overline{I(1 / p > \sqrt{n} / 4) / p}
        #
        # The last term, of all actions, stands for what no log of this size can show:
        # contexts in which an action is so improbable that it was never seen. A softmax
        # of sharp logits has some in every octave of 1/p. Where the whole distribution
        # is known nothing need be guessed:
        #
        # .. math:: D = \overline{\#\{a \in S : \mu_a \ge t\}
        #    - I(a \in S, p \ge t) / p}, \qquad t = 4 / \sqrt{n}
        known = self.mu is not None
        rows = np.flatnonzero(self.p < (1 - 1e-9 if known else HARDLY_A_CHOICE))
        often = self._counts(rows) >= OFTEN_ENOUGH
        rough = self.p.min() < 3.1 * self.half_step
        if self.pooled or rough or not often.any():
            return None
        every = self._weighted(1 / (self.p - self.half_step))[rows]
        mine = every * often[self._cell[rows]]
        n = len(rows) if self.group is None else len(np.unique(self.group[rows]))
        least = HEAVY / sqrt(n)
        could = self._weighted(self._could_take(often, least))[rows]
        if not could.any():
            return None
        if known:
            mine, unseen = mine * (self.p[rows] >= least), 0.0
        else:
            unseen = UNSEEN_PER_SEEN * every * (every > 1 / least)
        missing = float((could - mine - unseen).sum())
        _, error, n = self._sum_and_error(np.minimum(mine, sqrt(n)) - could, rows)
        return Excess(1 + missing / float(could.sum()), _in_errors(missing, error), n)

    def _could_take(self, often, least):
        """Return how many of the frequent actions each round could have taken."""
        if self.mu is None:
            return self._sizes(often)
        of_action = often.reshape(self.n_loggers, self.n_actions).any(axis=0)
        return (self.mu >= least) @ of_action.astype(float)


def _in_errors(total, error):
    return total / error if error > 0 else (inf if total > 0 else 0.0)


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

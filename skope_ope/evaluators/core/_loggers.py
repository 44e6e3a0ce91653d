# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""Who acted in the rounds of a log; and what the mixture of all loggers stands for.

Rounds that are weighted by :math:`\pi / \bar\pi`, with the mixture :math:`\bar\pi` of
all loggers, average to the value over the rounds of all loggers together. Over rounds
that other loggers made than the mixture predicts, such as those of one logger or of
one day, they average to something else.
"""

from functools import cached_property

import numpy as np
from scipy.special import chdtrc, ndtr

from skope_ope.evaluators.core._blocks import Observer
from skope_ope.evaluators.core._design import sorted_labels
from skope_ope.exceptions import LoggerWarning
from skope_ope.logs._validation import plain

SURE_LOGGER = 1e-12  # a mixture of certain loggers is one but for rounding
NO_NAME = "logger"  # of the only one, where the logs do not tell


def label_list(logs):
    """Return the labels of all loggers of some logs, those without rounds, too."""
    return [NO_NAME] if logs.loggers is None else logs.loggers.tolist()


class Loggers(Observer):
    r"""The loggers of some logs, who tell blocks of rounds who acted there."""

    # Logs without `logger` are those of a single one. Loggers without a round that
    # enters do not take part.

    def __init__(self, positive):
        self.positive = positive
        self.logs = logs = positive.all_logs
        if logs.loggers is None:
            self.labels, self.present = [NO_NAME], np.zeros(1, dtype=np.intp)
            self.index = np.zeros(len(logs), dtype=np.intp)
            self.count = np.array([positive.n])
        else:
            self.index = logs.logger_index
            count = logs._logger_counts  # which the logs remember
            if positive.mask is not None:
                count = positive.counts(logs.logger_index, len(logs.loggers))
            self.present = np.flatnonzero(count)
            self.count = count[self.present]
            self.labels = logs.loggers[self.present].tolist()
            if len(self.present) < len(count):
                code = np.maximum(np.cumsum(count > 0) - 1, 0)
                self.index = code[self.index]
        self.proba = None
        if len(self) == 1 and logs.propensity is not None:
            # nothing to pool: the recorded propensity is the mixture
            self.proba = logs.propensity[:, None]
        elif logs.logger_proba is not None:
            self.proba = logs.logger_proba
            if len(self.present) < self.proba.shape[1]:
                self.proba = self.proba[:, self.present]
        self._buffers = {}  # of a block: fresh memory costs time

    def __len__(self):
        return len(self.labels)

    @property
    def stated_labels(self):
        """Labels of all loggers whose shares are stated, or of those that acted."""
        return self.labels if self.positive.shares is None else label_list(self.logs)

    @cached_property
    def design(self):
        """The design of the rounds whose strata are the loggers."""
        index = self.index if len(self) > 1 else None
        return self.positive.design.with_strata(index, self.labels, self.count)

    @property
    def sizes(self):
        """The same, weighted: as many in all."""
        return self.design.mass

    @cached_property
    def shares(self):
        r"""Share of every logger in the (weighted) rounds, :math:`n_i / n`."""
        return self.sizes / self.sizes.sum()

    @cached_property
    def never_taken(self):
        """Codes of the actions that each logger never took, a list of arrays."""
        n_actions = self.logs.n_actions
        cells = self.index * n_actions + self.logs.action_index
        counts = self.positive.counts(cells, len(self) * n_actions)
        return [np.flatnonzero(row == 0) for row in counts.reshape(-1, n_actions)]

    @cached_property
    def has_gaps(self):
        """Whether some logger could not have done what another did."""
        return bool(self.proba.min() == 0)

    def buffer(self, name, n):
        """Return memory of shape (n_loggers, n) that the next block writes over."""
        found = self._buffers.get(name)
        if found is None or found.shape[1] != n:
            found = self._buffers[name] = np.empty((len(self), n))
        return found

    def begin(self, block):
        """Tell the block who acted in its rounds."""
        block.loggers = LoggerRounds(self, block)


class LoggerRounds:
    """The loggers of a block of rounds."""

    def __init__(self, whole, block):
        self.whole, self.rows = whole, block.rows
        self.index = whole.index[block.rows]

    @cached_property
    def proba(self):
        """Probabilities of the logged actions, one row per logger."""
        out = self.whole.buffer("proba", len(self.index))
        out[:] = self.whole.proba[self.rows].T
        return out

    @property
    def stated_proba(self):
        """The same of all loggers whose shares are stated; of those that acted."""
        logs, stated = self.whole.logs, self.whole.positive.shares
        return self.proba if stated is None else logs.logger_proba[self.rows].T

    @cached_property
    def lowest(self):
        """Lowest of these probabilities."""
        return self.proba.min()

    @cached_property
    def has_gaps(self):
        """Whether a logger was certain of what was logged, or could not do it."""
        # So it is, too, where the one that acted could not have taken another action.
        if self.lowest == 0 or self.proba.max() >= 1:
            return True
        told = self.whole.logs.logging_proba
        return told is not None and bool(told[self.rows].min() == 0)

    @cached_property
    def mixture(self):
        r"""Probability of the logged action under all, sum_i (n_i / n) pi_i(a|x)."""
        stated = self.whole.positive.shares
        if stated is not None:  # of loggers that are not met in this part, too
            mixture = self.whole.logs.logger_proba[self.rows] @ stated
        elif len(self.whole) == 1:
            return self.proba[0]
        else:
            mixture = self.whole.shares @ self.proba
        mask = self.whole.positive.mask
        if mask is not None:  # what is not asked of anyone: a round of weight zero
            mixture[(mixture == 0) & ~mask[self.rows]] = 1.0
        if not (self.lowest > 0 or mixture.min() > 0):
            row = int(np.argmin(mixture))
            raise ValueError(
                f"logger_proba is 0 for every logger at row {row + self.rows.start}: "
                "one of them took this action. Correct logger_proba, or estimate it "
                "with LoggerPropensityEstimator."
            )
        return mixture


SURPRISE = 1e-6  # chances below this are told


def chance_if_uniform(counts):
    r"""Probability of counts at least as uneven as these under uniform logging."""
    # .. math:: P(\chi^2_{k - 1} \ge \sum_a (n_a - n / k)^2 / (n / k))
    counts = np.asarray(counts, dtype=float)
    if len(counts) < 2:
        return 1.0
    expected = counts.sum() / len(counts)
    return float(chdtrc(len(counts) - 1, ((counts - expected) ** 2).sum() / expected))


MATERIAL_SHARE = 0.05  # of the rounds of a group: fewer in the wrong place are few


class LoggerMixture:
    r"""Loggers whose rounds are weighted as those of one, their mixture."""

    def __init__(self, index, proba, shares):
        self.index, self.proba, self.shares = index, proba, shares

    def take(self, rows):
        """Return the loggers of some rounds (an array of ints), and the same shares."""
        return LoggerMixture(self.index[rows], self.proba[rows], self.shares)

    def doubt(self, labels, places, design):
        """Return a `LoggerWarning` where means of groups are no values, or None."""
        # They are none where a group has another mixture than that of all rounds. That
        # is certain where every group has rounds of one logger, and seen where it has
        # more or fewer rounds of one than all loggers would have made of its contexts
        # and actions.
        omega = np.ones(len(self.index)) if design.omega is None else design.omega
        joint = self.shares * self.proba
        mixture = joint.sum(axis=1)
        mixture[mixture == 0] = 1.0  # a round of weight zero
        gap = -joint / mixture[:, None]
        expected = -gap
        gap[np.arange(len(gap)), self.index] += 1
        gap *= omega[:, None]
        spread = omega[:, None] ** 2 * expected * (1 - expected)
        if design.clustered:  # whose rounds may all be those of one logger
            spread = None
        apart = all(len(set(self.index[rows].tolist())) == 1 for rows in places)
        tests = len(places) * len(self.shares)
        found = []
        for place, rows in enumerate(places):
            if not self._matters(rows, mixture):
                continue
            shift = gap[rows].sum(axis=0)
            if spread is None:
                cluster = np.unique(design.cluster[rows], return_inverse=True)[1]
                sums = np.zeros((int(cluster.max()) + 1, len(self.shares)))
                np.add.at(sums, cluster, gap[rows])
                variance = (sums**2).sum(axis=0)
            else:
                variance = spread[rows].sum(axis=0)
            z = np.abs(shift) / np.sqrt(np.maximum(variance, 1e-300))
            seen = 2 * ndtr(-z) * tests < SURPRISE
            seen &= np.abs(shift) > MATERIAL_SHARE * omega[rows].sum()
            if apart or seen.any():
                found.append(place)
        if not found or len(self.shares) < 2:
            return None
        return _mixture_warning(labels, found)

    def _matters(self, rows, mixture):
        """Whether the mixture of a group's own loggers gives other weights."""
        own = np.bincount(self.index[rows], minlength=len(self.shares)) / len(rows)
        return bool((np.abs(self.proba[rows] @ own / mixture[rows] - 1) > 1e-9).any())


def doubt_of_parts(whole, parts):
    """Get a `LoggerWarning` where means of groups of rounds are no values, or None."""
    # Sums do not tell what all loggers would have made of the contexts and actions of a
    # group: it is suspect where its loggers have other shares than in all rounds.
    loggers = whole.counts.loggers
    if len(loggers) < 2:
        return None
    by_logger = whole.counts.counts.sum(axis=1)
    shares = by_logger / by_logger.sum()
    tests, found, labels = len(parts) * len(loggers), [], sorted_labels(parts)
    for place, label in enumerate(labels):
        part = parts[label]
        if part.counts is None:
            continue
        own = np.zeros(len(loggers))
        places = [loggers.index(one) for one in part.counts.loggers]
        own[places] = part.counts.counts.sum(axis=1)
        frame = next(iter(part.sums.joints.values())).frame
        units = own.sum()
        if frame.clustered:  # whose rounds may all be those of one logger
            units = len(frame.cluster_sizes)
        gap = np.abs(own / own.sum() - shares)
        spread = np.sqrt(np.maximum(shares * (1 - shares) / units, 1e-300))
        seen = 2 * ndtr(-gap / spread) * tests < SURPRISE
        if (seen & (gap > MATERIAL_SHARE)).any():
            found.append(place)
    return _mixture_warning(labels, found) if found else None


def _mixture_warning(labels, found):
    return LoggerWarning(
        f"the means of {len(found)} of {len(labels)} groups are not values of the "
        f"policy ({plain(labels[found[0]])!r} is the first). Balanced weights use the "
        "mixture of all loggers, and other loggers acted in these groups. Only the "
        "mean over all rounds is the value. Use pooling='naive' for values of "
        "groups, or evaluate each group by itself: evaluate(policy, logs[rows]).",
        len(found),
    )

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Who acted in the rounds of a log, a block of rounds at a time."""

from functools import cached_property

import numpy as np

from skope_ope.evaluators.core._stratum_sums import StratumSums, fitting

NO_NAME = "logger"  # of the only one, where the logs do not tell


def label_list(logs):
    """Return the labels of all loggers of some logs, those without rounds, too."""
    return [NO_NAME] if logs.loggers is None else logs.loggers.tolist()


class Loggers:
    r"""The loggers of some logs: their rounds, shares and probabilities.

    Logs without `logger` are those of a single one. Loggers without a round that enters
    do not take part.

    Parameters
    ----------
    entering : Entering
        The rounds, and their sample weights.
    pools : bool, default=False
        Whether the probabilities of the logged actions under all loggers are wanted.

    Attributes
    ----------
    labels : list
        Labels of the loggers that acted.
    index : ndarray of shape (n_rounds,)
        Position in `labels` of the logger of every round (anyone's for a round of
        weight zero of a logger that does not take part).
    present : ndarray of shape (n_loggers,)
        Position of every label in `logs.loggers`.
    count : ndarray of shape (n_loggers,)
        Number of rounds of every logger.
    sizes : ndarray of shape (n_loggers,)
        The same, weighted: as many in all.
    shares : ndarray of shape (n_loggers,)
        Share of every logger in the (weighted) rounds, :math:`n_i / n`.
    proba : ndarray of shape (n_rounds, n_loggers) or None
        Probabilities of the logged actions under all loggers.
    sums : StratumSums
        Sums over the rounds of every logger.
    """

    def __init__(self, entering, pools=False):
        self.entering, self.pools = entering, pools
        self.logs = logs = entering.all_logs
        self.jobs = {}  # of one run, by what their sums depend on
        if logs.loggers is None:
            self.labels, self.present = [NO_NAME], np.zeros(1, dtype=np.intp)
            self.index = np.zeros(len(logs), dtype=np.intp)
            self.count = np.array([entering.n])
        else:
            self.index = logs.logger_index
            count = logs.logger_counts  # which the logs remember
            if entering.mask is not None:
                count = entering.counts(logs.logger_index, len(logs.loggers))
            self.present = np.flatnonzero(count)
            self.labels = logs.loggers[self.present].tolist()
            self.count = count[self.present]
            if len(self.present) < len(count):
                code = np.maximum(np.cumsum(count > 0) - 1, 0)
                self.index = code[self.index]
        self.sums = StratumSums(self.index, len(self))
        self._room = {}  # of a block: fresh memory costs time
        self.sizes = self.count
        if entering.omega is not None:
            self.sizes = np.bincount(self.index, entering.omega, len(self))
        self.shares = self.sizes / self.sizes.sum()
        self.proba = None
        if len(self) == 1:  # nothing to pool: the recorded propensity is the mixture
            self.proba = logs.propensity[:, None]
        elif logs.logger_proba is not None:
            self.proba = logs.logger_proba
            if len(self.present) < self.proba.shape[1]:
                self.proba = self.proba[:, self.present]

    def __len__(self):
        return len(self.labels)

    @cached_property
    def unseen(self):
        """Actions that a logger never took, (n_loggers, n_actions), or None."""
        n_actions = self.logs.n_actions
        cells = self.index * n_actions + self.logs.action_index
        counts = self.entering.counts(cells, len(self) * n_actions)
        unseen = (counts == 0).reshape(len(self), n_actions)
        return unseen if unseen.any() else None

    @cached_property
    def has_gaps(self):
        """Whether some logger could not have done what another did."""
        return bool(self.proba.min() == 0)

    def room(self, name, n):
        """Return memory of shape (n_loggers, n) that the next block writes over."""
        self._room[name] = fitting(self._room.get(name), (len(self), n))
        return self._room[name]

    def rounds(self, low, high):
        """Return the rounds low..high-1."""
        return LoggerRounds(self, low, high)


class LoggerRounds:
    """The loggers of a block of rounds.

    Attributes
    ----------
    whole : Loggers
        Those of all rounds.
    index : ndarray of shape (n_rounds,)
        Logger of every round.
    """

    def __init__(self, whole, low, high):
        self.whole, self.low, self.high = whole, low, high
        self.index = whole.index[low:high]

    @property
    def sums(self):
        """Function that sums an array over the rounds of every logger."""
        return self.whole.sums.of_block(self.low, self.high)

    def largest(self, values, known):
        """Return the largest value of every logger, so far `known`."""
        above = np.flatnonzero(values > known.min())  # few after the first block
        values, who = values[above], self.index[above]
        larger = values > known[who]
        np.maximum.at(known, who[larger], values[larger])
        return known

    @cached_property
    def proba(self):
        """Probabilities of the logged actions, one row per logger."""
        out = self.whole.room("proba", len(self.index))
        out[:] = self.whole.proba[self.low : self.high].T
        return out

    @cached_property
    def inverse(self):
        """One over each of these probabilities."""
        out = self.whole.room("inverse", len(self.index))
        return np.divide(1.0, self.proba, out=out)

    @cached_property
    def lowest(self):
        """Lowest of these probabilities."""
        return self.proba.min()

    @cached_property
    def mixture(self):
        r"""Probability of the logged action under all, sum_i (n_i / n) pi_i(a|x)."""
        if len(self.whole) == 1:
            return self.proba[0]
        mixture = self.whole.shares @ self.proba
        mask = self.whole.entering.mask
        if mask is not None:  # what is not asked of anyone: a round of weight zero
            mixture[(mixture == 0) & ~mask[self.low : self.high]] = 1.0
        if not (self.lowest > 0 or mixture.min() > 0):
            row = int(np.argmin(mixture))
            raise ValueError(
                f"logger_proba is 0 for every logger at row {row + self.low}: one of "
                "them took this action. Correct logger_proba, or estimate it with "
                "LoggerPropensityEstimator."
            )
        return mixture


class OverlapByLogger:
    """Sums of the importance weights of one policy, logger by logger.

    Attributes
    ----------
    loggers : Loggers
        Who acted.
    sum_w, sum_w2, max_w, missing : ndarray of shape (n_loggers,)
        Sums of the weights pi / p and of their squares, largest weight, and the
        policy's mass on actions that the logger could not take.
    mixture : Overlap
        The weights pi / (mixture of the loggers) of all rounds.
    """

    def __init__(self, loggers, mixture):
        self.loggers, self.mixture = loggers, mixture
        self.max_w, self.missing, self.lost = np.zeros((3, len(loggers)))
        self.sum_b = 0.0
        self._where = None

    def add(self, rounds, pi_logged, w, b, pi, missing, omega=None):
        """Add a block; `pi` is None where only the logged action's is known."""
        sums = self.loggers.sums
        if self._where is None:
            self._where = sums.reserve(2 if omega is None else 3)
        page = sums.page(self._where, rounds.low, len(w))
        if omega is not None:
            page[2] = (omega * (w - 1)) ** 2
            w = omega * w
        page[0] = w
        np.multiply(w, w, out=page[1])
        self.max_w = rounds.largest(w, self.max_w)
        if b is not None:
            self.mixture.add(b, 0.0, omega)
        self._add_missing(rounds, pi_logged, b, pi, missing, omega)

    @property
    def sum_w(self):
        """Sums of the weights."""
        return self.loggers.sums[self._where][0]

    @property
    def sum_w2(self):
        """Sums of their squares."""
        return self.loggers.sums[self._where][1]

    @property
    def sum_gap2(self):
        """Sums of (w - 1)^2."""
        first, second, *weighted = self.loggers.sums[self._where]
        return weighted[0] if weighted else second - 2 * first + self.loggers.count

    def _add_missing(self, rounds, pi_logged, b, pi, missing, omega):
        """Add what the loggers, and their mixture, could not have done."""
        logs, m = self.loggers.logs, len(self.loggers)
        unseen = self.loggers.entering.unseen

        def counted(values):
            return values if omega is None else omega * values

        if m == 1:
            self.missing[0] += missing
            self.mixture.missing += missing
            return
        if pi is not None and unseen.size:  # nobody took these actions
            self.mixture.missing += float(counted(pi[:, unseen].sum(axis=1)).sum())
        if pi is not None and logs.logging_proba is not None:
            mu = logs.logging_proba[rounds.low : rounds.high]
            if mu.min() == 0:
                self.missing += rounds.sums(counted((pi * (mu == 0)).sum(axis=1)))
        elif self.loggers.proba is not None:
            if self.loggers.has_gaps:
                b = counted(pi_logged / rounds.mixture if b is None else b)
                self.lost += b @ (self.loggers.proba[rounds.low : rounds.high] == 0)
                self.sum_b += float(b.sum())
            if pi is not None and unseen.size:
                self.missing += rounds.sums(counted(pi[:, unseen].sum(axis=1)))
        elif pi is not None and self.loggers.unseen is not None:
            never = self.loggers.unseen[rounds.index]
            self.missing += rounds.sums(counted((pi * never).sum(axis=1)))

    @property
    def missing_mass(self):
        """Mean of the policy's probability of what each logger could not do."""
        missing = self.missing / self.loggers.sizes
        if not self.lost.any():
            return missing
        # What logger i cannot do is seen in the rounds of the others: by the weights b,
        # E[b 1(pi_i = 0)] is the mass that it misses. Divided by their sum, which is
        # one in expectation, it never exceeds the mass on what anyone did.
        return missing + (1 - missing) * self.lost / self.sum_b

    @property
    def effective_sample_size(self):
        """(sum w)^2 / sum w^2 of every logger, 0 where its weights are zero."""
        return np.divide(
            self.sum_w**2,
            self.sum_w2,
            out=np.zeros(len(self.sum_w)),
            where=self.sum_w2 > 0,
        )

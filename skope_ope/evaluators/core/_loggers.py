# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Who acted in the rounds of a log, a block of rounds at a time."""

from functools import cached_property

import numpy as np

from skope_ope.evaluators.core._blocks import Observer

SURE = 1e-12  # a mixture of certain loggers is one but for rounding
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

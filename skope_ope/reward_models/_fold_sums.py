# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Sums of rewards by fold and action, which parts of a log add up."""

import numpy as np

from skope_ope.logs import SlateLogs
from skope_ope.logs._folds import sums_of_others
from skope_ope.logs._slate_logs import column_weights
from skope_ope.reward_models._cross_fit import (
    summands,
    warn_of_missing,
)


class FoldSums:
    """What the means of all folds need, of a part of a log or of all of it."""

    def __init__(self, actions, counts, plain, weighted=None):
        self.actions, self.counts = actions, counts
        self.plain, self.weighted = plain, weighted

    @classmethod
    def of(cls, logs, cv):
        """Return the sums of some rounds."""
        if isinstance(logs, SlateLogs):
            actions, codes = np.zeros(1, dtype=int), 0
            weight = column_weights(logs, of_part=True)
        else:
            actions, codes = logs.actions, logs.action_index
            weight = logs.sample_weight
        shape = cv.n_splits, len(actions)
        cells = cv.fold_of(logs) * shape[1] + codes

        def sums(values=None):
            return np.bincount(cells, values, shape[0] * shape[1]).reshape(shape)

        weighted = None
        if weight is not None:
            weighted = tuple(map(sums, summands(logs.reward, weight)))
        return cls(actions, sums(), sums(logs.reward), weighted)

    def __add__(self, other):
        """Return the sums of both parts."""
        if not isinstance(other, FoldSums):
            return NotImplemented
        if not np.array_equal(self.actions, other.actions):
            raise ValueError(
                f"parts have other actions: {self.actions.tolist()[:8]} and "
                f"{other.actions.tolist()[:8]}."
            )
        weighted = None
        if self.weighted is not None or other.weighted is not None:
            pairs = zip(self._masses, other._masses, strict=True)
            weighted = tuple(one + more for one, more in pairs)
        counts, plain = self.counts + other.counts, self.plain + other.plain
        return FoldSums(self.actions, counts, plain, weighted)

    @property
    def _masses(self):
        if self.weighted is not None:
            return self.weighted
        return self.plain, self.counts.astype(float)

    @property
    def n(self):
        """Number of rounds."""
        return int(self.counts.sum())

    def check(self, cv):
        """Raise where nothing could be held out."""
        check_folds(self.counts.sum(axis=1), cv)

    def warn_of_missing(self, model):
        """Warn of actions that the model of a fold does not see."""
        counts, logged = sums_of_others(self.counts), self.counts.sum(axis=0)
        warn_of_missing(self.actions, counts, logged, model)

    def means(self, model):
        """Get the mean rewards that every fold has in the others, and those of all."""
        masses = [_others_and_all(one) for one in self._masses]
        plain = [_others_and_all(one) for one in (self.plain, self.counts)]
        *of_folds, of_all = model.of_sums(self.actions, masses, plain)
        return dict(enumerate(of_folds)), of_all


def check_folds(sizes, cv):
    """Raise where one fold has all rounds; others may be empty, as of few groups."""
    if np.count_nonzero(sizes) < 2:
        raise ValueError(
            f"all {int(sizes.sum())} rounds are in one fold of {cv!r}: they have too "
            "few groups. Use another random_state of HashKFold. Or pass as "
            "reward_model the name of a column of predictions, a number, or a model "
            "that was fitted to other rounds, FrozenEstimator(model)."
        )


def _others_and_all(cells):
    """Return sums over the other folds of every fold, and below them over all."""
    return np.vstack([sums_of_others(cells), cells.sum(axis=0)])

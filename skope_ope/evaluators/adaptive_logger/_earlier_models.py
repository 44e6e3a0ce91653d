# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Reward models that predict every round from earlier ones alone."""

import numpy as np
from sklearn.base import clone

from skope_ope._progress import untold
from skope_ope.logs._known_rows import rows_among
from skope_ope.reward_models._cross_fit import (
    FOLD_MODEL,
    MeanReward,
    kept_predictions,
    told_model,
)
from skope_ope.reward_models._sources import fittable, given_source, is_source

GROWTH = 1.5  # a fit sees this many times the rounds of the one before
FIRST_FIT = 30  # rounds


def earlier_source(model, logs, n_refits, progress=untold):
    """Return what predicts the rewards of every round from earlier rounds."""
    if is_source(model):
        return model
    given = given_source(model, logs)
    if given is not None:
        return given
    means = EarlierMeansByAction(logs)
    if model is None:
        return means
    return EarlierModels(model, logs, n_refits, means, progress)


class EarlierMeansByAction:
    """Predict every action by the mean of its rewards in earlier rounds."""

    # Before an action was seen it has the mean over all actions, in the first round the
    # middle of the known range of the rewards, or 0.

    n_uncovered_ = 1

    def __init__(self, logs):
        self.logs = logs
        self.prior = 0.0 if logs.reward_range is None else sum(logs.reward_range) / 2

    def __repr__(self):
        return "mean reward of every action in earlier rounds"

    def bind(self, logs):
        """Return a chunk predictor for `logs`; others than those of fit come later."""
        if logs is self.logs:
            return self._predict
        rows, of_all = rows_among(logs, self.logs), MeanReward().fit(self.logs)

        def predict(rounds, start):
            mine = rows[start : start + len(rounds)]
            q_hat = np.array(of_all.predict_logs(rounds))
            if (mine >= 0).any():
                known = mine >= 0
                q_hat[known] = self._predict(self.logs, 0)[mine[known]]
            return q_hat

        return predict

    def _predict(self, rounds, start):
        n_actions, n_before = self.logs.n_actions, start + np.arange(len(rounds))
        code, reward = self.logs.action_index, self.logs.reward
        near = reward[0]  # rewards far from zero keep their digits
        here = slice(start, start + len(rounds))
        taken = (code[here, None] == np.arange(n_actions)).astype(float)
        gain = taken * (reward[here, None] - near)
        count = _sums_before(taken, code[:start])
        total = _sums_before(gain, code[:start], reward[:start] - near)
        of_all = total.sum(axis=1) / np.maximum(n_before, 1)
        means = np.broadcast_to(of_all[:, None], total.shape).copy()
        q_hat = near + np.divide(total, count, out=means, where=count > 0)
        q_hat[n_before == 0] = self.prior
        return q_hat

    def shared(self, logs):
        """Return what several evaluators of these rounds share."""
        return kept_predictions(self, logs)


class EarlierModels:
    """Refits of a model, each on all rounds before those that it predicts."""

    # A fit sees `GROWTH` times the rounds of the one before, so that all together take
    # about as long as two fits on the whole log. The first rounds have means.

    def __init__(self, model, logs, n_refits, means, progress=untold):
        self.model, self.logs, self.means = fittable(model), logs, means
        sizes = len(logs) / GROWTH ** np.arange(n_refits, 0, -1)
        least = max(min(FIRST_FIT, len(logs) // 2), 1)
        self.starts_ = np.unique(np.maximum(sizes.astype(int), least))
        self.starts_ = self.starts_[self.starts_ < len(logs)]
        fits = map(self._fit, self.starts_)
        self.models_ = list(progress(fits, len(self.starts_), FOLD_MODEL))
        self.n_uncovered_ = int(self.starts_[0]) if len(self.starts_) else len(logs)

    def _fit(self, stop):
        return clone(self.model).fit(self.logs[:stop])

    def __repr__(self):
        return f"{told_model(self.model)}, refitted on earlier rounds"

    def bind(self, logs):
        """Return a chunk predictor for `logs`; others than those of fit come later."""
        row = np.arange(len(logs))
        if logs is not self.logs:
            row = rows_among(logs, self.logs)
        fit = np.searchsorted(self.starts_, row, side="right") - 1
        fit[row < 0] = len(self.starts_)  # the fit on all rounds
        means, of_all = self.means.bind(logs), None
        if (row < 0).any():
            of_all = clone(self.model).fit(self.logs)
        models = [*self.models_, of_all]

        def predict(rounds, start):
            mine = fit[start : start + len(rounds)]
            present = np.unique(mine).tolist()
            if len(present) == 1 and present[0] >= 0:  # no copy of the rows
                return models[present[0]].predict_logs(rounds)
            q_hat = np.empty((len(rounds), rounds.n_actions))
            for number in present:
                rows = np.flatnonzero(mine == number)
                if number < 0:
                    q_hat[rows] = means(rounds, start)[rows]
                else:
                    q_hat[rows] = models[number].predict_logs(rounds[rows])
            return q_hat

        return predict

    def shared(self, logs):
        """Return what several evaluators of these rounds share."""
        return kept_predictions(self, logs)


def _sums_before(own, code, values=None):
    """Return the sums by action of all rounds before each of some rounds."""
    earlier = np.bincount(code, values, minlength=own.shape[1])
    return earlier + np.cumsum(own, axis=0) - own

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The doubly robust estimator on the log of an algorithm that learned; its models."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone

from skope_ope._progress import untold
from skope_ope._sklearn import Interval
from skope_ope._types import RewardModelLike
from skope_ope.evaluators.adaptive_logger._adaptive_ips import AdaptiveLoggerEvaluator
from skope_ope.evaluators.core._requires import REWARD_MODEL_CONSTRAINTS, Requires
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


class AdaptiveDR(AdaptiveLoggerEvaluator):
    r"""Doubly robust estimator for logs of a bandit algorithm [1]_ [2]_ [3]_.

    .. math:: \hat V = \frac{\sum_t h_t G_t}{\sum_t h_t}, \quad
        G_t = \sum_a \pi(a|x_t)\, \hat\mu_{t-1}(x_t, a)
        + \frac{\pi(a_t|x_t)}{p_t} (r_t - \hat\mu_{t-1}(x_t, a_t)), \qquad
        SE^2 = \frac{\sum_t h_t^2 (G_t - \hat V)^2}{(\sum_t h_t)^2}

    times n / (n - 1). The model :math:`\hat\mu_{t-1}` and the weights :math:`h_t` are
    made of earlier rounds alone. With equal weights the value is exactly unbiased,
    however the logger learned, if its probabilities are right. The other weights accept
    a small bias, so that the estimate divided by its standard error is nearly normal.
    They count a round less if the logger rarely takes the policy's action. Rounds are
    used in the order in which they are stored. Read more in the :ref:`User Guide
    <adaptive_logs>`.

    Parameters
    ----------
    weighting : str, default="uniform"
        What a round counts: "uniform", "two_point", "min_variance",
        "stable_variance" or "cadr". "uniform" needs the propensities alone, the
        others `logging_proba`.

        "two_point" : for a policy that takes one action in all rounds, and a logger
        that ignores the context [1]_. Needs `floor_decay`.

        "min_variance", "stable_variance" : 1 / v and 1 / sqrt(v), for
        :math:`v_t(x) = \sum_a \pi(a|x)^2 / e_t(a|x)`, normalised at every context
        [2]_.

        "cadr" : one over the estimated standard deviation of the score [3]_.
    logger : callable, default=None
        ``logger(t, X)`` returns the probabilities of the logger in round t (row t of
        the logs, from 0) for contexts X: an array of shape (len(X), n_actions). In
        round t the logger has learned from the rows before t. Contextual weights and
        "cadr" need it. `None` is for loggers that ignored the context. If
        `logging_proba` does not show that, an error is raised.
    floor_decay : float, default=None
        The exponent a, in [0, 1), of the probability :math:`t^{-a}`, up to a factor,
        that the logger leaves to every action in round t.
    reward_model : model, number, array or str, default=None
        A scikit-learn regressor (a classifier for 0/1 rewards) or an
        `ActionRewardModel`, refitted on earlier rounds. A fitted model is
        `FrozenEstimator(model)`. Predictions are a number, an array of shape (n_rounds,
        n_actions), or the name of such a column. Each row must depend on earlier rounds
        only. `None`: the mean reward of every action in earlier rounds; that of all
        actions before an action was seen.
    n_refits : int, default=10
        How often a model is fitted. Each fit has 1.5 times as many rounds as the one
        before. So all fits together take about as long as two on the whole log. Rounds
        before the first fit have the means.

    Attributes
    ----------
    n_actions_ : int
        Number of actions in the logs of `fit`.

    See Also
    --------
    AdaptiveIPS : Without a model.
    DoublyRobust : Cross-fits the model; for loggers that did not learn.

    Notes
    -----
    With T rounds and K actions "uniform" and "two_point" take O(T K), "cadr" with
    `logger=None` too. "min_variance" and "stable_variance" take O(T D K) for D distinct
    contexts. With `logger=None`, D is the number of distinct rows of the policy's
    probabilities. A `logger` is called once or twice per round, for all D contexts.
    "cadr" calls it for all earlier rounds, O(T^2 K). The memory is bounded: about 20
    MiB and a few numbers per round.

    "cadr" uses rounds only after scores have differed. Groups and sample weights are
    refused.

    References
    ----------
    .. [1] Hadad, V., Hirshberg, D. A., Zhan, R., Wager, S., & Athey, S. (2021).
       Confidence intervals for policy evaluation in adaptive experiments. PNAS
       118(15).
    .. [2] Zhan, R., Hadad, V., Hirshberg, D. A., & Athey, S. (2021). Off-policy
       evaluation via adaptive weighting with data from contextual bandits. KDD.
    .. [3] Bibaut, A., Dimakopoulou, M., Kallus, N., Chambaz, A., & van der Laan, M.
       (2021). Post-contextual-bandit inference. NeurIPS.

    Examples
    --------
    >>> from skope_ope import AdaptiveDR, ConstantPolicy
    >>> from skope_ope.datasets import make_adaptive_logs
    >>> logs = make_adaptive_logs(2000, means=[0.5, 0.4], random_state=0)
    >>> result = AdaptiveDR(weighting="stable_variance").fit(logs).evaluate(
    ...     ConstantPolicy(1)
    ... )
    >>> low, high = result.confidence_interval()
    >>> bool(low < 0.4 < high)
    True
    """

    _parameter_constraints: dict = {
        **AdaptiveLoggerEvaluator._parameter_constraints,
        "reward_model": REWARD_MODEL_CONSTRAINTS["reward_model"],
        "n_refits": [Interval(Integral, 1, None, closed="left")],
    }
    requires = Requires(model=True)

    def __init__(
        self,
        *,
        weighting: str = "uniform",
        logger: Callable[..., Any] | None = None,
        floor_decay: float | None = None,
        reward_model: RewardModelLike = None,
        n_refits: int = 10,
    ) -> None:
        self.weighting = weighting
        self.logger = logger
        self.floor_decay = floor_decay
        self.reward_model = reward_model
        self.n_refits = n_refits

    def fit_reward_model(self, logs, model, cv=None, target=None, progress=untold):
        """Return what predicts the reward of every round from earlier ones."""
        return earlier_source(model, logs, self.n_refits, progress)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.constant_reward = True
        tags.parameters_after_model = ("weighting", "logger", "floor_decay")
        return tags


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

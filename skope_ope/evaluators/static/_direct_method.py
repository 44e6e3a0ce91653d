# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The direct method: trust the reward model."""

from __future__ import annotations

from typing import Literal

from skope_ope._types import RewardModelLike, SplitterLike
from skope_ope.evaluators.core._requires import REWARD_MODEL_CONSTRAINTS, Requires
from skope_ope.evaluators.core._sums import WEIGHT
from skope_ope.evaluators.static._base import StaticEvaluator
from skope_ope.evaluators.static._direct_simulation import model_error_warning


class DirectMethod(StaticEvaluator):
    r"""Mean model value of the policy.

    .. math:: \hat V = \frac1n \sum_i \sum_a \pi(a|x_i)\, \hat q(x_i, a)

    It needs no propensities and has a small variance. Its bias is that of the model,
    and no diagnostic shows this bias. The standard error leaves out the error of the
    model; `diagnostics["model_error_included"]` and a warning say so.

    Parameters
    ----------
    reward_model : model, number, array or str, default=None
        A scikit-learn regressor (a classifier for 0/1 rewards) is cross-fitted per
        action, and an `ActionRewardModel` is cross-fitted as it is. A fitted model is
        `FrozenEstimator(model)`. Predictions are a number, an array of shape (n_rounds,
        n_actions) for the logs of `fit`, or the name of such a column. `None`: the
        out-of-fold mean reward of every action.
    cv : int, splitter, iterable or "prefit", default=5
        How rounds are split for cross-fitting: each round is predicted by a model that
        was fitted on other rounds. An int is the number of folds of `KFold` without
        shuffling. With several loggers, each of these folds has rounds of each logger.
        If the logs have groups, it is `GroupKFold`.

    Attributes
    ----------
    n_actions_ : int
        Number of actions in the logs of `fit`.

    See Also
    --------
    DoublyRobust : Corrects the model by the logged rewards.

    Notes
    -----
    A policy that learns is simulated along the contexts of the log. In every round it
    draws an action and learns from the model's prediction for it. If rewards are 0/1,
    it learns from a draw with that probability. The value is the mean of
    :math:`\sum_a \pi(a|x_i, h_i)\, \hat q(x_i, a)` with its histories :math:`h_i`. The
    draws are seeded by the first round's place in the original logs, so the same call
    gives the same number. One trajectory has no standard error (see `repeated_runs`).

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import DirectMethod, BanditLogs
    >>> logs = BanditLogs(np.zeros((4, 1)), [0, 1, 1, 0], [1, 0, 1, 0])
    >>> q_hat = np.tile([0.4, 0.6], (4, 1))
    >>> evaluator = DirectMethod(reward_model=q_hat).fit(logs)
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     round(evaluator.score(np.tile([0.0, 1.0], (4, 1))), 3)
    0.6
    """

    _parameter_constraints: dict = {**REWARD_MODEL_CONSTRAINTS}
    leaves_bias_out = "the error of the reward model"
    requires = Requires(weights=False, model=True)
    shift_with = WEIGHT

    def __init__(
        self,
        *,
        reward_model: RewardModelLike = None,
        cv: SplitterLike | Literal["prefit"] = 5,
    ) -> None:
        self.reward_model = reward_model
        self.cv = cv

    def terms(self, rounds):
        return (rounds.v,)

    def diagnostics_of(self, summary, estimate):
        """Return nothing, and the warning that the error of the model is left out."""
        return {}, [model_error_warning()]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.constant_reward = True
        tags.parameters_after_model = ()
        return tags

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The doubly robust estimator on the log of an algorithm that learned."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any

from skope_ope._progress import untold
from skope_ope._sklearn import Interval
from skope_ope._types import RewardModelLike
from skope_ope.evaluators.adaptive_logger._base import AdaptiveLoggerEvaluator
from skope_ope.evaluators.adaptive_logger._earlier_models import earlier_source
from skope_ope.evaluators.core._requires import REWARD_MODEL_CONSTRAINTS, Requires


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

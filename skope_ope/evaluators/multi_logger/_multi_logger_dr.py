# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Doubly robust estimates from logs that several loggers made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from skope_ope._types import ArrayLike, RewardModelLike, SplitterLike
from skope_ope.evaluators.core import _functions
from skope_ope.evaluators.core._design import weight_of
from skope_ope.evaluators.core._requires import REWARD_MODEL_CONSTRAINTS
from skope_ope.evaluators.core._rounds import weighted_residual
from skope_ope.evaluators.core._sums import WEIGHT
from skope_ope.evaluators.multi_logger._multi_logger_ips import MultiLoggerEvaluator


class MultiLoggerDR(MultiLoggerEvaluator):
    r"""Doubly robust estimate with the rounds of several loggers [1]_.

    The terms of `MultiLoggerIPS` with residuals instead of rewards, plus the model
    value of the policy,

    .. math:: d_{ij} + w_{ij}\, \big(r_{ij} - \hat q(x_{ij}, a_{ij})\big), \qquad
        d_{ij} = \sum_a \pi(a|x_{ij})\, \hat q(x_{ij}, a),

    pooled in the same three ways: the weights are :math:`\pi / p` or, balanced,
    :math:`\pi / \bar\pi`, and divergences are those of these terms. With a model the
    ranking of the three may change; the balanced one is efficient where the model is
    right [2]_. Read more in the :ref:`User Guide <multi_logger>`.

    Parameters
    ----------
    pooling : {"naive", "balanced", "weighted"}, default="naive"
        How the loggers are combined. Use "balanced" if the logs have `logger_proba`,
        which it needs. "weighted" with pooled divergences needs it, too. "naive" is the
        default because it needs the least.
    reward_model : model, number, array or str, default=None
        See `DoublyRobust`.
    cv : int, splitter, iterable or "prefit", default=5
        How rounds are split for cross-fitting. An int is the number of folds of
        `StratifiedKFold` by logger without shuffling, or of `GroupKFold` if the logs
        have groups. "balanced" needs one model for all loggers. Folds with different
        loggers, such as folds by time, bias it.
    self_normalized : bool, default=False
        Divide the correction by the same (weighted) sum of the importance weights.
    divergences : {"pooled", "per_logger"}, dict or array-like, default="pooled"
        For "weighted": see `MultiLoggerIPS`.
    cross_fit : int, default=None
        Number of folds of the divergences: see `MultiLoggerIPS`.

    Attributes
    ----------
    n_actions_ : int
        Number of actions in the logs of `fit`.

    See Also
    --------
    MultiLoggerIPS : The same without a model.
    DoublyRobust : For a single logger.

    References
    ----------
    .. [1] Agarwal, A., Basu, S., Schnabel, T., & Joachims, T. (2017). Effective
       evaluation using logged bandit feedback from multiple loggers. KDD.
    .. [2] Kallus, N., Saito, Y., & Uehara, M. (2021). Optimal off-policy evaluation
       from multiple logging policies. ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import BanditLogs, MultiLoggerDR
    >>> logs = BanditLogs(
    ...     np.zeros((4, 1)), action=[0, 1, 1, 0], reward=[1, 0, 1, 0],
    ...     logger=["A", "A", "B", "B"],
    ...     logger_proba=[[0.5, 0.2], [0.5, 0.8], [0.5, 0.8], [0.5, 0.2]],
    ... )
    >>> evaluator = MultiLoggerDR(pooling="balanced", reward_model=0.5).fit(logs)
    >>> round(evaluator.score(np.tile([0.2, 0.8], (4, 1))), 4)
    0.5
    """

    _parameter_constraints: dict = {
        **MultiLoggerEvaluator._parameter_constraints,
        **REWARD_MODEL_CONSTRAINTS,
    }
    shift_with, smooth = WEIGHT, (0,)

    def __init__(
        self,
        *,
        pooling: Literal["naive", "balanced", "weighted"] = "naive",
        reward_model: RewardModelLike = None,
        cv: SplitterLike | Literal["prefit"] = 5,
        self_normalized: bool = False,
        divergences: Literal["pooled", "per_logger"]
        | Mapping[Any, Any]
        | ArrayLike = "pooled",
        cross_fit: int | None = None,
    ) -> None:
        self.pooling = pooling
        self.reward_model = reward_model
        self.cv = cv
        self.self_normalized = self_normalized
        self.divergences = divergences
        self.cross_fit = cross_fit

    @property
    def combine(self):
        if self.self_normalized:
            return _functions.mean_plus_ratio
        return _functions.sum_of_two

    def terms(self, rounds):
        w = weight_of(self)(rounds)
        terms = rounds.v, weighted_residual(rounds, w), w
        return terms if self.self_normalized else terms[:2]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.constant_reward = True
        tags.parameters_after_model = (
            "pooling",
            "self_normalized",
            "divergences",
            "cross_fit",
        )
        return tags

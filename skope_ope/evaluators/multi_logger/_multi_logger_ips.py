# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Inverse propensity scoring of logs that several loggers made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from skope_ope._types import ArrayLike
from skope_ope.evaluators.core import _functions
from skope_ope.evaluators.core._design import weight_of
from skope_ope.evaluators.core._rounds import weighted_reward
from skope_ope.evaluators.multi_logger._base import MultiLoggerEvaluator


class MultiLoggerIPS(MultiLoggerEvaluator):
    r"""Inverse propensity scoring with the rounds of several loggers [1]_.

    With :math:`n_i` rounds of logger i, :math:`n = \sum_i n_i`, and the weights
    :math:`w_{ij} = \pi(a_{ij}|x_{ij}) / p_{ij}` of its rounds j,

    .. math:: \hat V_{naive} = \frac1n \sum_i \sum_j w_{ij}\, r_{ij}, \qquad
        \hat V_{weighted} = \sum_i \lambda_i \sum_j w_{ij}\, r_{ij}, \qquad
        \lambda_i = \frac{1 / s_i^2}{\sum_k n_k / s_k^2}

    .. math:: \hat V_{balanced} = \frac1n \sum_i \sum_j
        \frac{\pi(a_{ij}|x_{ij})}{\bar\pi(a_{ij}|x_{ij})}\, r_{ij}, \qquad
        \bar\pi = \sum_i \frac{n_i}{n}\, \pi_i

    The naive estimate may get better when rounds are dropped. The balanced one never
    has a larger variance, and it is enough that some logger takes each action. The
    weighted one weights whole loggers in the best way, by their divergences
    :math:`s_i^2 = Var_{\pi_i}(w\, r)`; :math:`\lambda_i = 0` drops a logger. All three
    agree for a single logger. Read more in the :ref:`User Guide <multi_logger>`.

    Parameters
    ----------
    pooling : {"naive", "balanced", "weighted"}, default="naive"
        How the loggers are combined. Use "balanced" if the logs have `logger_proba`,
        which it needs. "weighted" with pooled divergences needs it, too. "naive" is the
        default because it needs the least.
    self_normalized : bool, default=False
        Divide by the same (weighted) sum of the importance weights.
    divergences : {"pooled", "per_logger"}, dict or array-like, default="pooled"
        For "weighted". "pooled" estimates the divergences of all loggers from all
        rounds. "per_logger" is the sample variance of the terms of each logger. It is
        biased if large terms are missing. Known ones are a dict by logger or an array
        in the order of `logs.loggers` of fit; `inf` leaves a logger out.
    cross_fit : int, default=None
        Number of folds, each of which is weighted by divergences estimated on the
        others. This is exactly unbiased. If the other folds do not show the divergence
        of a logger, the mean of the other loggers is used, with a warning. `None` uses
        the same rounds.

    Attributes
    ----------
    n_actions_ : int
        Number of actions in the logs of `fit`.

    See Also
    --------
    MultiLoggerDR : Lowers the variance by a reward model.
    logger_overlap : Which logger is near which policy.
    pooling_variance_ratio : What weighting gains, beforehand.

    Notes
    -----
    The numbers :math:`n_i` are fixed, so the standard error is stratified:
    :math:`SE^2 = \sum_i \lambda_i^2 n_i s_i^2`, for the balanced estimate with the
    variances of its own terms within each logger and :math:`\lambda_i = 1/n`. Round
    values are centred within each logger, so their standard deviation over the root of
    n is that standard error, also for differences. A logger of a single round shares
    the centre of another one, which overstates the variance. If that round weighs more
    than all rounds of any other logger, the standard error is NaN, with a warning.

    Balanced rounds average to the value over all loggers together. `by` warns if its
    groups have other shares of loggers than the mixture.

    References
    ----------
    .. [1] Agarwal, A., Basu, S., Schnabel, T., & Joachims, T. (2017). Effective
       evaluation using logged bandit feedback from multiple loggers. KDD.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import BanditLogs, MultiLoggerIPS
    >>> logs = BanditLogs(
    ...     np.zeros((4, 1)), action=[0, 1, 1, 0], reward=[1, 0, 1, 0],
    ...     logger=["A", "A", "B", "B"],
    ...     logger_proba=[[0.5, 0.2], [0.5, 0.8], [0.5, 0.8], [0.5, 0.2]],
    ... )
    >>> policy = np.tile([0.2, 0.8], (4, 1))
    >>> for pooling in ("naive", "balanced"):
    ...     print(round(MultiLoggerIPS(pooling=pooling).fit(logs).score(policy), 4))
    0.35
    0.4505
    """

    def __init__(
        self,
        *,
        pooling: Literal["naive", "balanced", "weighted"] = "naive",
        self_normalized: bool = False,
        divergences: Literal["pooled", "per_logger"]
        | Mapping[Any, Any]
        | ArrayLike = "pooled",
        cross_fit: int | None = None,
    ) -> None:
        self.pooling = pooling
        self.self_normalized = self_normalized
        self.divergences = divergences
        self.cross_fit = cross_fit

    @property
    def combine(self):
        return _functions.ratio if self.self_normalized else _functions.mean

    @property
    def shift_with(self):
        return 1 if self.self_normalized else None  # by the sum of the weights

    def terms(self, rounds):
        w = weight_of(self)(rounds)
        gain = weighted_reward(rounds, w)
        return (gain, w) if self.self_normalized else (gain,)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.constant_reward = self.self_normalized
        # The divergences of shifted rewards are others, and so are the weights.
        tags.shift_equivariant = self.self_normalized and self.pooling != "weighted"
        return tags

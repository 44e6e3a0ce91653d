# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Inverse propensity scoring on the log of an algorithm that learned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skope_ope.evaluators.adaptive_logger._base import AdaptiveLoggerEvaluator


class AdaptiveIPS(AdaptiveLoggerEvaluator):
    r"""Inverse propensity scoring for logs of a bandit algorithm [1]_.

    The scores :math:`G_t = w_t r_t`, :math:`w_t = \pi(a_t|x_t) / p_t`, weighted as in
    :class:`AdaptiveDR`, which has the smaller variance if rewards are not near zero.
    Read more in the :ref:`User Guide <adaptive_logs>`.

    Parameters
    ----------
    weighting : str, default="uniform"
        What a round counts: "uniform", "two_point", "min_variance",
        "stable_variance" or "cadr", see :class:`AdaptiveDR`.
    logger : callable, default=None
        ``logger(t, X)``, see :class:`AdaptiveDR`.
    floor_decay : float, default=None
        Exponent of the logger's floor, see :class:`AdaptiveDR`.

    Attributes
    ----------
    n_actions_ : int
        Number of actions in the logs of `fit`.

    See Also
    --------
    AdaptiveDR : Subtracts a model of the rewards.
    IPS : The same value as "uniform", with intervals of independent rounds.

    References
    ----------
    .. [1] Hadad, V., Hirshberg, D. A., Zhan, R., Wager, S., & Athey, S. (2021).
       Confidence intervals for policy evaluation in adaptive experiments. PNAS
       118(15).

    Examples
    --------
    >>> from skope_ope import AdaptiveIPS, ConstantPolicy
    >>> from skope_ope.datasets import make_adaptive_logs
    >>> logs = make_adaptive_logs(means=[0.5, 0.4], random_state=0)
    >>> result = AdaptiveIPS().fit(logs).evaluate(ConstantPolicy(1))
    >>> low, high = result.confidence_interval(method="student")
    >>> bool(low < 0.4 < high)
    True
    """

    def __init__(
        self,
        *,
        weighting: str = "uniform",
        logger: Callable[..., Any] | None = None,
        floor_decay: float | None = None,
    ) -> None:
        self.weighting = weighting
        self.logger = logger
        self.floor_decay = floor_decay

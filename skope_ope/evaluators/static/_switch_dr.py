# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Switch from the doubly robust estimator to the direct method by weight."""

from __future__ import annotations

from numbers import Real
from typing import Literal

from skope_ope._sklearn import Interval
from skope_ope._types import RewardModelLike, SplitterLike
from skope_ope.evaluators.core._auto import AUTO, AutoParameter, threshold_grid
from skope_ope.evaluators.core._weights import switch
from skope_ope.evaluators.static._doubly_robust import DoublyRobustBase


class SwitchDR(DoublyRobustBase):
    r"""Doubly robust where weights are moderate, direct method elsewhere [1]_.

    .. math:: \hat V = \frac1n \sum_i \Big[ \sum_a \pi(a|x_i)\, \hat q(x_i, a)
        + w_i\, 1[w_i \le \tau] (r_i - \hat q(x_i, a_i)) \Big]

    Parameters
    ----------
    reward_model : model, number, array or str, default=None
        See `DoublyRobust`.
    tau : float or "auto", default=10.0
        Largest weight that is used. 0 is the direct method, infinity is `DoublyRobust`.
        "auto" chooses the smallest bound on the mean squared error for every policy.
    cv : int, splitter, iterable or "prefit", default=5
        How rounds are split for cross-fitting, see `DoublyRobust`.

    Attributes
    ----------
    n_actions_ : int
        Number of actions in the logs of `fit`.

    See Also
    --------
    DRos : Shrinks large weights smoothly.

    References
    ----------
    .. [1] Wang, Y.-X., Agarwal, A., & Dudik, M. (2017). Optimal and adaptive
       off-policy evaluation in contextual bandits. ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import SwitchDR, BanditLogs
    >>> logs = BanditLogs(np.zeros((4, 1)), [0, 1, 1, 0], [1, 0, 1, 0], [0.5] * 4)
    >>> evaluator = SwitchDR(reward_model=0.25, tau=1.0).fit(logs)
    >>> evaluator.score(np.tile([0.25, 0.75], (4, 1)))
    0.3125
    """

    _parameter_constraints: dict = {
        **DoublyRobustBase._parameter_constraints,
        "tau": [
            Interval(Real, 0, None, closed="both"),
            AutoParameter(float("inf"), threshold_grid, bounds_bias=True),
        ],
    }

    def __init__(
        self,
        *,
        reward_model: RewardModelLike = None,
        tau: float | Literal["auto"] = 10.0,
        cv: SplitterLike | Literal["prefit"] = 5,
    ) -> None:
        self.reward_model = reward_model
        self.tau = tau
        self.cv = cv

    @property
    def leaves_bias_out(self):
        return self.tau != float("inf") and "the bias of dropped weights"

    def weights(self, w):
        return switch(w, self.tau)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.on_policy_mean = (
            self.tau == AUTO or self.tau >= 1
        )  # on-policy weights are one
        tags.consistent = self.tau == float("inf")
        tags.parameters_after_model = ("tau",)
        return tags

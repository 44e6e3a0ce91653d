# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Doubly robust with optimistic shrinkage."""

from __future__ import annotations

from numbers import Real
from typing import Literal

from skope_ope._sklearn import Interval, StrOptions
from skope_ope._types import RewardModelLike, SplitterLike
from skope_ope.evaluators.core._auto import AUTO, AutoParameter, shrink_grid
from skope_ope.evaluators.core._weights import shrink
from skope_ope.evaluators.static._doubly_robust import DoublyRobustBase


class DRos(DoublyRobustBase):
    r"""Doubly robust with optimistically shrunk weights [1]_.

    .. math:: \hat V = \frac1n \sum_i \Big[ \sum_a \pi(a|x_i)\, \hat q(x_i, a)
        + \frac{\lambda w_i}{w_i^2 + \lambda} (r_i - \hat q(x_i, a_i)) \Big]

    Parameters
    ----------
    reward_model : model, number, array or str, default=None
        See `DoublyRobust`.
    lam : float or "auto", default=10.0
        Shrinkage. 0 is the direct method, infinity is `DoublyRobust`. "auto" chooses
        the smallest estimated mean squared error for every policy.
    cv : int, splitter, iterable or "prefit", default=5
        How rounds are split for cross-fitting, see `DoublyRobust`.

    Attributes
    ----------
    n_actions_ : int
        Number of actions in the logs of `fit`.

    See Also
    --------
    SwitchDR : Drops large weights.

    References
    ----------
    .. [1] Su, Y., Dimakopoulou, M., Krishnamurthy, A., & Dudik, M. (2020). Doubly
       robust off-policy evaluation with shrinkage. ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import DRos, BanditLogs
    >>> logs = BanditLogs(np.zeros((4, 1)), [0, 1, 1, 0], [1, 0, 1, 0], [0.5] * 4)
    >>> evaluator = DRos(reward_model=0.25, lam=1.0).fit(logs)
    >>> round(evaluator.score(np.tile([0.25, 0.75], (4, 1))), 4)
    0.3577
    """

    _parameter_constraints: dict = {
        **DoublyRobustBase._parameter_constraints,
        "lam": [Interval(Real, 0, None, closed="both"), StrOptions({AUTO})],
    }
    _auto = AutoParameter("lam", float("inf"), shrink_grid)

    def __init__(
        self,
        *,
        reward_model: RewardModelLike = None,
        lam: float | Literal["auto"] = 10.0,
        cv: SplitterLike | Literal["prefit"] = 5,
    ) -> None:
        self.reward_model = reward_model
        self.lam = lam
        self.cv = cv

    @property
    def leaves_bias_out(self):
        return self.lam != float("inf") and "the bias of shrunk weights"

    def weights(self, w):
        return shrink(w, self.lam)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # a weight of one stays one, and all others do, too
        tags.on_policy_mean = tags.consistent = self.lam == float("inf")
        tags.parameters_after_model = ("lam",)
        return tags

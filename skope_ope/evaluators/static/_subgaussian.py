# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Harmonically corrected weights with subgaussian deviations."""

from __future__ import annotations

from numbers import Real
from typing import Literal

from skope_ope._sklearn import Interval, StrOptions
from skope_ope._types import RewardModelLike, SplitterLike
from skope_ope.evaluators.core._auto import AUTO, AutoParameter, harmonic_grid
from skope_ope.evaluators.core._weights import harmonic
from skope_ope.evaluators.static._base import StaticEvaluator
from skope_ope.evaluators.static._doubly_robust import DoublyRobustBase

LAM_CONSTRAINT = {"lam": [Interval(Real, 0, 1, closed="both"), StrOptions({AUTO})]}


class SubGaussianIPS(StaticEvaluator):
    r"""IPS with harmonically corrected weights [1]_.

    .. math:: \hat V = \frac1n \sum_i \frac{w_i}{1 - \lambda + \lambda w_i}\, r_i

    Its deviations are subgaussian, even if the weights are unbounded.

    Parameters
    ----------
    lam : float or "auto", default=0.1
        In [0, 1]. 0 is `IPS`. 1 averages the rewards of the rounds whose logged action
        the policy may take. "auto" chooses the smallest estimated mean squared error
        for every policy.

    Attributes
    ----------
    n_actions_ : int
        Number of actions in the logs of `fit`.

    See Also
    --------
    SubGaussianDR : The same with a reward model.
    LogSmoothing : Smooths the weighted rewards instead.

    References
    ----------
    .. [1] Metelli, A. M., Russo, A., & Restelli, M. (2021). Subgaussian and
       differentiable importance sampling for off-policy evaluation and learning.
       NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import SubGaussianIPS, BanditLogs
    >>> logs = BanditLogs(np.zeros((4, 1)), [0, 1, 1, 0], [1, 0, 1, 0], [0.5] * 4)
    >>> evaluator = SubGaussianIPS(lam=0.5).fit(logs)
    >>> round(evaluator.score(np.tile([0.25, 0.75], (4, 1))), 4)
    0.4667
    """

    _parameter_constraints: dict = {**LAM_CONSTRAINT}
    _auto = AutoParameter("lam", 0.0, harmonic_grid)

    def __init__(self, *, lam: float | Literal["auto"] = 0.1) -> None:
        self.lam = lam

    @property
    def leaves_bias_out(self):
        return self.lam != 0 and "the bias of shrunk weights"

    def weights(self, w):
        return harmonic(w, self.lam)

    def terms(self, rounds):
        return (self.weights(rounds.w) * rounds.r,)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.on_policy_mean = True  # a weight of one stays one
        tags.consistent = self.lam == 0
        return tags


class SubGaussianDR(DoublyRobustBase):
    r"""Doubly robust with harmonically corrected weights [1]_.

    .. math:: \hat V = \frac1n \sum_i \Big[ \sum_a \pi(a|x_i)\, \hat q(x_i, a)
        + \frac{w_i}{1 - \lambda + \lambda w_i} (r_i - \hat q(x_i, a_i)) \Big]

    Parameters
    ----------
    reward_model : model, number, array or str, default=None
        See `DoublyRobust`.
    lam : float or "auto", default=0.1
        In [0, 1]: 0 is `DoublyRobust`; "auto" chooses, see `SubGaussianIPS`.
    cv : int, splitter, iterable or "prefit", default=5
        How rounds are split for cross-fitting, see `DoublyRobust`.

    Attributes
    ----------
    n_actions_ : int
        Number of actions in the logs of `fit`.

    See Also
    --------
    SubGaussianIPS : The same without a model.

    References
    ----------
    .. [1] Metelli, A. M., Russo, A., & Restelli, M. (2021). Subgaussian and
       differentiable importance sampling for off-policy evaluation and learning.
       NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import SubGaussianDR, BanditLogs
    >>> logs = BanditLogs(np.zeros((4, 1)), [0, 1, 1, 0], [1, 0, 1, 0], [0.5] * 4)
    >>> evaluator = SubGaussianDR(reward_model=0.5, lam=0.5).fit(logs)
    >>> round(evaluator.score(np.tile([0.25, 0.75], (4, 1))), 4)
    0.5
    """

    _parameter_constraints: dict = {
        **DoublyRobustBase._parameter_constraints,
        **LAM_CONSTRAINT,
    }
    _auto = AutoParameter("lam", 0.0, harmonic_grid)

    def __init__(
        self,
        *,
        reward_model: RewardModelLike = None,
        lam: float | Literal["auto"] = 0.1,
        cv: SplitterLike | Literal["prefit"] = 5,
    ) -> None:
        self.reward_model = reward_model
        self.lam = lam
        self.cv = cv

    @property
    def leaves_bias_out(self):
        return self.lam != 0 and "the bias of shrunk weights"

    def weights(self, w):
        return harmonic(w, self.lam)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.on_policy_mean = True  # a weight of one stays one
        tags.consistent = self.lam == 0
        tags.parameters_after_model = ("lam",)
        return tags

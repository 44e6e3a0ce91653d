# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Logarithmic smoothing of weighted rewards."""

from __future__ import annotations

from numbers import Real

import numpy as np

from skope_ope._sklearn import Interval
from skope_ope.evaluators.core._requires import Requires
from skope_ope.evaluators.static._base import StaticEvaluator


class LogSmoothing(StaticEvaluator):
    r"""Logarithmically smoothed IPS [1]_, a pessimistic estimate.

    .. math:: \hat V = \frac1n \sum_i \frac{\ln(1 + \lambda w_i r_i)}{\lambda}

    Rewards must not be negative; where the logs' `reward_range` has a negative lower
    bound :math:`r_{min}`, it is subtracted first and added back.

    Parameters
    ----------
    lam : float, default=None
        Smoothing, non-negative; 0 is `IPS`. `None`: 1 / sqrt(n_rounds).

    Attributes
    ----------
    n_actions_ : int
        Number of actions in the logs of `fit`.

    See Also
    --------
    SubGaussianIPS : Corrects the weights instead.

    References
    ----------
    .. [1] Sakhi, O., Aouali, I., Alquier, P., & Chopin, N. (2024). Logarithmic
       smoothing for pessimistic off-policy evaluation, selection and learning.
       NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import LogSmoothing, BanditLogs
    >>> logs = BanditLogs(np.zeros((4, 1)), [0, 1, 1, 0], [1, 0, 1, 0], [0.5] * 4)
    >>> evaluator = LogSmoothing().fit(logs)
    >>> round(evaluator.score(np.tile([0.25, 0.75], (4, 1))), 4)
    0.3914
    """

    _parameter_constraints: dict = {
        "lam": [Interval(Real, 0, None, closed="left"), None]
    }

    requires = Requires(reward_range=True)  # its lower end, where that is negative

    def __init__(self, *, lam: float | None = None) -> None:
        self.lam = lam

    @property
    def leaves_bias_out(self):
        return self.lam != 0 and "the bias of smoothed rewards"

    def resolved(self, facts, rows=None):
        """Return the evaluator with a number as `lam`."""
        if self.lam is not None:
            return self
        if facts.n_rounds is None:
            raise ValueError("lam=None is 1 / sqrt(n) of all rounds. Pass that number.")
        return self.with_parameters(lam=1 / np.sqrt(facts.n_rounds))

    def terms(self, rounds):
        lam, weighted = self.lam, rounds.w * (rounds.r - rounds.shift)
        if lam == 0:
            return (weighted + rounds.shift,)
        return (np.log1p(lam * weighted) / lam + rounds.shift,)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        is_ips = self.lam == 0
        tags.on_policy_mean = tags.consistent = is_ips
        tags.scale_equivariant = is_ips  # lam has the unit of 1 / reward
        return tags

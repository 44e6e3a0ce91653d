# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Inverse propensity scoring, plain and clipped."""

from __future__ import annotations

from numbers import Real
from typing import Literal

from skope_ope._sklearn import Interval
from skope_ope.evaluators.core._auto import AUTO, AutoParameter, clip_grid
from skope_ope.evaluators.core._rounds import weighted_reward
from skope_ope.evaluators.core._weights import clip
from skope_ope.evaluators.static._base import StaticEvaluator


class IPS(StaticEvaluator):
    r"""Inverse propensity scoring [1]_.

    .. math:: \hat V = \frac1n \sum_i \min(w_i, c_{max})\, r_i,
        \qquad w_i = \pi(a_i|x_i) / p_i

    Unbiased without clipping if the logger gives a positive probability to every action
    that the policy may take. Read more in the :ref:`User Guide <ips>`.

    Parameters
    ----------
    cmax : float or "auto", default=None
        Upper bound on the importance weights; it biases towards 0 and lowers the
        variance. `None` keeps the weights as they are; "auto" chooses for every policy
        the bound with the least estimated mean squared error.

    Attributes
    ----------
    n_actions_ : int
        Number of actions in the logs of `fit`.

    See Also
    --------
    SNIPS : Divides by the sum of the weights.
    DoublyRobust : Lowers the variance by a reward model.

    Notes
    -----
    `deviation_bound(delta, max_weight=M, reward_bound=B)` is Bernstein's inequality
    for independent rounds of a logger that may take whatever the policy may,
    :math:`|r| \le B` and :math:`w \le M` [2]_:
    :math:`B (\sqrt{2 M \ln(2/\delta)/n} + 2 (M + 1) \ln(2/\delta) / (3n))`.

    References
    ----------
    .. [1] Horvitz, D. G., & Thompson, D. J. (1952). A generalization of sampling
       without replacement from a finite universe. JASA 47(260).
    .. [2] Swaminathan, A., et al. (2017). Off-policy evaluation for slate
       recommendation. NeurIPS, Theorem 1 with a single slot.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import IPS, BanditLogs
    >>> logs = BanditLogs(np.zeros((4, 1)), [0, 1, 1, 0], [1, 0, 1, 0], [0.5] * 4)
    >>> IPS().fit(logs).score(np.tile([0.25, 0.75], (4, 1)))
    0.5
    """

    _parameter_constraints: dict = {
        "cmax": [
            Interval(Real, 0, None, closed="neither"),
            AutoParameter(None, clip_grid),
            None,
        ]
    }

    def __init__(self, *, cmax: float | Literal["auto"] | None = None) -> None:
        self.cmax = cmax

    @property
    def leaves_bias_out(self):
        return self.cmax is not None and "the bias of clipped weights"

    def weights(self, w):
        return clip(w, self.cmax)

    def terms(self, rounds):
        return (weighted_reward(rounds, self.weights(rounds.w)),)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # Clipping above one leaves on-policy weights alone.
        tags.on_policy_mean = self.cmax in (None, AUTO) or self.cmax >= 1
        tags.consistent = self.cmax is None
        return tags

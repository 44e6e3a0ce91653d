# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The Cressie-Read interval of a mean of weighted rewards, in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import fdtri

from skope_ope.intervals._weighted_rewards import check_level, check_weighted_rewards

if TYPE_CHECKING:
    from skope_ope._types import ArrayLike


def cressie_read_value(
    w: ArrayLike,
    r: ArrayLike,
    *,
    max_weight: float,
    min_weight: float = 0.0,
    reward_range: tuple[float, float],
) -> float:
    r"""Return the Cressie-Read estimate of a policy's value [1]_.

    One round with unknown reward is added to the n rounds. Its weight :math:`w_0` is
    `max_weight` if the weights average less than 1, otherwise `min_weight`. Consider
    all distributions q over these rounds whose weights average 1. The one nearest to
    equal shares, in :math:`\sum_i ((n + 1) q_i - 1)^2`, is

    .. math:: q_i = \frac{1}{n + 1} \left(
        1 + \frac{(1 - \bar w)(w_i - \bar w)}{s^2_w} \right), \qquad
        \hat V = \sum_{i \ge 1} q_i w_i r_i + q_0 w_0 \frac{r_{min} + r_{max}}{2},

    with the mean :math:`\bar w` and the variance :math:`s^2_w` (divisor n + 1) of the
    n + 1 weights. The result is cut to the range of the rewards.

    Parameters
    ----------
    w : array-like of shape (n_rounds,)
        Importance weights. Their expectation is 1.
    r : array-like of shape (n_rounds,)
        Rewards.
    max_weight : float
        Largest possible weight of any round, logged or not. At least 1.
    min_weight : float, default=0.0
        Smallest possible weight of any round. At most 1.
    reward_range : tuple (low, high)
        Range of the rewards.

    Returns
    -------
    value : float

    Raises
    ------
    ValueError
        If a weight or a reward is outside its bounds (the message names the row), or
        there is no round.

    References
    ----------
    .. [1] Karampatziakis, N., Langford, J., & Mineiro, P. (2020). Empirical likelihood
       for contextual bandits. Advances in Neural Information Processing Systems, 33.

    Examples
    --------
    >>> from skope_ope.intervals import cressie_read_value
    >>> value = cressie_read_value(
    ...     [0.2, 4, 0.2, 3], [0, 1, 1, 1], max_weight=6, reward_range=(0, 1)
    ... )
    >>> round(value, 3)
    0.951
    """
    rounds = check_weighted_rewards(w, r, max_weight, min_weight, reward_range)
    weight = _added_weight(rounds)
    middle = _JointMoments.of(rounds, weight, weight * (rounds.low + rounds.high) / 2)
    return rounds.inside(middle.nearest)


def cressie_read_interval(
    w: ArrayLike,
    r: ArrayLike,
    *,
    max_weight: float,
    min_weight: float = 0.0,
    reward_range: tuple[float, float],
    level: float = 0.95,
) -> tuple[float, float]:
    r"""Return the Cressie-Read interval for a policy's value [1]_.

    One round is added to the n rounds, with weight `min_weight` or `max_weight` and
    the least or the greatest reward. The limits are the least and the greatest mean of
    :math:`z_i = w_i r_i` over distributions q of these rounds. The weights must
    average 1 under q, and the distance of q from equal shares may exceed that of
    :func:`cressie_read_value` by at most F:

    .. math:: \bar z + \beta (1 - \bar w) \mp
        \sqrt{\frac{s^2_e}{n + 1}\, (D_{min} + F_{1, n - 1;\, level} - D)}, \qquad
        D = \frac{(n + 1)(1 - \bar w)^2}{s^2_w},

    with the regression coefficient :math:`\beta` of z on w and the variance
    :math:`s^2_e` of its residuals over the n + 1 rounds, and :math:`D_{min}` the D of
    the round that :func:`cressie_read_value` adds. The limits are cut to the range of
    the rewards. One pass over the rounds computes all sums.

    The coverage holds only for large n: use "gamma" or "betting" for few events.

    Parameters
    ----------
    w : array-like of shape (n_rounds,)
        Importance weights of independent rounds. Their expectation is 1.
    r : array-like of shape (n_rounds,)
        Rewards.
    max_weight : float
        Largest possible weight of any round, logged or not. At least 1.
    min_weight : float, default=0.0
        Smallest possible weight of any round. At most 1.
    reward_range : tuple (low, high)
        Range of the rewards.
    level : float, default=0.95
        Coverage, two-sided.

    Returns
    -------
    low, high : float

    Raises
    ------
    ValueError
        If a weight or a reward is outside its bounds (the message names the row). If
        there is no round, or `level` is not in (0, 1).

    References
    ----------
    .. [1] Karampatziakis, N., Langford, J., & Mineiro, P. (2020). Empirical likelihood
       for contextual bandits. Advances in Neural Information Processing Systems, 33.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope.intervals import cressie_read_interval
    >>> w = np.tile([0.0, 0.0, 3.0], 100)
    >>> r = np.tile([1.0, 0.0, 1.0, 0.0, 0.0, 0.0], 50)
    >>> low, high = cressie_read_interval(w, r, max_weight=3, reward_range=(0, 1))
    >>> round(low, 3), round(high, 3)
    (0.397, 0.603)
    """
    check_level(level)
    rounds = check_weighted_rewards(w, r, max_weight, min_weight, reward_range)
    n = len(rounds.weight)
    if n == 1:
        return rounds.low, rounds.high
    radius = _JointMoments.of(rounds, _added_weight(rounds), 0.0).distance
    radius += fdtri(1, n - 1, level)
    low, high = (_least_near(rounds, radius), -_least_near(rounds.reversed, radius))
    return rounds.inside(low), rounds.inside(high)


def _added_weight(rounds):
    """Weight of the round that lets all weights average 1."""
    short = rounds.weight.mean() < 1
    return rounds.max_weight if short else rounds.min_weight


def _least_near(rounds, radius):
    """Least mean within the radius, over both weights of the added round."""
    ends = []
    for weight in {rounds.min_weight, rounds.max_weight}:
        moments = _JointMoments.of(rounds, weight, rounds.smallest_term(weight))
        if moments.distance <= radius:
            spread = moments.residual * (radius - moments.distance) / moments.n
            ends.append(moments.nearest - sqrt(max(spread, 0.0)))
    return min(ends)


@dataclass(frozen=True)
class _JointMoments:
    """What the n + 1 rounds say: sizes of the formulas above."""

    n: int  # rounds, with the added one
    nearest: float  # mean of z under the nearest q whose weights average 1
    # That q's distance D from equal shares; infinite where there is no such q
    distance: float
    residual: float  # variance of the residuals of z on w

    @classmethod
    def of(cls, rounds, weight, term):
        """Moments of the rounds and one of this weight and this product."""
        w = np.append(rounds.weight, weight)
        z = np.append(rounds.weight * rounds.reward, term)
        w_mean, z_mean = w.mean(), z.mean()
        w_spread, z_spread = w - w_mean, z - z_mean
        w_var, z_var = np.mean(w_spread**2), np.mean(z_spread**2)
        if w_var <= (1e-15 * np.abs(w).max()) ** 2:  # all weights are the same
            feasible = abs(w_mean - 1) <= 1e-12
            return cls(len(w), z_mean, 0.0 if feasible else np.inf, z_var)
        slope = np.mean(w_spread * z_spread) / w_var
        return cls(
            n=len(w),
            nearest=z_mean + slope * (1 - w_mean),
            distance=len(w) * (1 - w_mean) ** 2 / w_var,
            residual=np.mean((z_spread - slope * w_spread) ** 2),
        )

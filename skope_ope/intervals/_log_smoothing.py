# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The log smoothing interval: limits that need no bound on the weights."""

from __future__ import annotations

from math import expm1, isfinite, log, sqrt
from typing import TYPE_CHECKING

import numpy as np

from skope_ope.intervals._weighted_rewards import (
    check_inside,
    check_level,
    check_pair,
    check_rounds,
)

if TYPE_CHECKING:
    from skope_ope._types import ArrayLike


def log_smoothing_interval(
    w: ArrayLike,
    r: ArrayLike,
    *,
    reward_range: tuple[float, float],
    level: float = 0.95,
    lam: float | None = None,
) -> tuple[float, float]:
    r"""Return the log smoothing interval for a policy's value [1]_.

    For the terms :math:`z_i = w_i (r_i - r_{min}) \ge 0` and any :math:`\lambda > 0`
    that was fixed before the rounds were seen, each of

    .. math:: V \ge r_{min} + \frac1\lambda \left( \exp \Big(
        \frac1n \sum_i \ln(1 + \lambda z_i) - \frac{\ln(2 / \alpha)}{n} \Big)
        - 1 \right), \qquad \alpha = 1 - level,

    and the same from above, with :math:`w_i (r_{max} - r_i)`, fails with probability
    :math:`\alpha / 2` at most: the product of :math:`1 + \lambda z_i` has a mean of at
    most :math:`(1 + \lambda (V - r_{min}))^n`, and Markov's inequality does the rest.
    The interval covers with at least `level`, for every n and weights of any size. The
    policy may also take actions that the logger never takes: these can only add to the
    terms' mean. It is about the value of the policy; an estimate may lie outside.

    With a known range :math:`\lambda` belongs to rewards measured by its length, so
    that the interval moves with the unit of the rewards.

    Parameters
    ----------
    w : array-like of shape (n_rounds,)
        Importance weights of independent rounds, none of them negative.
    r : array-like of shape (n_rounds,)
        Rewards.
    reward_range : tuple (low, high)
        Range of the rewards. An end that is not known, -inf or inf, has an infinite
        limit.
    level : float, default=0.95
        Coverage, two-sided.
    lam : float, default=None
        Smoothing, above 0. It must not be chosen by the rounds. `None`:
        :math:`1 / \sqrt n`.

    Returns
    -------
    low, high : float

    Raises
    ------
    ValueError
        If a weight is negative, or a reward is outside its range (the message names the
        row). If there is no round, or `level` is not in (0, 1). If no value is
        possible, because the weights are wrong.

    References
    ----------
    .. [1] Sakhi, O., Aouali, I., Alquier, P., & Chopin, N. (2024). Logarithmic
       smoothing for pessimistic off-policy evaluation, selection and learning.
       NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope.intervals import log_smoothing_interval
    >>> w = np.tile([0.0, 2.0], 200)
    >>> r = np.tile([0.0, 1.0, 0.0, 0.0], 100)
    >>> low, high = log_smoothing_interval(w, r, reward_range=(0, 1))
    >>> round(low, 3), round(high, 3)
    (0.294, 0.706)
    """
    check_level(level)
    weight, reward, low, high = _checked(w, r, reward_range)
    n = len(weight)
    if lam is None:
        lam = 1 / sqrt(n)
    elif not 0 < lam < float("inf"):
        raise ValueError(f"lam must be a positive number, got {lam!r}.")
    unit = high - low if isfinite(high - low) else 1.0
    price = log(2 / (1 - level)) / n

    def least(excess):
        """Return the lower limit of the mean of terms that are not negative."""
        smoothed = np.log1p(lam * (weight * excess) / unit).mean()
        return float(unit * expm1(smoothed - price) / lam)

    below = low + least(reward - low) if isfinite(low) else low
    above = high - least(high - reward) if isfinite(high) else high
    if below > above:
        raise ValueError(
            "no value agrees with the rounds: they exclude all values below "
            f"{below:.6g} and all above {above:.6g}. Importance weights should average "
            f"one, but these average {weight.mean():.6g}. Check the propensities."
        )
    return max(below, low), min(above, high)


def _checked(w, r, reward_range):
    """Get weights, rewards and the ends of their range; raise where they are none."""
    # At least one end of the range is finite.
    weight, reward = check_rounds(w, r)
    low, high = check_pair("reward_range", reward_range)
    if not low < high or not (isfinite(low) or isfinite(high)):
        raise ValueError(
            "reward_range must be two numbers, the first less than the second and at "
            f"least one of them finite, got ({low}, {high})."
        )
    check_inside("r", reward, low, high, "State the range that rewards can have.")
    remedy = "Importance weights are not negative; those of the pseudoinverse may be."
    check_inside("w", weight, 0.0, float("inf"), remedy)
    return weight, reward, low, high

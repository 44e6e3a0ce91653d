# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Empirical Bernstein confidence sequences: valid after every round."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from skope_ope.intervals._empirical_bernstein_bound import RHO
from skope_ope.intervals._sequence_rounds import sequence_rounds
from skope_ope.intervals._weighted_limits import WeightedLimits

if TYPE_CHECKING:
    from skope_ope._types import Array, ArrayLike


def empirical_bernstein_sequence(
    w: ArrayLike,
    r: ArrayLike,
    *,
    reward_range: tuple[float, float],
    level: float = 0.95,
    after: ArrayLike | None = None,
    rho: float = RHO,
) -> Array:
    r"""Return the empirical Bernstein confidence sequence of a policy's value [1]_.

    The terms :math:`z_i = w_i (r_i - r_{min}) / (r_{max} - r_{min})` are not negative
    and need no upper bound. With any prediction :math:`m_{i-1} \le 1` of the next one,
    made from those before, and :math:`\psi(\lambda) = -\ln(1 - \lambda) - \lambda`,

    .. math:: \exp\Big( \lambda \sum_{i \le t} (z_i - \mu_i) - \psi(\lambda)
        \sum_{i \le t} (z_i - m_{i-1})^2 \Big), \qquad 0 \le \lambda < 1,

    is a supermartingale for the conditional means :math:`\mu_i`. So is its average over
    :math:`\lambda`, here a gamma-exponential mixture [2]_: it reaches
    :math:`2 / \alpha` at any time with probability :math:`\alpha / 2` at most, with
    :math:`\alpha = 1 - level`. That gives the lower limit, and the terms
    :math:`w_i (r_{max} - r_i)` give the upper one. The prediction is the mean of the
    terms before and of one term 1/2, cut at 1: above 1 the process is no
    supermartingale.

    Both limits hold together after all rounds with probability `level`, whatever the
    distribution of the rewards in their range, also for a logger that learned, with the
    probabilities it then had. They are about the mean of :math:`\mu_1, \ldots, \mu_t`:
    the value may change along the rounds. If the logger never takes some action of the
    policy, the weights average less than 1; the limits are then wider and still hold.

    Parameters
    ----------
    w : array-like of shape (n_rounds,)
        Importance weights in the order of time, none of them negative.
    r : array-like of shape (n_rounds,)
        Rewards.
    reward_range : tuple (low, high)
        Range of the rewards.
    level : float, default=0.95
        Probability with which all intervals cover, two-sided.
    after : array-like of int of shape (n_times,), default=None
        Numbers of rounds, rising, after which the interval is wanted; `None`: after
        every round.
    rho : float, default=10.0
        The sequence is narrowest where :math:`\sum (z_i - m_{i-1})^2` is about ten
        times `rho`.

    Returns
    -------
    low, high : ndarray of shape (n_times,)
        Within the range of the rewards. NaN where no value agrees with the rounds: the
        weights are wrong, for they should average 1 at most.

    Raises
    ------
    ValueError
        Where a weight or a reward leaves its bounds (the row is named), there is none,
        or `level`, `rho` or `after` are not what they must be.

    References
    ----------
    .. [1] Waudby-Smith, I., Wu, L., Ramdas, A., Karampatziakis, N., & Mineiro, P.
       (2024). Anytime-valid off-policy inference for contextual bandits. ACM/IMS
       Journal of Data Science, 1(3).
    .. [2] Howard, S. R., Ramdas, A., McAuliffe, J., & Sekhon, J. (2021). Time-uniform,
       nonparametric, nonasymptotic confidence sequences. Annals of Statistics, 49(2).

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope.intervals import empirical_bernstein_sequence
    >>> w = np.tile([0.0, 2.0], 1000)
    >>> r = np.tile([0.0, 1.0, 0.0, 0.0], 500)
    >>> low, high = empirical_bernstein_sequence(
    ...     w, r, reward_range=(0, 1), after=[100, 2000]
    ... )
    >>> low.round(3), high.round(3)
    (array([0.199, 0.433]), array([0.8  , 0.567]))
    """
    if not 0 < rho < math.inf:
        raise ValueError(f"rho must be a positive number, got {rho!r}.")
    rounds = sequence_rounds(w, r, reward_range, level, after)
    limits = WeightedLimits("empirical_bernstein", level, reward_range, rho=rho)
    return limits.take(*rounds)

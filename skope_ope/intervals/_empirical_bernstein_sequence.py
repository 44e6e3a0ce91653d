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
) -> tuple[Array, Array]:
    r"""Return the empirical Bernstein confidence sequence of a policy's value [1]_.

    The terms :math:`z_i = w_i (r_i - r_{min}) / (r_{max} - r_{min})` are not negative
    and need no upper bound. Let :math:`m_{i-1} \le 1` be any prediction of the next
    term from those before. With :math:`\psi(\lambda) = -\ln(1 - \lambda) - \lambda`,

    .. math:: \exp\Big( \lambda \sum_{i \le t} (z_i - \mu_i) - \psi(\lambda)
        \sum_{i \le t} (z_i - m_{i-1})^2 \Big), \qquad 0 \le \lambda < 1,

    is a supermartingale for the conditional means :math:`\mu_i`. So is its average over
    :math:`\lambda`, here a gamma-exponential mixture [2]_. With
    :math:`\alpha = 1 - level`, it reaches :math:`2 / \alpha` at any time with
    probability at most :math:`\alpha / 2`. That gives the lower limit. The terms
    :math:`w_i (r_{max} - r_i)` give the upper limit. The prediction is the mean of the
    terms before and of one term 1/2, cut at 1: above 1 the process is not a
    supermartingale.

    Both limits hold together after all rounds with probability `level`. This is true
    for every distribution of the rewards in their range, and for adaptive loggers with
    their propensities. The limits are for the mean of :math:`\mu_1, \ldots, \mu_t`: the
    value may change along the rounds. If the logger never takes some action of the
    policy, the weights average less than 1. The limits then still hold, but are wider.

    Parameters
    ----------
    w : array-like of shape (n_rounds,)
        Importance weights in the order of time, not negative.
    r : array-like of shape (n_rounds,)
        Rewards.
    reward_range : tuple (low, high)
        Range of the rewards.
    level : float, default=0.95
        Probability that all intervals cover, two-sided.
    after : array-like of int of shape (n_times,), default=None
        Increasing numbers of rounds after which to compute the interval. `None`: after
        every round.
    rho : float, default=10.0
        The sequence is narrowest when :math:`\sum (z_i - m_{i-1})^2` is about ten
        times `rho`.

    Returns
    -------
    low, high : ndarray of shape (n_times,)
        Within the range of the rewards. NaN if no value agrees with the rounds. Then
        the weights are wrong: they should average at most 1.

    Raises
    ------
    ValueError
        If a weight or a reward is outside its bounds (the message names the row). If
        there is no round, or `level`, `rho` or `after` is not valid.

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

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Betting confidence sequences: valid after every round, from fixed bets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skope_ope.intervals._sequence_rounds import sequence_rounds
from skope_ope.intervals._weighted_limits import WeightedLimits

if TYPE_CHECKING:
    from skope_ope._types import Array, ArrayLike


def betting_sequence(
    w: ArrayLike,
    r: ArrayLike,
    *,
    reward_range: tuple[float, float],
    level: float = 0.95,
    max_weight: float | None = None,
    after: ArrayLike | None = None,
) -> tuple[Array, Array]:
    r"""Return the betting confidence sequence of a policy's value.

    The bets are on terms :math:`y_i \ge 0` with conditional means :math:`x_i`. A bet
    that they are greater than m on average has the capital

    .. math:: W_t(m) = \sum_{k=-14}^{6} c_k \prod_{i \le t}
        \frac{1 + 2^k y_i}{1 + 2^k m}, \qquad
        c_k \propto \frac{1}{1 + (k + 4)^2 / 9}, \quad \sum_k c_k = 1,

    after t rounds [1]_. With :math:`m = (x_1 + \ldots + x_t) / t` it is at most a
    martingale that starts at one, because the logarithm is concave. With
    :math:`\alpha = 1 - level`, it reaches :math:`2 / \alpha` at any time with
    probability at most :math:`\alpha / 2` (Ville's inequality). So the least m for
    which it does not is a lower limit of that mean. The lower limit of the value uses
    :math:`y_i = w_i (r_i - r_{min}) / (r_{max} - r_{min})`, and the upper limit uses
    :math:`w_i (r_{max} - r_i) / (r_{max} - r_{min})`. With `max_weight`, half the
    capital bets on `max_weight` minus the terms of the other limit. These terms are not
    negative either.

    Both limits hold together after all rounds with probability `level`. This is true
    for every distribution of the rewards in their range, and for adaptive loggers with
    their propensities. The limits are for the mean of the values in the rounds so far:
    the value may change. If the logger never takes some action of the policy, the
    weights average less than 1. Without `max_weight` the limits then still hold, but
    are wider.

    The bets are fixed: 21 sums are all that is kept of the rounds, and each limit is
    one root. With uneven weights, the limits are narrower than those of
    :func:`empirical_bernstein_sequence`, whose capital is a lower bound of such
    products.

    Parameters
    ----------
    w : array-like of shape (n_rounds,)
        Importance weights in the order of time, not negative.
    r : array-like of shape (n_rounds,)
        Rewards. With weights of one, any terms in `reward_range`.
    reward_range : tuple (low, high)
        Range of the rewards.
    level : float, default=0.95
        Probability that all intervals cover, two-sided.
    max_weight : float, default=None
        Largest possible weight of any round, logged or not. `None`: unknown. It makes
        the limit far from the value narrower. It requires that the logger supports
        the policy: every action of the policy has a positive probability.
    after : array-like of int of shape (n_times,), default=None
        Increasing numbers of rounds after which to compute the interval. `None`: after
        every round.

    Returns
    -------
    low, high : ndarray of shape (n_times,)
        Within the range of the rewards. NaN if no value agrees with the rounds. Then
        the weights are wrong: they should average at most 1.

    Raises
    ------
    ValueError
        If a weight or a reward is outside its bounds (the message names the row). If
        there is no round, or `level` or `after` is not valid.

    References
    ----------
    .. [1] Waudby-Smith, I., & Ramdas, A. (2024). Estimating means of bounded random
       variables by betting. Journal of the Royal Statistical Society B, 86(1).

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope.intervals import betting_sequence
    >>> w = np.tile([0.0, 2.0], 1000)
    >>> r = np.tile([0.0, 1.0, 0.0, 0.0], 500)
    >>> low, high = betting_sequence(w, r, reward_range=(0, 1), after=[100, 2000])
    >>> low.round(3), high.round(3)
    (array([0.246, 0.438]), array([0.754, 0.562]))
    """
    rounds = sequence_rounds(w, r, reward_range, level, after, max_weight)
    limits = WeightedLimits("betting", level, reward_range, max_weight)
    return limits.take(*rounds)

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
) -> Array:
    r"""Return the betting confidence sequence of a policy's value.

    Terms :math:`y_i \ge 0` with conditional means :math:`x_i` are bet on: a bettor who
    claims that they are greater on average than m has the capital

    .. math:: W_t(m) = \sum_{k=-14}^{6} c_k \prod_{i \le t}
        \frac{1 + 2^k y_i}{1 + 2^k m}, \qquad
        c_k \propto \frac{1}{1 + (k + 4)^2 / 9}, \quad \sum_k c_k = 1,

    after t rounds [1]_. With :math:`m = (x_1 + \ldots + x_t) / t`, the logarithm being
    concave, it is at most a martingale that starts at one. It reaches
    :math:`2 / \alpha`, with :math:`\alpha = 1 - level`, with probability
    :math:`\alpha / 2` at most at any time (Ville's inequality), and the least m where
    it does not is a lower limit of that mean. For the lower limit of the value
    :math:`y_i = w_i (r_i - r_{min}) / (r_{max} - r_{min})`, and for the upper one
    :math:`w_i (r_{max} - r_i) / (r_{max} - r_{min})`. If no weight exceeds
    `max_weight`, half the capital is bet on `max_weight` less the terms of the other
    limit, which are not negative either.

    Both limits hold together after all rounds with probability `level`, whatever the
    distribution of the rewards in their range, also for a logger that learned, with the
    probabilities it then had. They are about the mean of the values in the rounds so
    far: the value may change. If the logger never takes some action of the policy, the
    weights average less than 1; without `max_weight` the limits are then wider and
    still hold.

    The bets are fixed, so that 21 sums are all that is kept of the rounds, and each
    limit is one root. Where weights are uneven, it is narrower than that of
    :func:`empirical_bernstein_sequence`, whose capital is a lower bound of such
    products.

    Parameters
    ----------
    w : array-like of shape (n_rounds,)
        Importance weights in the order of time, none of them negative.
    r : array-like of shape (n_rounds,)
        Rewards. With weights of one, any terms in `reward_range`.
    reward_range : tuple (low, high)
        Range of the rewards.
    level : float, default=0.95
        Probability with which all intervals cover, two-sided.
    max_weight : float, default=None
        Largest weight that any round can have, logged or not; `None`: none is known.
        With it the limit far from the value is narrower, and the logger must give a
        positive probability to every action that the policy may take.
    after : array-like of int of shape (n_times,), default=None
        Numbers of rounds, rising, after which the interval is wanted; `None`: after
        every round.

    Returns
    -------
    low, high : ndarray of shape (n_times,)
        Within the range of the rewards. NaN where no value agrees with the rounds: the
        weights are wrong, for they should average 1 at most.

    Raises
    ------
    ValueError
        Where a weight or a reward leaves its bounds (the row is named), there is none,
        or `level` or `after` are not what they must be.

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

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Empirical likelihood for a mean of weighted rewards: estimate and interval."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import fdtri

from skope_ope.intervals._likelihood_dual import Dual, Terms
from skope_ope.intervals._weighted_rewards import check_level, check_weighted_rewards

if TYPE_CHECKING:
    from skope_ope._types import ArrayLike


def empirical_likelihood_value(
    w: ArrayLike,
    r: ArrayLike,
    *,
    max_weight: float,
    min_weight: float = 0.0,
    reward_range: tuple[float, float],
) -> float:
    r"""Return the maximum likelihood estimate of a policy's value [1]_.

    It considers all distributions of weights and rewards within their bounds whose
    weights average 1. It takes the one under which the logged rounds are most likely:

    .. math:: q_i = \frac{1}{n (1 + \beta (w_i - 1))}, \qquad
        \hat V = \sum_i q_i w_i r_i
        + \Big( 1 - \sum_i q_i w_i \Big) \frac{r_{min} + r_{max}}{2},

    with the :math:`\beta` between :math:`1 / (1 - w_{max})` and
    :math:`1 / (1 - w_{min})` that maximises :math:`\sum_i \ln(1 + \beta (w_i - 1))`.
    If :math:`\beta` is at an end, a share of the weights belongs to rounds that are not
    in the log. Their reward is set to the middle of the range.

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
    >>> from skope_ope.intervals import empirical_likelihood_value
    >>> value = empirical_likelihood_value(
    ...     [0.2, 4, 0.2, 3], [0, 1, 1, 1], max_weight=6, reward_range=(0, 1)
    ... )
    >>> round(value, 3)
    0.925
    """
    rounds = check_weighted_rewards(w, r, max_weight, min_weight, reward_range)
    terms = Terms.of(rounds)
    share = terms.share / terms.mixture(terms.likeliest_mass())
    seen = float(share @ terms.weight)
    value = float(share @ terms.product)
    value += (1 - seen) * (rounds.low + rounds.high) / 2
    return rounds.inside(value)


def empirical_likelihood_interval(
    w: ArrayLike,
    r: ArrayLike,
    *,
    max_weight: float,
    min_weight: float = 0.0,
    reward_range: tuple[float, float],
    level: float = 0.95,
) -> tuple[float, float]:
    r"""Return the empirical likelihood interval for a policy's value [1]_.

    It considers all distributions of weights and rewards within their bounds whose
    weights average 1. It holds the values v of those under which the logged rounds are
    nearly as likely as under the most likely one:

    .. math:: 2 \Big[ \max_{b, g} \sum_i \ln(1 + b (w_i - 1) + g (w_i r_i - v))
        - \max_b \sum_i \ln(1 + b (w_i - 1)) \Big] \le F_{1, n - 1;\, level},

    with maxima over all b and g for which no term is negative anywhere within the
    bounds. Its lower end is found in the dual form,

    .. math:: m(1) + \max_{s, t \ge 0} \Big\{ \exp \Big( \frac{1}{n} \sum_i
        \ln \frac{s A_i + t B_i + w_i r_i - m(w_i)}{1 + \beta (w_i - 1)}
        - \frac{F}{2 n} \Big) - s - t \Big\},

    :math:`A = (w_{max} - w) / (w_{max} - 1)`,
    :math:`B = (w - w_{min}) / (1 - w_{min})`, and m the line through the least products
    of weight and reward at both bounds of the weight (:math:`m(w) = w\, r_{min}` where
    no weight is negative); :math:`\beta` as in :func:`empirical_likelihood_value`. The
    function is concave, and a bound on the duality gap proves that the maximum was
    found. Every s and t give a valid end that is at least as wide. So limited precision
    never makes the interval too short. The upper end is computed from the negative
    rewards.

    The coverage holds only for large n. It is .89 if two or three rewarded rounds are
    expected. For few events use "gamma" or "betting".

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
    ArithmeticError
        If the duality gap stays above 1e-6 of the range.

    References
    ----------
    .. [1] Karampatziakis, N., Langford, J., & Mineiro, P. (2020). Empirical likelihood
       for contextual bandits. Advances in Neural Information Processing Systems, 33.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope.intervals import empirical_likelihood_interval
    >>> w = np.tile([0.0, 0.0, 3.0], 100)
    >>> r = np.tile([1.0, 0.0, 1.0, 0.0, 0.0, 0.0], 50)
    >>> low, high = empirical_likelihood_interval(
    ...     w, r, max_weight=3, reward_range=(0, 1)
    ... )
    >>> round(low, 3), round(high, 3)
    (0.403, 0.597)
    """
    check_level(level)
    rounds = check_weighted_rewards(w, r, max_weight, min_weight, reward_range)
    n = len(rounds.weight)
    if n == 1:
        return rounds.low, rounds.high
    loss = fdtri(1, n - 1, level) / (2 * n)  # of the mean log-likelihood
    terms = Terms.of(rounds)
    low = _lower_end(rounds, terms, loss)
    high = -_lower_end(rounds.reversed, terms.reversed, loss)
    return rounds.inside(low), rounds.inside(high)


def _lower_end(rounds, terms, loss):
    """Lower end of the interval: the maximum of the dual form."""
    at_bounds = rounds.smallest_term(np.array([rounds.min_weight, rounds.max_weight]))
    slope = 0.0
    if len(terms.basis) == 2:
        slope = (at_bounds[1] - at_bounds[0]) / (rounds.max_weight - rounds.min_weight)
    least = at_bounds[0] + slope * (terms.weight - rounds.min_weight)
    offset = at_bounds[0] + slope * (1 - rounds.min_weight)
    dual = Dual(terms, np.maximum(terms.product - least, 0), loss)
    return offset + dual.maximum(rounds.high - rounds.low)

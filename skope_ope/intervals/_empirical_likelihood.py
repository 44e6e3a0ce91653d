# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Likelihood intervals of a mean of weighted rewards."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import sqrt

import numpy as np
from scipy.optimize import brentq
from scipy.special import fdtri

from skope_ope._parallel import dot
from skope_ope._types import ArrayLike
from skope_ope.intervals._confidence_interval import check_level
from skope_ope.intervals._finite_sample import check_weighted_rewards


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
    low = _least_likely(rounds, terms, loss)
    high = -_least_likely(rounds.reversed, terms.reversed, loss)
    return rounds.inside(low), rounds.inside(high)


def _least_likely(rounds, terms, loss):
    """Lower end of the interval: the maximum of the dual form."""
    at_bounds = rounds.smallest_term(np.array([rounds.min_weight, rounds.max_weight]))
    slope = 0.0
    if len(terms.basis) == 2:
        slope = (at_bounds[1] - at_bounds[0]) / (rounds.max_weight - rounds.min_weight)
    least = at_bounds[0] + slope * (terms.weight - rounds.min_weight)
    offset = at_bounds[0] + slope * (1 - rounds.min_weight)
    dual = Dual(terms, np.maximum(terms.product - least, 0), loss)
    return offset + dual.maximum(rounds.high - rounds.low)


# -- the likelihood of distributions whose weights average one, and its dual form ------

FAILURE = 1e-6  # of the reward range: a bound of the duality gap that is too much
MAX_STEPS = 200
REPEAT_SAMPLE = 1000  # rounds that tell whether rounds repeat


@dataclass(frozen=True)
class Terms:
    """Distinct rounds in the coordinates in which all constraints are signs."""

    weight: np.ndarray  # the weight, and the product of weight and reward
    product: np.ndarray  # the weight, and the product of weight and reward
    share: np.ndarray  # how often it occurs among the rounds
    # Two lines, A and B, each 1 at weight 1 and 0 at a bound of the weight. Where all
    # weights are 1 it is one row of ones
    basis: np.ndarray

    @classmethod
    def of(cls, rounds):
        """Terms of the rounds."""
        weight, product, count = _distinct_terms(
            rounds.weight, rounds.weight * rounds.reward
        )
        least, most = rounds.min_weight, rounds.max_weight
        if least == most:
            basis = np.ones((1, len(weight)))
        else:
            basis = np.array(
                [(most - weight) / (most - 1), (weight - least) / (1 - least)]
            )
        return cls(weight, product, count / len(rounds.weight), basis)

    @property
    def reversed(self):
        """The same rounds with the sign of the rewards turned."""
        return Terms(self.weight, -self.product, self.share, self.basis)

    @cached_property
    def change(self):
        """Return A - B, by which the mixture moves with the share of A."""
        return self.basis[0] - self.basis[1]

    def mixture(self, mass):
        """Return 1 + beta (w - 1), as A and B with shares mass and 1 - mass."""
        if len(self.basis) == 1:
            return self.basis[0]
        mixture = mass * self.basis[0]
        mixture += (1 - mass) * self.basis[1]
        return mixture

    def likeliest_mass(self, excess=0.0, start=0.5):
        """Share of A that maximises the mean of ln(mixture + excess)."""
        # The derivative falls in the share: Newton's steps, and halves of the interval
        # in which its sign changes where they leave it.
        if len(self.basis) == 1:
            return 1.0
        low, high, mass = 0.0, 1.0, start
        for _ in range(MAX_STEPS):
            slope, curvature = self._slope(mass, excess)
            noise = 1e-15 * curvature**0.5  # at least that of the mean size of ratios
            if abs(slope) <= noise or (mass == 0 > slope) or (mass == 1 and slope > 0):
                break
            low, high = (mass, high) if slope > 0 else (low, mass)
            new = mass + slope / curvature
            if not low < new < high:
                end = 1.0 if slope > 0 else 0.0
                if end in (low, high) and self._slope(end, excess)[0] * slope >= 0:
                    return end
                new = (low + high) / 2
            if new in (low, high):
                break
            mass = new
        return mass

    def _slope(self, mass, excess):
        """Return the derivative in the share, and minus its own."""
        with np.errstate(divide="ignore"):
            ratio = self.change / (self.mixture(mass) + excess)
        weighed = self.share * ratio
        return weighed.sum(), dot(weighed, ratio)


def _distinct_terms(weight, product):
    """Distinct pairs and how often each occurs, where rounds repeat."""
    product = np.where(weight == 0, 0.0, product)  # no sign of zero
    pair = weight + 1j * product
    sample = pair[:: max(1, len(pair) // REPEAT_SAMPLE)]
    if 2 * len(np.unique(sample)) > len(sample):
        return weight, product, np.ones(len(weight))
    distinct, count = np.unique(pair, return_counts=True)
    return distinct.real.copy(), distinct.imag.copy(), count.astype(float)


class Dual:
    r"""A concave function of (s, t), of which an end of the interval is the maximum."""

    # .. math:: \exp \Big( \frac1n \sum_i \ln \frac{s A_i + t B_i + y_i}{m_i}
    #     - loss \Big) - s - t
    #
    # It is sought as a function of the size s + t, in which its derivative falls, with
    # the likeliest mixture for each size.

    def __init__(self, terms, excess, loss):
        self.terms, self.excess, self.loss = terms, excess, loss
        self.mass = terms.likeliest_mass()
        self.density = terms.mixture(self.mass)
        # At a maximum s + t is at most this: there the function is not negative, and
        # mean ln(x / density) <= ln mean(x / density) for the mixture x of A and B.
        self.farthest = dot(terms.share, excess / self.density) / loss

    def at(self, size):
        """Value, gradient in (s, t) and (s, t) of the likeliest mixture of a size."""
        self.mass = self.terms.likeliest_mass(self.excess / size, self.mass)
        growth = self.terms.mixture(self.mass) + self.excess / size
        gain = dot(self.terms.share, np.log(growth / self.density)) - self.loss
        gradient = np.exp(gain) * (self.terms.basis / growth) @ self.terms.share - 1
        point = size * np.array([self.mass, 1 - self.mass])[: len(gradient)]
        return size * np.expm1(gain), gradient, point

    def slope(self, log_size):
        """Return the derivative in the size, with the shares of s and t."""
        _, gradient, point = self.at(np.exp(log_size))
        return gradient @ point / point.sum()

    def maximum(self, scale):
        """Maximum over s, t >= 0; `scale` is the range of the rewards."""
        smallest = 1e-13 * scale
        if self.farthest <= smallest:
            return 0.0
        low, high = self._bracket(np.log(smallest), np.log(self.farthest))
        found = brentq(self.slope, low, high, xtol=1e-13) if low < high else low
        value, gradient, point = self.at(np.exp(found))
        gap = max(gradient.max(), 0.0) * self.farthest - gradient @ point
        if not gap <= FAILURE * scale:
            raise ArithmeticError(
                "the empirical likelihood interval did not converge: the error of its "
                f"end may be {gap:.3g}. Use 'gamma' or 'betting'."
            )
        return max(value, 0.0)

    def _bracket(self, least, most):
        """Two log sizes between which the derivative changes its sign."""
        # Steps start where the maximum lies for many rounds: it grows like sqrt(n).
        ratio = self.excess / self.density
        mean = dot(self.terms.share, ratio)
        spread = dot(self.terms.share, ratio**2) - mean**2
        size = np.sqrt(max(spread, 0) / (2 * self.loss))
        size = np.clip(np.log(max(size, ratio.max() / len(ratio))), least, most)
        step = 0.5 if self.slope(size) > 0 else -0.5
        while True:
            new = np.clip(size + step, least, most)
            if new == size:  # it does not change: an end
                return size, size
            if (self.slope(new) > 0) != (step > 0):
                return min(size, new), max(size, new)
            size, step = new, 2 * step


# -- the Cressie-Read interval of a mean of weighted rewards, in closed form -----------


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

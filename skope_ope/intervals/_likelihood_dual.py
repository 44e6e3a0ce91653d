# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The likelihood of distributions whose weights average one, and its dual form."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import brentq

from skope_ope._dot import dot

FAILURE = 1e-6  # of the reward range: a bound of the duality gap that is too much
MAX_STEPS = 200
SAMPLE = 1000  # rounds that tell whether rounds repeat


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
        weight, product, count = _distinct(rounds.weight, rounds.weight * rounds.reward)
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


def _distinct(weight, product):
    """Distinct pairs and how often each occurs, where rounds repeat."""
    product = np.where(weight == 0, 0.0, product)  # no sign of zero
    pair = weight + 1j * product
    sample = pair[:: max(1, len(pair) // SAMPLE)]
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

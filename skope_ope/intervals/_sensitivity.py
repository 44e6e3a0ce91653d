# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""Bounds on a ratio of weighted rewards where something hidden moved the actions.

The probability with which a logged action was really taken, given all that its logger
knew, has odds within a factor :math:`\Gamma` of the odds of its propensity. The weight
of a round then lies in

.. math:: \pi_i \Big[1 + \Big(\frac1{p_i} - 1\Big) \Big/ \Gamma,\;
    1 + \Big(\frac1{p_i} - 1\Big) \Gamma\Big]
    = \big[\pi_i + d_i / \Gamma,\; \pi_i + d_i \Gamma\big], \qquad d_i = w_i - \pi_i.

The least of :math:`\sum w r / \sum w` gives the largest weights to all rewards below it
and the smallest to all above: a threshold.
"""

from __future__ import annotations

from bisect import bisect_left
from math import hypot, inf, sqrt
from numbers import Real

import numpy as np

from skope_ope._parallel import dot
from skope_ope._types import Array, ArrayLike
from skope_ope.logs._validation import as_numbers

LARGEST_GAMMA = 1e100  # odds ratio: its square is a number


def sensitivity_bounds(
    w: ArrayLike,
    r: ArrayLike,
    propensity: ArrayLike,
    gamma: float | ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
) -> tuple[Array, Array]:
    r"""Return the least and the greatest ratio of weighted rewards under confounding.

    They are the optima of :math:`\sum w r / \sum w` over all weights with
    :math:`w_i \in \pi_i [1 + (1/p_i - 1)/\Gamma,\; 1 + (1/p_i - 1) \Gamma]`, the
    normalised programme of [1]_. The sharp bounds of the model have one more constraint
    [2]_ and are narrower. One sort serves all :math:`\Gamma`: :math:`O(n \log n)`.

    Parameters
    ----------
    w, r : array-like of shape (n_rounds,)
        Importance weights, not negative, and rewards.
    propensity : array-like of shape (n_rounds,)
        Probabilities of the logged actions.
    gamma : float or array-like of shape (n_gammas,)
        Odds ratios, at least 1. 1 means no hidden confounding.
    sample_weight : array-like of shape (n_rounds,), default=None
        Weights of the rounds.

    Returns
    -------
    low, high : ndarray of shape (n_gammas,)

    References
    ----------
    .. [1] Zhao, Q., Small, D. S., & Bhattacharya, B. B. (2019). Sensitivity analysis
       for inverse probability weighting estimators via the percentile bootstrap.
       Journal of the Royal Statistical Society, Series B 81(4).
    .. [2] Dorn, J., & Guo, K. (2023). Sharp sensitivity analysis for inverse
       propensity weighting via quantile balancing. JASA 118(544).

    Examples
    --------
    >>> from skope_ope.intervals import sensitivity_bounds
    >>> low, high = sensitivity_bounds([2, 2, 4], [0, 1, 1], [0.5, 0.5, 0.25], [1, 2])
    >>> low.round(4).tolist(), high.round(4).tolist()
    ([0.75, 0.5714], [0.75, 0.8696])
    """
    return ConfoundedRatio(w, r, propensity, sample_weight).bounds(gamma)


def breakdown_gamma(
    w: ArrayLike,
    r: ArrayLike,
    propensity: ArrayLike,
    baseline: float,
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Return the least Gamma at which the bounds reach a baseline.

    The least ratio is at most b if some weights give :math:`\sum w (r - b) \le 0`. With
    the largest weights for rewards below b and the smallest above, that is

    .. math:: P + A / \Gamma - B \Gamma \le 0, \qquad P = \sum \pi (r - b),\;
        A = \sum d\, (r - b)^+,\; B = \sum d\, (r - b)^-,

    a quadratic equation in :math:`\Gamma`: see `sensitivity_bounds` for the weights.

    Parameters
    ----------
    w, r : array-like of shape (n_rounds,)
        Importance weights, not negative, and rewards.
    propensity : array-like of shape (n_rounds,)
        Probabilities of the logged actions.
    baseline : float
        The ratio to reach, from above or from below.
    sample_weight : array-like of shape (n_rounds,), default=None
        Weights of the rounds.

    Returns
    -------
    gamma : float
        1 if the ratio is the baseline; infinite if no Gamma reaches it.

    Examples
    --------
    >>> from skope_ope.intervals import breakdown_gamma
    >>> gamma = breakdown_gamma([2, 2, 4], [0, 1, 1], [0.5, 0.5, 0.25], 4 / 7)
    >>> round(gamma, 6)
    2.0
    """
    certain, unsure, r = _checked_rounds(w, r, propensity, sample_weight)
    if not isinstance(baseline, Real) or not np.isfinite(baseline):
        raise ValueError(f"baseline must be a finite number, got {baseline!r}.")
    change = r - baseline
    if dot(certain + unsure, change) < 0:  # it is reached from below
        change = -change
    P = dot(certain, change)
    A = dot(unsure, np.maximum(change, 0.0))
    B = dot(unsure, np.maximum(-change, 0.0))
    root = hypot(P, 2 * sqrt(A) * sqrt(B))
    if P > 0 and B > 0:
        gamma = (P + root) / (2 * B)
    elif root - P > 0:  # the same without a difference
        gamma = 2 * A / (root - P)
    else:
        gamma = inf if P > 0 or A > 0 else 1.0
    return max(gamma, 1.0)


def extreme_weights(w, r, propensity, gamma, bound, sign):
    """Return the weights with which the ratio is at a bound."""
    heavy = r >= bound if sign > 0 else r <= bound  # at the bound any weight does
    found = np.where(heavy, gamma - 1.0, 1.0 / gamma - 1.0)
    found *= w - w * propensity  # in place: new arrays would take most of the time
    found += w
    return found


def check_gamma(gamma):
    """Return odds ratios as an array, ndarray of shape (n_gammas,)."""
    given = [gamma] if isinstance(gamma, Real) else gamma
    found = as_numbers("gamma", given, first="position")
    if not len(found):
        raise ValueError("gamma is empty: give odds ratios of 1 or more, such as 2.")
    if (found < 1).any():
        raise ValueError(
            f"gamma must be at least 1, got {found[found < 1][0]:.6g}: it is by how "
            "much the odds of the logged actions may be wrong, and 1 is not at all."
        )
    if (found > LARGEST_GAMMA).any():
        raise ValueError(
            f"gamma must be at most {LARGEST_GAMMA:g}, got {found.max():.6g}: beyond, "
            "the bounds are the least and the greatest reward."
        )
    return found


def _checked_rounds(w, r, propensity, sample_weight):
    """Return what of the weights is certain, what is not, and the rewards."""
    given = {"w": w, "r": r, "propensity": propensity}
    w, r, p = (as_numbers(name, values) for name, values in given.items())
    omega = np.ones(len(w))
    if sample_weight is not None:
        omega = as_numbers("sample_weight", sample_weight)
    if not len(w) or not len(w) == len(r) == len(p) == len(omega):
        raise ValueError(
            "w, r, propensity and sample_weight need one entry per round and at least "
            f"one round, got {len(w)}, {len(r)}, {len(p)} and {len(omega)}."
        )
    for name, values in (("w", w), ("sample_weight", omega)):
        if (values < 0).any():
            row = int(np.argmax(values < 0))
            raise ValueError(
                f"{name} is {values[row]:.6g} in row {row}: it must be 0 or more."
            )
    if not ((p > 0) & (p <= 1)).all():
        row = int(np.argmin((p > 0) & (p <= 1)))
        raise ValueError(
            f"propensity is {p[row]:.6g} in row {row}: it must lie in (0, 1]."
        )
    used = w * omega > 0
    if not used.any():
        raise ValueError("all weights are 0: there is no ratio to bound.")
    w, p, omega = w[used], p[used], omega[used]
    return omega * w * p, omega * w * (1.0 - p), r[used]


class ConfoundedRatio:
    """A ratio of weighted rewards, ready for its bounds at any Gamma."""

    def __init__(self, w, r, propensity, sample_weight=None):
        certain, unsure, r = _checked_rounds(w, r, propensity, sample_weight)
        order = np.argsort(r)
        certain, unsure, r = (values[order] for values in (certain, unsure, r))
        self._least = _Least(certain, unsure, r)
        self._greatest = _Least(certain[::-1], unsure[::-1], -r[::-1])

    def bounds(self, gamma):
        """Return the least and the greatest ratio for every Gamma."""
        gamma = check_gamma(gamma).tolist()
        least, greatest = self._least, self._greatest
        return (
            np.array([least.at(g) for g in gamma]),
            -np.array([greatest.at(g) for g in gamma]),
        )


class _Least:
    """The least ratio, of rounds in the order of their rewards."""

    def __init__(self, certain, unsure, r):
        weight = certain + unsure
        # about the ratio itself no digits are lost, a constant reward stays what it is
        self.centre = min(max(dot(weight, r) / float(weight.sum()), r[0]), r[-1])
        self.lowest, self.change = r[0], r - self.centre
        self.base, self.base_sum = float(certain.sum()), dot(certain, self.change)
        # of the lowest rewards
        self.heavy = np.concatenate([[0.0], np.cumsum(unsure)])
        self.heavy_sum = np.concatenate([[0.0], np.cumsum(unsure * self.change)])

    def at(self, gamma):
        """Return the least ratio for a Gamma."""
        # One more heavy round moves the ratio towards its reward. So the ratio falls as
        # long as the next reward is below it, and from there on it rises.
        if not gamma > 1:
            return self.centre
        places = range(len(self.change))
        first = bisect_left(
            places, True, key=lambda k: self.change[k] >= self._ratio(k, gamma)
        )
        least = min(self._ratio(first, gamma), 0.0)
        return max(self.centre + least, self.lowest)

    def _ratio(self, k, gamma):
        """Return the ratio, less the centre, with k heavy rounds."""
        above = self._sum(self.heavy_sum, k, gamma) + self.base_sum
        return above / (self._sum(self.heavy, k, gamma) + self.base)

    def _sum(self, total, k, gamma):
        return float(total[k] * gamma + (total[-1] - total[k]) / gamma)

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""How far out rounds lie: extremes of weights, terms and model values, which merge.

Intervals ask how far the value of a round may lie from the estimate. The answer is
linear in the terms, so that it is found at an extreme one, and extremes of parts of a
log are those of the whole.
"""

from copy import copy
from math import inf

import numpy as np

from skope_ope._dot import dot
from skope_ope._pairs import WithPairs
from skope_ope.evaluators.core._weight_limits import WeightLimits
from skope_ope.evaluators.core._yes_no_sums import YesNoSums
from skope_ope.logs._labels import texts_of_labels

FACTORIAL = (1, 1, 2, 6, 24)
SIDES = (1.0, -1.0)  # the best reward seeks large v and small q, the worst the reverse


class RoundEnds(WithPairs):
    """Extremes of what the rounds of one policy bring to one evaluator."""

    def __init__(self):
        self.weights, self.yes_no = {}, YesNoSums()
        self.omega, self.propensity = (inf, -inf), inf
        self.terms, self.powers = None, None
        self.fronts = [np.zeros((0, 2))] * 2
        self.limits = None

    def add_weights(
        self,
        w,
        reward,
        omega=None,
        p=None,
        loggers=None,
        yes_no=None,
        rewarded=None,
        extremes=None,
    ):
        """Add the weights of some rounds."""
        extremes = _ends_of if extremes is None else extremes
        if loggers is None:
            self.weights[None] = max(self.weights.get(None, 0.0), extremes(w)[1])
        else:
            labels, codes = loggers
            largest = np.full(len(labels), -inf)
            np.maximum.at(largest, codes, w)
            for label, found in zip(labels, largest.tolist(), strict=True):
                if found > -inf:
                    self.weights[label] = max(self.weights.get(label, 0.0), found)
        low, high = 1.0, 1.0
        if omega is not None:
            low, high = extremes(omega)
        self.omega = min(self.omega[0], low), max(self.omega[1], high)
        if p is not None:
            self.propensity = min(self.propensity, extremes(p)[0])
        self.yes_no.add(w, reward, yes_no, rewarded, extremes)

    def add_terms(self, terms, powers=False, more=()):
        """Add the terms of some rounds, k arrays of shape (n,)."""
        # Their powers tell how far the tail of the round values may reach, where the
        # range of the rewards does not. Of `more` terms no more than the ends are kept,
        # behind those of the others.
        found = np.array([(term.min(), term.max()) for term in (*terms, *more)])
        self.terms = found if self.terms is None else _wider(self.terms, found)
        if powers:
            found = powers_of(terms)
            self.powers = found if self.powers is None else self.powers + found

    def add_model(self, v, q):
        """Add model values of policy and logged action, ndarray of shape (n,) each."""
        self.fronts = [
            _front(side, front, v, q)
            for side, front in zip(SIDES, self.fronts, strict=True)
        ]

    def __add__(self, other):
        """Return the extremes of both parts."""
        if not isinstance(other, RoundEnds):
            return NotImplemented
        out = copy(self)
        out.weights = dict(self.weights)
        for label, found in other.weights.items():
            out.weights[label] = max(out.weights.get(label, 0.0), found)
        out.yes_no = self.yes_no + other.yes_no
        out.omega = (
            min(self.omega[0], other.omega[0]),
            max(self.omega[1], other.omega[1]),
        )
        out.propensity = min(self.propensity, other.propensity)
        known = [one.terms for one in (self, other) if one.terms is not None]
        out.terms = _wider(*known) if len(known) == 2 else known[0] if known else None
        found = [one.powers for one in (self, other) if one.terms is not None]
        out.powers = None  # unless all whose terms were added have them
        if found and all(one is not None for one in found):
            out.powers = sum(found[1:], found[0])
        found = [one.limits for one in (self, other) if one.limits is not None]
        out.limits = found[0] + found[1] if len(found) == 2 else (found or [None])[0]
        out.fronts = [
            _front(side, one, *two.T)
            for side, one, two in zip(SIDES, self.fronts, other.fronts, strict=True)
        ]
        return out

    def beside(self, weights=None, model=None):
        """Return the same terms with weights and model values that others have seen."""
        out = copy(self)
        if weights is not None:
            out.weights, out.yes_no = weights.weights, weights.yes_no
            out.omega, out.propensity = weights.omega, weights.propensity
            out.limits = weights.limits
        if model is not None:
            out.fronts = model.fronts
        return out

    def moved(self, step, moves):
        """Return bounds of the terms where all rewards are larger."""
        out, terms = copy(self), self.terms.copy()
        for term, by in enumerate(moves):
            if by is not None:
                change = [step, step] if by < 0 else sorted(step * self.terms[by])
                terms[term] += change
        out.terms, out.powers = terms, None
        return out

    def largest_weights(self, strata):
        """Return the largest weight of every stratum, by the labels of the loggers."""
        whole = max(self.weights.values(), default=0.0)
        if None in self.weights or len(strata) == 1:
            return np.full(len(strata), whole)
        return np.array([self.weights.get(label, 0.0) for label in strata])

    def fourth_root(self, slopes):
        """Get a bound of the fourth root of the sum of c^4, inf where none is known."""
        # It is exact for one term, and for two.
        if self.powers is None:
            return inf
        if self.powers.ndim == 3:
            return _fourth_of_pair(self.powers[0], *slopes) ** 0.25
        used = np.flatnonzero(slopes)
        n, one, two, three, four = self.powers[used].T
        mean = one / n
        found = four - 4 * mean * three + 6 * mean**2 * two - 3 * n * mean**4
        # the norm of a sum is at most the sum of the norms
        return float(np.abs(slopes[used]) @ np.maximum(found, 0.0) ** 0.25)

    def to_table(self):
        """Return the extremes as a dict of arrays."""
        labels = texts_of_labels(self.weights)
        return {
            "ends_loggers": labels,
            "ends_weights": np.array(list(self.weights.values()), dtype=float),
            "ends_yes_no": self.yes_no.to_table(),
            "ends_numbers": np.array([*self.omega, self.propensity]),
            "ends_terms": np.zeros((0, 2)) if self.terms is None else self.terms,
            "ends_powers": np.zeros((0, 5)) if self.powers is None else self.powers,
            "ends_best": self.fronts[0],
            "ends_worst": self.fronts[1],
        } | ({} if self.limits is None else self.limits.to_table())

    @classmethod
    def from_table(cls, table, labels):
        """Return the extremes that `to_table` wrote."""
        out = cls()
        texts = table["ends_loggers"].tolist()
        largest = table["ends_weights"].tolist()
        out.weights = {labels(t): w for t, w in zip(texts, largest, strict=True)}
        out.yes_no = YesNoSums.from_table(table["ends_yes_no"])
        low, high, out.propensity = table["ends_numbers"].tolist()
        out.omega = low, high
        terms = table["ends_terms"]
        powers = table["ends_powers"]
        out.terms = terms if len(terms) else None
        out.powers = powers if len(powers) else None
        out.fronts = [table["ends_best"], table["ends_worst"]]
        if "limits_source" in table:
            out.limits = WeightLimits.from_table(table, labels)
        return out


def powers_of(terms):
    """Return the sums of powers of some terms, as `RoundEnds` keeps them."""
    if len(terms) == 2:
        return _powers_of_pair(*terms)[None]
    return np.array([_powers(term) for term in terms])


def _powers_of_pair(t, u):
    """Return the sums of t^i u^j for i + j <= 4, shape (5, 5)."""
    tt, tu, uu = t * t, t * u, u * u
    out = np.zeros((5, 5))
    out[0, 0], out[1, 0], out[0, 1] = len(t), np.add.reduce(t), np.add.reduce(u)
    out[2, 0], out[1, 1], out[0, 2] = (np.add.reduce(x) for x in (tt, tu, uu))
    out[3, 0], out[2, 1] = dot(tt, t), dot(tt, u)
    out[1, 2], out[0, 3] = dot(uu, t), dot(uu, u)
    out[4, 0], out[3, 1], out[2, 2] = dot(tt, tt), dot(tt, tu), dot(tt, uu)
    out[1, 3], out[0, 4] = dot(tu, uu), dot(uu, uu)
    return out


def _fourth_of_pair(sums, a, b):
    """Return the sum of (a t + b u - its mean)^4 from sums of t^i u^j."""
    c = -(a * sums[1, 0] + b * sums[0, 1]) / sums[0, 0]
    found = sum(
        FACTORIAL[4]
        / (FACTORIAL[i] * FACTORIAL[j] * FACTORIAL[4 - i - j])
        * a**i
        * b**j
        * c ** (4 - i - j)
        * sums[i, j]
        for i in range(5)
        for j in range(5 - i)
    )
    return max(float(found), 0.0)


def _powers(term):
    square = term * term
    return (
        len(term),
        np.add.reduce(term),
        np.add.reduce(square),
        dot(square, term),
        dot(square, square),
    )


def _ends_of(values):
    return float(values.min()), float(values.max())


def _wider(one, two):
    """Return the pairs (low, high) that hold both."""
    low, high = np.minimum(one[:, 0], two[:, 0]), np.maximum(one[:, 1], two[:, 1])
    return np.stack([low, high], axis=1)


def _front(side, known, v, q):
    """Return the points of the upper hull of (-side q, side v), with some more."""
    # Those are the points at which v - c q is largest for some c >= 0 (side 1), or
    # smallest (side -1).
    x, y = -side * q, side * v
    if len(known) and len(x):
        beyond = _beyond(-side * known[:, 1], side * known[:, 0], x, y)
        if not len(beyond):
            return known
        x, y = x[beyond], y[beyond]
    x = np.append(x, -side * known[:, 1])
    y = np.append(y, side * known[:, 0])
    hull = _upper_hull(x, y)
    return np.column_stack([side * y[hull], -side * x[hull]])


def _beyond(hull_x, hull_y, x, y):
    """Return which points may lie beyond the falling hull of others, by rising x."""
    if x.max() <= hull_x[-1] and y.max() <= hull_y[0] and len(hull_x) > 1:
        # most points lie below the line through the two ends of the hull
        ends = hull_x[[0, -1]], hull_y[[0, -1]]
        rows = np.flatnonzero(_above(*ends, x, y) > 0)
    else:
        rows = np.arange(len(x))
    heights = np.interp(x[rows], hull_x, hull_y, right=-inf)
    return rows[y[rows] > heights]


def _above(line_x, line_y, x, y):
    """Return a number that is larger the farther points lie above a falling line."""
    low, high = line_x, line_y
    return (x - low[0]) * (high[0] - high[1]) + (y - high[0]) * (low[1] - low[0])


def _upper_hull(x, y):
    """Return the numbers of the points on the falling part of their upper hull."""
    if not len(x):
        return []
    highest, farthest = np.flatnonzero(y == y.max()), np.flatnonzero(x == x.max())
    first = highest[np.argmax(x[highest])]
    last = farthest[np.argmax(y[farthest])]
    if first == last or x[first] >= x[last]:
        return [first]
    hull, open_parts = [first], [(first, last, np.arange(len(x)))]
    while open_parts:  # from left to right
        left, right, rows = open_parts.pop()
        ends = x[[left, right]], y[[left, right]]
        height = _above(*ends, x[rows], y[rows])
        best = int(np.argmax(height)) if len(rows) else -1
        if best < 0 or height[best] <= 0 or rows[best] in (left, right):
            hull.append(right)
            continue
        between, rows = rows[best], rows[height > 0]
        open_parts.append((between, right, rows[x[rows] > x[between]]))
        open_parts.append((left, between, rows[x[rows] < x[between]]))
    return hull

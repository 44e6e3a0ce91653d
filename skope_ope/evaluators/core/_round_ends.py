# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""How far out rounds lie: extremes of weights and terms, which merge.

Intervals ask how far the value of a round may lie from the estimate. The answer is
linear in the terms, so that it is found at an extreme one, and extremes of parts of a
log are those of the whole.
"""

from copy import copy
from math import inf

import numpy as np

from skope_ope._dot import dot
from skope_ope._pairs import WithPairs
from skope_ope.evaluators.core._yes_no_sums import YesNoSums
from skope_ope.logs._labels import texts_of_labels

FACTORIAL = (1, 1, 2, 6, 24)


class RoundEnds(WithPairs):
    """Extremes of what the rounds of one policy bring to one evaluator."""

    def __init__(self):
        self.weights, self.yes_no = {}, YesNoSums()
        self.omega, self.terms, self.powers = (inf, -inf), None, None

    def add_weights(self, w, reward, omega=None):
        """Add the weights of some rounds."""
        self.weights[None] = max(self.weights.get(None, 0.0), float(w.max()))
        low, high = (1.0, 1.0) if omega is None else (omega.min(), omega.max())
        self.omega = min(self.omega[0], float(low)), max(self.omega[1], float(high))
        self.yes_no.add(w, reward)

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

    def take(self, block, rounds, evaluator, design):
        """Add the terms of a block."""
        terms, enter = evaluator.terms(rounds), block.entering
        some = terms if enter is None else [term[enter] for term in terms]
        if len(some[0]):
            self.add_terms(some, powers=True)

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
        known = [one.terms for one in (self, other) if one.terms is not None]
        out.terms = _wider(*known) if len(known) == 2 else known[0] if known else None
        found = [one.powers for one in (self, other) if one.terms is not None]
        out.powers = None  # unless all whose terms were added have them
        if found and all(one is not None for one in found):
            out.powers = sum(found[1:], found[0])
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
            "ends_omega": np.array(self.omega),
            "ends_terms": np.zeros((0, 2)) if self.terms is None else self.terms,
            "ends_powers": np.zeros((0, 5)) if self.powers is None else self.powers,
        }

    @classmethod
    def from_table(cls, table, labels):
        """Return the extremes that `to_table` wrote."""
        out = cls()
        texts = table["ends_loggers"].tolist()
        largest = table["ends_weights"].tolist()
        out.weights = {labels(t): w for t, w in zip(texts, largest, strict=True)}
        out.yes_no = YesNoSums.from_table(table["ends_yes_no"])
        out.omega = tuple(table["ends_omega"].tolist())
        terms = table["ends_terms"]
        powers = table["ends_powers"]
        out.terms = terms if len(terms) else None
        out.powers = powers if len(powers) else None
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

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The largest weights and the extremes of model values of some rounds; they merge.

How far a round may lie from an estimate is found at their corners: see
`_largest_deviation`.
"""

from itertools import product
from math import inf, isfinite

import numpy as np

from skope_ope._pairs import WithPairs
from skope_ope.evaluators.core._proposal import weight_of
from skope_ope.evaluators.core._tally import both_ranges
from skope_ope.logs._labels import texts_of_labels

NONE = inf, -inf  # extremes of nothing


class Extremes(WithPairs):
    """Extremes of what the rounds of one policy bring to one evaluator.

    Attributes
    ----------
    weights : dict
        Largest importance weight by the label of the stratum; None: of all.
    q, v, gap : tuple (float, float)
        Smallest and largest model value of the logged actions, of the policy, and what
        the second is more than the first.
    propensity : float
        The smallest one.
    rounds : ndarray of shape (2, 2)
        Rounds of the lower and of the upper half, and those with a reward but zero.
    """

    def __init__(self, weights=None, q=NONE, v=NONE, gap=NONE, propensity=inf):
        self.weights = {} if weights is None else weights
        self.q, self.v, self.gap, self.propensity = q, v, gap, propensity
        self.rounds = np.zeros((2, 2))

    def take(self, block, rounds, evaluator, design):
        """Take what a block of rounds brings to an evaluator."""
        self.rounds = self.rounds + block.rounds_of_halves
        w = weight_of(evaluator)(rounds)
        if w is not None:
            by_stratum = w is rounds.w or evaluator.sampling.arms is not None
            self._take_weights(block, w, design if by_stratum else None)
        if rounds.v is not None:
            self._take_model(block, rounds)

    def _take_weights(self, block, w, design):
        if design is None or design.n_strata == 1:
            label = None if design is None else design.strata[0]
            self._raise_to(label, _extremes(block, w)[1])
        else:
            largest = block.of(design).largest(w)
            for label, found in zip(design.strata, largest, strict=True):
                self._raise_to(label, found)
        if block.p is not None:
            self.propensity = min(self.propensity, block.smallest_propensity)

    def _take_model(self, block, rounds):
        """Take what a model says, plain rewards."""
        offset = rounds.offset
        for name in ("q", "v"):
            low, high = _extremes(block, getattr(rounds, name))
            found = low + offset, high + offset
            setattr(self, name, both_ranges(getattr(self, name), found))
        self.gap = both_ranges(self.gap, _extremes(block, rounds.v - rounds.q))

    def model_corners(self):
        """Return pairs (q, v), one of which is the end of any linear function."""
        # Those of the hexagon that the extremes of q, v and v - q enclose.
        if not known(self.q):
            return [(0.0, 0.0)]
        pairs = list(product(self.gap, (0, 1)))
        at_q = [(self.q[k], _clipped(self.q[k] + gap, self.v)) for gap, k in pairs]
        at_v = [(_clipped(self.v[k] - gap, self.q), self.v[k]) for gap, k in pairs]
        return at_q + at_v

    def _raise_to(self, label, weight):
        if weight > -inf:
            self.weights[label] = max(self.weights.get(label, 0.0), weight)

    @property
    def rewarded_share(self):
        """Share of the rounds of either half whose reward is not zero; of none, one."""
        pairs = self.rounds.tolist()
        return [some / every if some else 1.0 for every, some in pairs]

    def largest_weights(self, strata):
        """Return the largest weight of every stratum, by their labels."""
        whole = max(self.weights.values(), default=0.0)
        if None in self.weights or len(strata) == 1:
            return np.full(len(strata), whole)
        return np.array([self.weights.get(label, 0.0) for label in strata])

    def __add__(self, other):
        """Return the extremes of both parts."""
        if not isinstance(other, Extremes):
            return NotImplemented
        out = Extremes(
            dict(self.weights),
            both_ranges(self.q, other.q),
            both_ranges(self.v, other.v),
            both_ranges(self.gap, other.gap),
            min(self.propensity, other.propensity),
        )
        for label, found in other.weights.items():
            out._raise_to(label, found)
        out.rounds = self.rounds + other.rounds
        return out

    def to_table(self):
        """Return the extremes as a dict of arrays."""
        return {
            "extremes_strata": texts_of_labels(self.weights),
            "extremes_rounds": self.rounds,
            "extremes_weights": np.array(list(self.weights.values()), dtype=float),
            "extremes_numbers": np.array(
                [*self.q, *self.v, *self.gap, self.propensity]
            ),
        }

    @classmethod
    def from_table(cls, table, labels):
        """Return the extremes that `to_table` wrote."""
        texts = table["extremes_strata"].tolist()
        pairs = zip(texts, table["extremes_weights"].tolist(), strict=True)
        *model, propensity = table["extremes_numbers"].tolist()
        weights = {labels(text): weight for text, weight in pairs}
        pairs = (tuple(model[k : k + 2]) for k in (0, 2, 4))
        out = cls(weights, *pairs, propensity)
        out.rounds = table["extremes_rounds"]
        return out


def _extremes(block, values):
    """Return the extremes of the rounds of a block that enter."""
    if block.entering is None:
        return block.extremes(values)
    some = values[block.entering]
    return float(some.min(initial=inf)), float(some.max(initial=-inf))


def _clipped(number, pair):
    return min(max(number, pair[0]), pair[1])


def known(pair):
    """Whether a pair of extremes is one of numbers that were seen."""
    return isfinite(pair[0]) and isfinite(pair[1])

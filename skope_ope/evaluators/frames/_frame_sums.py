# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Terms over the strata and the clusters of a lazy frame: what is asked, and sums."""

from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from skope_ope.evaluators.core._design import Frame
from skope_ope.evaluators.core._origins import straight, total
from skope_ope.evaluators.core._sums import REWARD, WEIGHT, JointSums
from skope_ope.logs._factorise import factorise

FAR = 0.999  # share of the squared mean in a mean square that costs three digits
EQUAL = 1 - 1e-9  # the same of terms that may all be equal


class FrameSums:
    """Terms over one design: what is asked of them, and their sums."""

    def __init__(self, role, whole):
        self.role, self.whole = role, whole
        self.places, self.moves, self._terms = {}, {}, []
        self.slants = {}
        self.put(REWARD, (whole.moved.gain,), WEIGHT)

    def put(self, owner, terms, moves=None, along=()):
        """Take the terms of an owner, see `JointSums`."""
        if owner in self.places:
            return
        begin = len(self._terms)
        self.places[owner] = tuple(range(begin, begin + len(terms)))
        self.moves[owner] = (moves, *[None] * (len(terms) - 1))
        self.slants |= {begin + top: (begin + end, 0.0) for top, end in along}
        self._terms += map(self.whole.query.define, terms)

    def ask(self, origin, slants, products, cells=None):
        """Ask for sums and products, and for sums by cluster."""
        query, omega = self.whole.query, self.whole.rounds.omega
        self.slants |= slants
        terms = straight(self._terms, self.slants)
        self.origin = list(origin or [0.0] * len(terms))
        if None in self.origin:
            pairs = zip(self.origin, query.first_row(self._terms), strict=True)
            self.origin = [first if near is None else near for near, first in pairs]
        pairs = zip(terms, self.origin, strict=True)
        x = [one - near if near else one for one, near in pairs]
        if omega is not None:
            x = [omega * one for one in x]
        x = [*map(query.define, x), omega]  # None: a weight of one
        together, last = self._together(), len(x) - 1
        pairs = [
            (i, j)
            for i in range(len(x))
            for j in range(i + 1)
            if i == last or together[i] & together[j]
        ]
        # in a half only the terms of one value are multiplied with each other
        value_of = self.places.values()
        alike = {(max(p), min(p)) for some in value_of for p in product(some, some)}
        alike |= {(last, j) for j in range(last + 1)}
        upper = self.whole.rounds.upper
        of_half = [query.define(upper * one) for one in x[:-1]]
        of_half.append(upper if omega is None else query.define(upper * omega))
        self._asked = [
            (
                [sum_of(products, one) for one in some],
                {(i, j): _product(products, some[i], x[j]) for i, j in wanted},
            )
            for some, wanted in ((x, pairs), (of_half, sorted(alike)))
        ]
        if cells is not None:
            self._by_cell = [sum_of(cells, one) for one in x]

    def _together(self):
        """Return for every term the evaluators of whose sums it is a part."""
        # Products of terms of two evaluators are part of none: with many of both they
        # would be most of the work.
        names = {_name_of(owner) for owner in self.places}
        out = []
        for owner, numbers in self.places.items():
            out += [names if owner == REWARD else {_name_of(owner)}] * len(numbers)
        return out

    def taken(self, strata, count, cells=None):
        """Return the `JointSums` from the answers."""
        heaviest = self.whole.heaviest(strata)
        frame, totals = strata.frame(count, heaviest), None
        if cells is not None:
            totals = np.stack([cells.answers.of(name) for name in self._by_cell])
            frame = cells.frame(strata, count, totals[-1], heaviest)
        about = self.whole.about.offset, self.places, self.moves
        halves = [_arrays(strata, *asked) for asked in self._asked]
        sums = (np.stack(both) for both in zip(*halves, strict=True))
        return JointSums.of_arrays(
            frame, *about, self.origin, self.slants, *sums, totals
        )


def _arrays(strata, first, second):
    """Return the answers about sums and products as arrays."""
    k = len(first)
    products = np.zeros((strata.n, k, k))
    for (i, j), name in second.items():
        products[:, i, j] = products[:, j, i] = strata.of(name)
    return np.stack([strata.of(name) for name in first], axis=-1), products


def best_origin(joint, offset):
    """Return what terms are best measured from, zeros where that serves, and slants."""
    # None stands for the value in the first row: in all rows it may be the same.
    sums = joint.whole
    mass, square = total(sums.mass), total(sums.square)
    first, moved = sums.plain(sums.offset), sums.plain(offset)
    origin = []
    for j in range(sums.n_terms):
        whole = first[j] * first[j] * square
        part = total(sums.product(j, j)) * mass * mass
        share = whole / part if part else 0.0
        near = None if share > EQUAL else moved[j] / mass
        origin.append(near if share > FAR else 0.0)
    slants = {}
    for top, (end, _) in sums.slants.items():
        pairs = (top, end), (top, top), (end, end)
        cross, one, other = (total(sums.product(*pair)) for pair in pairs)
        if cross * cross > FAR * one * other > 0:
            slants[top], origin[top] = (end, float(first[top] / first[end])), 0.0
    return origin, slants


def _name_of(owner):
    """Return an evaluator, or a kind of weighted rewards; for weights their owner."""
    is_of_weights = isinstance(owner[0], tuple) and owner[0][0] == "weights"
    return owner if is_of_weights else owner[0]


def sum_of(asking, one):
    """Ask for the sum of a column; None stands for a weight of one."""
    return "n" if one is None else asking.sum(one)


def _product(asking, one, other):
    if one is None or other is None:
        return sum_of(asking, other if one is None else one)
    return asking.sum(one * other)


class Strata:
    """Sums by stratum, from answers of which several belong to one."""

    def __init__(self, answers, key):
        self.answers, self.labels = answers, None
        self.code, self.n = np.zeros(len(answers), dtype=np.intp), 1
        if key is not None:
            labels, self.code = factorise(answers.keys[key])
            self.labels, self.n = labels.tolist(), len(labels)

    def of(self, name):
        """Return the answers of a name, summed over every stratum."""
        return np.bincount(self.code, self.answers.of(name), self.n)

    def largest(self, name):
        """Return the largest of the answers of a name in every stratum."""
        out = np.full(self.n, -np.inf)
        np.maximum.at(out, self.code, np.nan_to_num(self.answers.of(name), nan=-np.inf))
        return out

    def least(self, name):
        """Return the smallest of the answers of a name in every stratum."""
        out = np.full(self.n, np.inf)
        np.minimum.at(out, self.code, np.nan_to_num(self.answers.of(name), nan=np.inf))
        return out

    def frame(self, count, heaviest):
        """Return the `Frame` of the strata, of independent rounds."""
        return Frame(self.of(count), self.labels, heaviest=heaviest)


class Cells:
    """Sums over what a stratum and a cluster have in common."""

    def __init__(self, asked):
        self.answers = answers = asked.answers
        self.strata = Strata(answers, 0 if len(answers.keys) > 1 else None)
        self.clusters, self.cluster = factorise(answers.keys[-1])
        self.count, self.n_buckets = asked.count, asked.n_buckets

    def frame(self, whole, count, mass, heaviest):
        """Return the `Frame` of the cells, with the strata of the whole."""
        labels = self.strata.labels or [None]
        place = {label: i for i, label in enumerate(whole.labels or [None])}
        stratum = np.array([place[label] for label in labels], dtype=np.intp)
        return Frame(
            whole.of(count),
            whole.labels,
            self.clusters,
            stratum[self.strata.code],
            self.cluster,
            self.answers.of(self.count),
            self.n_buckets,
            mass,
            heaviest,
        )


@dataclass
class CellAnswers:
    """Answers by stratum and cluster."""

    answers: object = None  # the sums
    # Names of the number of rounds that weigh something, and of their weights
    count: str = "n"
    # Names of the number of rounds that weigh something, and of their weights
    mass: str = "n"
    # Number of hash buckets that stand for the clusters; `None`: they are groups
    n_buckets: int | None = None

    def of(self, label):
        """Return those of one label of the first key."""
        return replace(self, answers=self.answers.by_first_key()[label])

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""Sums of per-round terms over strata and clusters, which merge by addition.

With terms :math:`t_i \in R^k`, weights :math:`\omega_i` and any origin o, a round is

.. math:: x_i = (\omega_i (t_i - o),\; \omega_i) \in R^{k + 1}.

Kept are :math:`X_s = \sum x_i` and :math:`Q_s = \sum x_i x_i^T` of every stratum, and
:math:`X_{sg} = \sum x_i` of every cell of a stratum and a cluster. Another origin is a
linear map, :math:`x' = A x`, and so are rewards that all move by a constant:
:math:`X' = A X`, :math:`Q' = A Q A^T`. So sums of blocks, partitions and days add up,
whatever origins they were taken about. A numerator is measured from a multiple of its
divisor, its slant, where both rise together: that is a linear map, too.

The same sums of the rounds in the upper half, rewarded above the middle of the range of
the rewards, say how an estimate spreads upwards and downwards: see `_halves`.
"""

from copy import copy

import numpy as np

from skope_ope.evaluators.core._origins import (
    common_origin,
    middle_of,
    slant_of,
    straight,
    total,
)
from skope_ope.evaluators.core._products import MANY, products_of, products_of_rows
from skope_ope.evaluators.core._sum_tables import parts_of_table, table_of

FEW = 50  # strata whose rounds are taken one after the other


class Sums:
    """Sums of k terms over the strata and the clusters of a design."""

    # A number per stratum is a float where there is one stratum: most logs have one,
    # and for few numbers plain floats are faster than arrays.

    upper = None  # sums of the upper half, without its cells

    def __init__(
        self,
        design,
        offset=0.0,
        moves=None,
        summed=None,
        products=True,
        along=(),
        halves=True,
    ):
        self.frame, self.offset = design, offset
        self.moves = (moves,) if isinstance(moves, int) else moves
        if isinstance(moves, tuple) and not any(by is not None for by in moves):
            self.moves, self.offset = None, 0.0  # none of the terms was moved
        self.origin = self.first = self.second = self.totals = None
        self._single = design.n_strata == 1
        self._summed, self._products = summed, products
        self._halves = halves and products
        self._owned = ()
        self._buffer = None
        self.slants = {top: (end, 0.0) for top, end in along}
        if self._single and design.omega is None:
            self.mass = self.square = float(design.count[0])
        else:
            self.mass, self.square = (
                float(values[0]) if self._single else values
                for values in (design.mass, design.squared_mass)
            )

    def add(self, block, terms):
        """Add a block of rounds."""
        begins, first = self.first is None, None
        if begins:
            for top, (end, _) in self.slants.items():
                self.slants[top] = end, slant_of(terms[top], terms[end])
        terms = straight(terms, self.slants)
        if begins:
            self.origin, first = map(list, zip(*map(middle_of, terms), strict=True))
            if any(self.origin) or block.omega is not None:
                first = None  # they are about another origin, or weighted
        pairs = zip(terms, self.origin, strict=True)
        x = [block.entry(term, near) for term, near in pairs]
        if begins and block.upper is not None and self._halves:
            self.upper = self._empty()
        self._add_entries(block, x, terms, first)
        if self.upper is not None:
            self._add_upper(block.upper, x, terms)
        if self.frame.clustered:
            n = self._summed
            self._add_cells(block, terms[:n], x[:n], begins)

    def _add_entries(self, block, x, terms, first=None):
        """Add sums and products of x; `first`: sums that are known by now."""
        if self._single:
            first = first or [block.sum(column) for column in x]
            second = products_of(x, block) if self._products else []
        else:
            # two jobs with the same terms need one sum
            key = (self._products, *map(id, terms), *self.origin)
            if key not in block.of_terms:
                block.of_terms[key] = *self._added_by_stratum(x, block), terms
            first, second, _ = block.of_terms[key]
        if self.first is None:
            self.first, self.second = first, second
        else:
            self.first = _plus(self.first, first)
            self.second = [
                _plus(row, more) for row, more in zip(self.second, second, strict=True)
            ]

    def _empty(self):
        """Return sums about the same origin that have no rounds so far."""
        out = copy(self)
        out.first = out.second = out.totals = out._buffer = None
        nothing = 0.0 if self._single else np.zeros(self.frame.n_strata)
        out.mass = out.square = nothing
        return out

    def _add_upper(self, half, x, terms):
        upper = self.upper
        upper.mass = upper.mass + half.mass
        upper.square = upper.square + half.squared_mass
        upper._add_entries(half, [half.chosen(column) for column in x], terms)

    def _with_upper(self, out, change):
        """Return other sums, whose upper half is changed likewise."""
        out.upper = None if self.upper is None else change(self.upper)
        return out

    def copied(self):
        """Return sums that hold the same by now, and go on by themselves."""
        out = copy(self)
        out._buffer = None
        if self.totals is not None:
            out.totals = [sums.copy() for sums in self.totals]
            out._owned = set(range(self.n_terms))
        return self._with_upper(out, Sums.copied)

    def _added_by_stratum(self, x, block):
        total, columns = block.by_stratum, []
        if self._products:
            columns = x if block.omega is None else [*x, block.omega]
        if self._buffer is None or len(self._buffer) < len(x[0]):
            self._buffer = np.empty(len(x[0]))
        buffer = self._buffer[: len(x[0])]
        if len(columns) > MANY and self.frame.n_strata <= FEW:
            second = self._rows_by_stratum(columns, block, len(x))
        else:
            second = [
                [total(np.multiply(one, other, out=buffer)) for other in x[: i + 1]]
                for i, one in enumerate(columns)
            ]
        return [total(column) for column in x], second

    def _rows_by_stratum(self, columns, block, k):
        """Return products of many terms, stratum by stratum."""
        some = [
            products_of_rows([column[rows] for column in columns])
            if len(rows)
            else np.zeros((len(columns),) * 2)
            for rows in block.rows_of_strata
        ]
        found = np.stack(some, axis=-1)
        return [
            [found[i, j] for j in range(min(i + 1, k))] for i in range(len(columns))
        ]

    def _add_cells(self, block, terms, x, begins):
        """Sum over the cells; an array that two jobs bring is summed once for both."""
        if begins:
            self.totals, self._owned = [None] * self.n_terms, set()
            self.totals.append(self.frame.cell_mass)
        for j, (term, column) in enumerate(zip(terms, x, strict=True)):
            known = block.summed.get(id(term))
            if begins and known is not None:
                self.totals[j] = known[0]
            elif begins:
                self.totals[j] = np.zeros(len(self.frame.cell_count))
                self._owned.add(j)
            elif j not in self._owned and (
                known is None or known[0] is not self.totals[j]
            ):
                self._part(block, j)
            if j in self._owned:
                np.add.at(self.totals[j], block.cell, column)
                if known is None:  # the term stays alive: ids are its own
                    block.summed[id(term)] = self.totals[j], column, term

    def _part(self, block, j):
        """Take a copy of sums that two jobs had in common, and no longer have."""
        # Arrays that were one in the blocks so far are two in this one, as weights that
        # are only changed where they are large. What the other added here is not ours.
        shared, self.totals[j] = self.totals[j], self.totals[j].copy()
        for known, column, _ in block.summed.values():
            if known is shared:
                np.subtract.at(self.totals[j], block.cell, column)
        self._owned.add(j)

    @property
    def n_terms(self):
        """Number of terms."""
        return len(self.origin)

    def product(self, i, j):
        """Return sums of x_i x_j of every stratum; entry k of x is the weight."""
        if j > i:
            i, j = j, i
        if j == len(self.origin):
            return self.square
        if not self.second:
            raise ValueError("these sums were taken without products of their terms.")
        if i < len(self.second):
            return self.second[i][j]
        return self.first[j]  # all weights are one

    def about(self, origin, offset, slants=None):
        """Get first, second and totals as arrays, about another origin and offset."""
        first, second, totals = self._about(origin, offset, slants)
        return first, second, None if totals is None else np.stack(totals)

    def _about(self, origin, offset, slants=None):
        """Return the same, the totals as a list."""
        k = self.n_terms
        columns = range(k + 1)
        first = np.stack([np.atleast_1d(v) for v in (*self.first, self.mass)], axis=-1)
        second = np.stack(
            [
                np.stack([np.atleast_1d(self.product(i, j)) for j in columns])
                for i in columns
            ]
        ).transpose(2, 0, 1)
        moved = np.eye(k + 1)  # from x about the old origin to plain terms
        moved[:-1, -1] = self.origin
        if offset != self.offset:
            step = np.eye(k + 1)
            for term, by in self._follows:
                step[term, by] += self.offset - offset
            moved = step @ moved
        for top, (end, slant) in self.slants.items():
            _, new = (slants or {}).get(top, (end, 0.0))
            moved[top] += (slant - new) * moved[end]
        moved[:-1, -1] -= origin
        return first @ moved.T, moved @ second @ moved.T, self._moved_totals(moved)

    def _moved_totals(self, moved):
        """Return the rows of A X over the cells; most of A is zero."""
        if self.totals is None:
            return None
        out = []
        changes = moved - np.eye(len(moved))
        for found, row in zip(self.totals, changes, strict=True):
            for j in np.flatnonzero(row).tolist():
                found = found + row[j] * self.totals[j]
            out.append(found)
        return out

    def _plain(self, offset):
        """Return the sums of the terms over all strata, of rewards less an offset."""
        mass = total(self.mass)
        summed = [
            total(v) + near * mass
            for v, near in zip(self.first, self.origin, strict=True)
        ]
        for top, (end, slant) in self.slants.items():
            summed[top] += slant * summed[end]
        if offset != self.offset:
            entries = [*summed, mass]
            for term, by in self._follows:
                summed[term] += (self.offset - offset) * entries[by]
        return np.array(summed)

    @property
    def _follows(self):
        """Pairs of a term that follows the rewards and the entry by which it does."""
        if self.moves is None:
            raise ValueError(
                "sums of rewards less different constants cannot be added: their terms "
                "do not follow a shift of the rewards."
            )
        return [(term, by) for term, by in enumerate(self.moves) if by is not None]

    def some(self, terms):
        """Return the sums of some of the terms, a sequence of their numbers."""
        terms = list(terms)
        if any(t in terms and end not in terms for t, (end, _) in self.slants.items()):
            moved = self.about(self.origin, self.offset)  # the divisor is not wanted
            about = self.frame, self.offset, self.moves, self.origin
            out = Sums._of(*about, *moved).some(terms)
            return self._with_upper(out, lambda half: half.some(terms))
        entries = [*terms, self.n_terms]
        out = copy(self)
        out._buffer, out._owned = None, ()
        out.origin, out.first = (
            [values[i] for i in terms] for values in (self.origin, self.first)
        )
        out.second = [
            [self.product(i, j) for j in entries[: min(row + 1, len(terms))]]
            for row, i in enumerate(entries)
        ]
        if self.totals is not None:
            out.totals = [self.totals[i] for i in entries]
        moves = [*(self.moves or ()), *[None] * self.n_terms]
        follows = tuple(_place_of(moves[i], at, terms) for at, i in enumerate(terms))
        out.slants = {
            terms.index(top): (terms.index(end), slant)
            for top, (end, slant) in self.slants.items()
            if top in terms
        }
        out = self._with_upper(out, lambda half: half.some(terms))
        return out.moving(follows, self.offset)

    def moving(self, moves, offset):
        """Return the same sums of terms that follow the rewards, see `Sums`."""
        out = copy(self)
        out.moves = moves if any(by is not None for by in moves) else None
        out.offset = 0.0 if out.moves is None else offset
        return self._with_upper(out, lambda half: half.moving(moves, offset))

    def repeated(self, numbers, along=()):
        """Return sums of the same terms, some of them several times, to go on with."""
        out = Sums(self.frame)
        out.mass, out.square = self.mass, self.square
        for top, end in along:
            out.slants[top] = end, self.slants[numbers[top]][1]
        columns = range(len(numbers))
        out.origin = [self.origin[i] for i in numbers]
        out.first = [self.first[i] for i in numbers]
        out.second = [
            [self.product(numbers[i], numbers[j]) for j in range(i + 1)]
            for i in columns
        ]
        k = self.n_terms
        if len(self.second) > k:  # weights differ
            out.second.append([self.product(k, i) for i in numbers])
        if self.totals is not None:
            out.totals = [self.totals[i].copy() for i in numbers] + [self.totals[-1]]
            out._owned = set(columns)
        return self._with_upper(out, lambda half: half.repeated(numbers, along))

    def without_rows(self):
        """Return the sums over a frame that holds no rows, and no empty cells."""
        out = copy(self)
        out._buffer, out._owned = None, ()
        out.frame, cells = self.frame.filled()
        if self.totals is not None:
            out.totals = [values[cells] for values in self.totals]
        return self._with_upper(out, Sums.without_rows)

    def scaled(self, factor):
        """Return the sums of rounds that all weigh a factor more."""
        out, k, square = copy(self), self.n_terms, factor * factor
        out._buffer, out._owned, out.frame = None, (), self.frame.scaled(factor)
        out.first = [factor * values for values in self.first]
        out.second = [
            [square * self.product(i, j) for j in range(min(i + 1, k))]
            for i in range(k + 1)
        ]
        out.mass, out.square = factor * self.mass, square * self.square
        if self.totals is not None:
            out.totals = [factor * values for values in self.totals]
        return self._with_upper(out, lambda half: half.scaled(factor))

    def __getstate__(self):
        return {**self.__dict__, "_buffer": None}

    def __add__(self, other):
        """Return the sums of both; strata and clusters meet by their labels."""
        if not isinstance(other, Sums):
            return NotImplemented
        if self.n_terms != other.n_terms or self.moves != other.moves:
            raise ValueError(
                f"sums of {self.n_terms} and {other.n_terms} terms are of different "
                "evaluators and cannot be added."
            )
        if self.frame.clustered != other.frame.clustered:
            raise ValueError(
                "sums with groups and sums without cannot be added: give both logs "
                "their groups, or neither."
            )
        parts = _in_the_same_buckets(self, other)
        frame, places = parts[0].frame.merged(parts[1].frame)
        about = frame, places, self.moves, *common_origin(*parts)
        out, halves = _together(parts, *about), [part.upper for part in parts]
        if None not in halves:
            out.upper = _together(halves, *about)
        return out

    @classmethod
    def _of(cls, frame, offset, moves, origin, first, second, totals, slants=None):
        """Return sums from arrays, as `about` gives them."""
        out = cls.__new__(cls)
        out.frame, out.offset, out.moves = frame, offset, moves
        out.origin, out.slants = list(origin), dict(slants or {})
        single = out._single = frame.n_strata == 1

        def numbers(values):
            return float(values[0]) if single else values

        *out.first, out.mass = (numbers(column) for column in first.T)
        k = len(out.origin)
        out.second = [
            [numbers(second[:, i, j]) for j in range(min(i, k - 1) + 1)]
            for i in range(k + 1)
        ]
        out.square = numbers(second[:, -1, -1])
        out.totals = None if totals is None else list(totals)
        return out

    def __radd__(self, other):
        """Return self for the 0 that `sum` begins with."""
        return self if other == 0 else NotImplemented

    def bucketed(self, n_buckets=1000):
        """Return the sums with hash buckets in place of clusters."""
        # Clustered errors are right, for a bucket holds whole clusters, and the number
        # of cells no longer grows with the clusters.
        frame, where = self.frame.bucketed(n_buckets)
        out = copy(self)
        out._buffer, out._owned, out.frame = None, (), frame
        out.totals = list(np.zeros((self.n_terms + 1, len(frame.cell_count))))
        for sums, column in zip(out.totals, self.totals, strict=True):
            np.add.at(sums, where, column)
        if self.upper is not None:
            out.upper = copy(self.upper)
            out.upper.frame = frame
        return out

    def to_table(self):
        """Return the sums as a dict of arrays, for numpy's or pyarrow's files."""
        return table_of(self)

    @classmethod
    def from_table(cls, table):
        """Return the sums that `to_table` wrote."""
        whole, half = parts_of_table(table)
        out = cls._of(*whole)
        out.upper = None if half is None else cls._of(*half)
        return out


def _place_of(by, at, terms):
    """Return where among some terms the one is by which another, at a place, moves."""
    # It may stand there several times: the next one belongs to it.
    if by is None or by < 0:
        return by
    return terms.index(by, at) if by in terms[at:] else terms.index(by)


def _together(parts, frame, places, moves, origin, offset, slants):
    """Return the sums of parts, whose strata and cells have places in a frame."""
    k, totals = parts[0].n_terms, None
    first = np.zeros((frame.n_strata, k + 1))
    second = np.zeros((frame.n_strata, k + 1, k + 1))
    if parts[0].totals is not None:
        totals = [np.zeros(len(frame.cell_count)) for _ in range(k + 1)]
    for one, (strata, cells) in zip(parts, places, strict=True):
        moved = one._about(origin, offset, slants)
        first[strata] += moved[0]
        second[strata] += moved[1]
        for row, values in zip(totals or (), moved[2] or (), strict=True):
            row[cells] += values
    return Sums._of(frame, offset, moves, origin, first, second, totals, slants)


def _in_the_same_buckets(*parts):
    """Return sums whose clusters are all groups, or all the same hash buckets."""
    numbers = {part.frame.n_buckets for part in parts} - {None}
    if len(numbers) > 1:
        raise ValueError(
            f"sums by {min(numbers)} and by {max(numbers)} buckets of groups cannot be "
            "added: write all tables with the same n_buckets."
        )
    return [
        part.bucketed(*numbers) if numbers and part.frame.n_buckets is None else part
        for part in parts
    ]


def _plus(old, new):
    return [a + b for a, b in zip(old, new, strict=True)]

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""Sums of the terms of many jobs over strata and clusters, which merge by addition.

With the terms :math:`t_i \in R^k` of all jobs, weights :math:`\omega_i` and any origin
o, a round is

.. math:: x_i = (\omega_i (t_i - o),\; \omega_i) \in R^{k + 1}.

Kept are :math:`X_s = \sum x_i` and :math:`Q_s = \sum x_i x_i^T` of every stratum, and
:math:`X_{sg} = \sum x_i` of every cell of a stratum and a cluster. Another origin is a
linear map, :math:`x' = A x`, and so are rewards that all move by a constant:
:math:`X' = A X`, :math:`Q' = A Q A^T`. So sums of blocks, partitions and days add up,
whatever origins they were taken about. A numerator is measured from a multiple of its
divisor, its slant, where both rise together: that is a linear map, too.

Products of the terms of any two jobs are among them, so that the difference of two
values is as exact as if the rounds were there. The same sums of the rounds in the upper
half, rewarded above the middle of the range of the rewards, say how an estimate spreads
upwards and downwards: see `_halves`.
"""

import numpy as np

from skope_ope._pairs import WithPairs
from skope_ope.evaluators.core._design import Frame
from skope_ope.evaluators.core._products import (
    add_products,
    middle_of,
    slant_of,
    straight,
)
from skope_ope.logs._labels import (
    arrays_of_labels,
    labels_of_arrays,
    labels_of_texts,
    texts_of_labels,
)

# What has sums is (evaluator, policy, outcome): the outcome tells which reward enters,
# None the only one. In the place of an evaluator stand its weights, too.
REWARD = ("reward",), None, None  # the logged rewards
WEIGHT = -1  # a term moves with the rewards by the weight of its round
WHOLE, UPPER = 0, 1  # all rounds, and those of the upper half


def weights_of(kind, policy):
    """Return what the sums of the weights of a policy are found by."""
    return ("weights", kind), policy, None


def weighted_of(kind, policy, outcome=None):
    """Return what the sums of weighted rewards, and of the weights, are found by."""
    return ("weighted", kind), policy, outcome


def halves_of(job):
    """Return what the sums of a job in halves of its own are found by."""
    return ("halves", job[0]), *job[1:]


class JointSums(WithPairs):
    """Sums of the terms of jobs over the strata and the clusters of a design.

    Attributes
    ----------
    places : dict
        Numbers of the terms of every job. An array that is a term of several jobs has
        one number.
    moves : dict
        How the terms of every job move where all rewards rise by one: by another of
        its terms, by the weight of the round (`WEIGHT`), or not (None).
    origin : ndarray of shape (k,)
        What was subtracted from the terms.
    slants : dict
        {numerator: (divisor, slant)}, by their numbers.
    first : ndarray of shape (2, n_strata, k + 1)
        Sums of x, of all rounds and of the upper half.
    second : ndarray of shape (2, n_strata, k + 1, k + 1)
        Sums of products; of one entry, the squares of the weights, if there are none.
    totals : ndarray of shape (k + 1, n_cells) or None
        Sums of x over the cells.
    """

    def __init__(self, frame, offset=0.0, halves=True, products=True):
        self.frame, self.offset = frame, offset
        self.has_halves, self._has_products = halves, products
        self.places, self.moves, self.slants = {}, {}, {}
        self.origin = self.first = self.second = self.totals = None
        self._waiting, self._along, self._numbers = {}, {}, ()
        self._read = {}

    # -- blocks of rounds --------------------------------------------------------------
    def put(self, job, terms, moves=None, along=()):
        """Take the terms of a job in the block that is added next.

        Parameters
        ----------
        job : hashable
            Whose the terms are.
        terms : tuple of ndarray
            Of rewards and model values less `offset`, where they move with these.
        moves : int or None, default=None
            How the first of them moves with the rewards; the others do not.
        along : tuple of pairs, default=()
            Numerators and their divisors among the terms.
        """
        self._waiting[job] = terms
        if job not in self.moves:
            self.moves[job] = (moves, *[None] * (len(terms) - 1))
            self._along[job] = along

    def add_rounds(self, block):
        """Add a `Block` of rounds whose terms were put."""
        if self._waiting:
            self.add(block.of(self.frame))

    def add(self, block):
        """Add the block whose terms were put.

        Parameters
        ----------
        block : DesignBlock
            Weight, stratum, cluster and half of its rounds.
        """
        terms = [term for job in self.moves for term in self._waiting[job]]
        if self.origin is None:
            self._begin(block)
        elif any(
            term is not terms[self._heads[number]]
            for term, number in zip(terms, self._numbers, strict=True)
        ):
            self._tell_apart(terms)
        self._waiting, self._read = {}, {}
        x = self._entries([terms[i] for i in self._heads], block.omega)
        add_products(x, block, self.first[WHOLE], self.second[WHOLE])
        if self.has_halves:
            half = block.upper
            some = [row.take(half.places) for row in x]
            add_products(some, half, self.first[UPPER], self.second[UPPER])
        if self.totals is not None:
            for total, row in zip(self.totals, x, strict=False):
                np.add.at(total, block.cell, row)

    def _begin(self, block):
        """Give the terms numbers, and find from where each of them is measured."""
        self.has_halves = self.has_halves and block.upper is not None
        known, slants = {}, {}
        for job, terms in self._waiting.items():
            keys = list(map(id, terms))
            for top, end in self._along[job]:
                slant = slant_of(terms[top], terms[end])
                if slant:  # the numerator has a number of its own
                    keys[top] = key = id(terms[top]), id(terms[end])
                    slants[key] = id(terms[end]), slant
            for key in keys:
                if key not in known:
                    known[key] = len(known)
            self.places[job] = tuple([known[key] for key in keys])
        self.slants = {
            known[key]: (known[end], slant) for key, (end, slant) in slants.items()
        }
        self._number([number for some in self.places.values() for number in some])
        terms = [term for some in self._waiting.values() for term in some]
        distinct = straight([terms[i] for i in self._heads], self.slants)
        self.origin = np.array([middle_of(term) for term in distinct])
        self._make(len(distinct), len(distinct) if self._has_products else 0)

    def _make(self, k, n_products):
        n, cells = self.frame.n_strata, self.frame.cell_count
        self.first = np.zeros((2, n, k + 1))
        self.second = np.zeros((2, n, n_products + 1, n_products + 1))
        if self.frame.clustered:
            self.totals = np.zeros((k + 1, len(cells)))
            self.totals[-1] = self.frame.cell_mass

    def _number(self, numbers):
        """Keep the number of every term, and where each number comes first."""
        self._numbers, seen = numbers, dict.fromkeys(numbers)
        self._heads = [numbers.index(number) for number in seen]

    def _tell_apart(self, terms):
        """Sum arrays separately that were one in the blocks so far."""
        # as weights that are only changed where they are large
        new, pairs = [], {}
        for number, term in zip(self._numbers, map(id, terms), strict=True):
            new.append(pairs.setdefault((number, term), len(pairs)))
        self._repeat([number for number, _ in pairs], new)

    def _repeat(self, numbers, new):
        """Give the terms other numbers: some of those so far stand several times."""
        order, k = [*numbers, len(self.origin)], iter(new)
        self.origin = self.origin[numbers]
        self.first = self.first[:, :, order]
        self.second = self.second[:, :, order][:, :, :, order]
        if self.totals is not None:
            self.totals = self.totals[order]
        places, slants = {}, {}
        for job, mine in self.places.items():
            places[job] = own = tuple(next(k) for _ in mine)
            for top, number in zip(own, mine, strict=True):
                end, slant = self.slants.get(number, (None, 0.0))
                if end in mine:
                    slants[top] = own[mine.index(end)], slant
        self.places, self.slants = places, slants
        self._number([number for some in places.values() for number in some])
        self._read = {}

    def _entries(self, terms, omega):
        """Return x of the rounds of a block, an array for every number."""
        x = straight(terms, self.slants)
        pairs = zip(x, self.origin.tolist(), strict=True)
        x = [term - near if near else term for term, near in pairs]
        return x if omega is None else [omega * row for row in x]

    def finished(self):
        """Return the sums over a frame that holds no rows, and no empty cells."""
        frame, cells = self.frame.filled()
        totals = None if self.totals is None else self.totals[:, cells]
        return self._with(frame=frame, totals=totals)

    def _with(self, **changed):
        """Return the same with other attributes, and nothing read of them so far."""
        out = JointSums.__new__(JointSums)
        passing = {"_waiting": {}, "_read": {}}
        out.__dict__.update(self.__dict__ | passing | changed)
        return out

    @classmethod
    def of_arrays(cls, frame, offset, places, moves, origin, slants, *sums):
        """Return sums from arrays, as the attributes hold them."""
        out = cls(frame, offset)
        out.places, out.moves, out.slants = places, moves, slants
        out.origin = np.asarray(origin, dtype=float)
        out.first, out.second, out.totals = sums
        out._number([number for some in places.values() for number in some])
        return out

    # -- merged ------------------------------------------------------------------------
    def __add__(self, other):
        """Return the sums of both; strata and clusters meet by their labels."""
        if not isinstance(other, JointSums):
            return NotImplemented
        if self.moves != other.moves:
            raise ValueError(
                "sums of different evaluators, or of other terms, cannot be added."
            )
        if self.frame.clustered != other.frame.clustered:
            raise ValueError(
                "sums with groups and sums without cannot be added: give both logs "
                "their groups, or neither."
            )
        parts = _numbered_alike(*_in_the_same_buckets(self, other))
        one, two = parts
        frame, places = one.frame.merged(two.frame)
        offset = min(one.offset, two.offset, key=abs)
        origin, slants = _common_origin(parts, offset)
        out = JointSums.of_arrays(
            frame, offset, one.places, one.moves, origin, slants, None, None, None
        )
        out.has_halves = one.has_halves and two.has_halves
        out._make(len(origin), len(origin))
        if out.totals is not None:
            out.totals[-1] = 0.0
        for part, (strata, cells) in zip(parts, places, strict=True):
            change = part._change_to(origin, offset, slants)
            out.first[:, strata] += part.first @ change.T
            out.second[:, strata] += change @ part.second @ change.T
            if out.totals is not None:
                out.totals[:, cells] += change @ part.totals
        return out

    def __radd__(self, other):
        """Return self for the 0 that `sum` begins with."""
        return self if other == 0 else NotImplemented

    def _change_to(self, origin, offset, slants):
        """Return A, by which x follows from x about other origins."""
        follows = self._follows() if offset != self.offset else {}
        about = self.origin, self.offset, self.slants
        return _change(*about, follows, origin, offset, slants)

    def _follows(self):
        """Return by which entry of x each number moves with the rewards."""
        found = {}
        for job, mine in self.places.items():
            for number, by in zip(mine, self.moves[job], strict=True):
                if by is not None:
                    found[number] = WEIGHT if by == WEIGHT else mine[by]
        return found

    def only(self, jobs):
        """Return the sums of the terms of some jobs."""
        some = dict.fromkeys(n for job in jobs for n in self.places[job])
        place = {number: k for k, number in enumerate(some)}
        order = [*some, len(self.origin)]
        out = JointSums.of_arrays(
            self.frame,
            self.offset,
            {job: tuple(place[n] for n in self.places[job]) for job in jobs},
            {job: self.moves[job] for job in jobs},
            self.origin[list(some)],
            {
                place[top]: (place[end], slant)
                for top, (end, slant) in self.slants.items()
                if top in some
            },
            self.first[:, :, order],
            self.second[:, :, order][:, :, :, order],
            None if self.totals is None else self.totals[order],
        )
        out.has_halves = self.has_halves
        return out

    def bucketed(self, n_buckets):
        """Return the sums with hash buckets in place of clusters."""
        # Clustered errors are right, for a bucket holds whole clusters, and the number
        # of cells no longer grows with the clusters.
        frame, where = self.frame.bucketed(n_buckets)
        totals = np.zeros((len(self.totals), len(frame.cell_count)))
        for sums, column in zip(totals, self.totals, strict=True):
            np.add.at(sums, where, column)
        return self._with(frame=frame, totals=totals)

    def scaled(self, factor):
        """Return the sums of rounds that all weigh a factor more."""
        if factor == 1.0:
            return self
        return self._with(
            frame=self.frame.scaled(factor),
            first=factor * self.first,
            second=factor * factor * self.second,
            totals=None if self.totals is None else factor * self.totals,
        )

    # -- read --------------------------------------------------------------------------
    def of(self, job):
        """Return the `Sums` of the terms of a job."""
        mine, slants = self.places[job], {}
        for top, (end, slant) in self.slants.items():
            if top in mine:
                slants[mine.index(top)] = mine.index(end), slant
        return Sums(self, mine, self.moves[job], slants)

    @property
    def whole(self):
        """The `Sums` of all terms, by their numbers."""
        moves = [None] * len(self.origin)
        for number, by in self._follows().items():
            moves[number] = by
        return Sums(self, range(len(moves)), tuple(moves), self.slants)

    def numbers(self, half):
        """Return origin, first and second as lists: floats where strata are one."""
        # A number per stratum is a float where there is one stratum: most logs have
        # one, and for few numbers plain floats are faster than arrays.
        if half not in self._read:
            first, second = self.first[half], self.second[half]
            if self.frame.n_strata == 1:
                found = first[0].tolist(), second[0].tolist()
            else:
                rows = second.transpose(1, 2, 0)
                found = list(first.T.copy()), [list(row) for row in rows]
            self._read[half] = self.origin.tolist(), *found
        return self._read[half]

    def __getstate__(self):
        return super(JointSums, self._with()).__getstate__()

    def to_table(self):
        """Return the sums as a dict of arrays, for numpy's or pyarrow's files."""
        return table_of(self)

    @classmethod
    def from_table(cls, table, places, moves):
        """Return the sums that `to_table` wrote."""
        return joint_of_table(table, places, moves, cls)


class Sums:
    """The sums of some terms among those of all jobs, as an estimate reads them."""

    # `first`, `mass`, `square` and `product` are numbers of every stratum.

    def __init__(self, joint, numbers, moves, slants, half=WHOLE):
        self.joint, self.frame = joint, joint.frame
        self.order = *numbers, -1  # entries of x among those of all jobs
        self._numbers, self.slants, self._half = numbers, slants, half
        self.moves = None if set(moves) <= {None} else moves
        self.offset = 0.0 if self.moves is None else joint.offset
        origin, first, self._second = joint.numbers(half)
        self.origin = [origin[number] for number in numbers]
        self.first = [first[number] for number in numbers]
        self.mass, self.square = first[-1], self._second[-1][-1]

    @property
    def n_terms(self):
        """Number of terms."""
        return len(self.origin)

    @property
    def second(self):
        """Sums of x_i x_j of every stratum, by the numbers of entries in `order`."""
        if not self.joint._has_products:
            raise ValueError("these sums were taken without products of their terms.")
        return self._second

    def product(self, i, j):
        """Return sums of x_i x_j of every stratum; entry k of x is the weight."""
        return self.second[self.order[i]][self.order[j]]

    @property
    def totals(self):
        """Sums over the cells, a row for every term and one for the weight, or None."""
        totals = self.joint.totals
        return None if totals is None else [totals[j] for j in self.order]

    @property
    def upper(self):
        """The same of the upper half, or None."""
        if not self.joint.has_halves:
            return None
        about = self._numbers, self.moves or (None,), self.slants
        return Sums(self.joint, *about, half=UPPER)

    def some(self, terms):
        """Return the sums of some of the terms, a sequence of their numbers."""
        numbers = [self._numbers[term] for term in terms]
        return Sums(self.joint, numbers, [None] * len(numbers), {}, self._half)

    def about(self, origin, offset):
        """Get first and second as arrays, about another origin, offset, no slants."""
        order = list(self.order)
        first = self.joint.first[self._half][:, order]
        second = self.joint.second[self._half][:, order][:, :, order]
        follows = {k: by for k, by in enumerate(self.moves or ()) if by is not None}
        follows = follows if offset != self.offset else {}
        about = self.origin, self.offset, self.slants
        change = _change(*about, follows, origin, offset, {})
        return first @ change.T, change @ second @ change.T

    def plain(self, offset):
        """Return the sums of the terms over all strata, of rewards less an offset."""
        first, _ = self.about([0.0] * self.n_terms, offset)
        return first[:, :-1].sum(axis=0)

    def scaled(self, factor):
        """Return the sums of rounds that all weigh a factor more."""
        about = self._numbers, self.moves or (None,), self.slants, self._half
        return Sums(self.joint.scaled(factor), *about)


def sums_of_rounds(
    design, terms, offset=0.0, upper=None, moves=None, products=True, along=()
):
    """Return the sums of the terms of all rounds; `upper`: which are in that half."""
    rows = None if upper is None else np.flatnonzero(upper)
    joint = JointSums(design, offset, upper is not None, products)
    joint.put(None, tuple(terms), moves, along)
    joint.add(design.block(0, design.n_rounds, rows))
    return joint.of(None)


def _change(origin, offset, slants, follows, new_origin, new_offset, new_slants):
    """Return A with x' = A x: from x about one origin, offset and slants to others."""
    k = len(origin)
    out = np.eye(k + 1)  # to plain terms
    out[:-1, -1] = origin
    if follows:
        step = np.eye(k + 1)
        for term, by in follows.items():
            step[term, by] += offset - new_offset
        out = step @ out
    for top in {**slants, **new_slants}:
        end, old = slants.get(top) or (new_slants[top][0], 0.0)
        _, new = new_slants.get(top, (end, 0.0))
        out[top] += (old - new) * out[end]
    out[:-1, -1] -= new_origin
    return out


def _numbered_alike(one, two):
    """Return sums of the same jobs whose terms have the same numbers."""
    # Where offsets differ, terms that are one array but move differently part, too.
    move = one.offset != two.offset
    if one.places == two.places and not move:
        return one, two
    pairs, new = {}, []
    for job, mine in one.places.items():
        both = list(zip(mine, two.places[job], strict=True))
        for pair, by in zip(both, one.moves[job], strict=True):
            by = both[by] if move and by is not None and by != WEIGHT else by
            key = (*pair, by if move else None)
            new.append(pairs.setdefault(key, len(pairs)))
    out = []
    for part, which in ((one, 0), (two, 1)):
        part = part._with()
        if which:  # in the order of the other
            part.places = {job: part.places[job] for job in one.places}
        part._repeat([key[which] for key in pairs], new)
        out.append(part)
    return out


def _common_origin(parts, offset):
    """Return the mean of all terms as their origin, and slants."""
    # Sums about what lies near the terms lose no digits. Of rewards that are all far
    # from zero every part has an offset near them; others may be one round that is.
    mass = sum(float(part.first[WHOLE, :, -1].sum()) for part in parts)
    slants = {**parts[0].slants, **parts[1].slants}
    if not mass:
        return parts[0].origin, slants
    origin = sum(part.whole.plain(offset) for part in parts) / mass
    for top, (end, _) in slants.items():
        far = any(part.slants.get(top, (end, 0.0))[1] for part in parts)
        slant = float(origin[top] / origin[end]) if far and origin[end] else 0.0
        slants[top] = end, slant
        origin[top] -= slant * origin[end]
    return origin, slants


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


def table_of(sums):
    """Return `JointSums` as a dict of arrays."""
    frame = sums.frame
    table = {
        "origin": sums.origin,
        "offset": np.array(sums.offset),
        "first": sums.first,
        "second": sums.second,
        "halves": np.array(sums.has_halves),
        "count": frame.count,
        "heaviest": np.array(frame.heaviest),
        "slants": np.array([(top, *of) for top, of in sums.slants.items()]),
    }
    if frame.strata != [None]:
        table["strata"] = texts_of_labels(frame.strata)
    if sums.totals is not None:
        table |= arrays_of_labels("clusters", frame.clusters)
        table |= {
            "totals": sums.totals,
            "n_buckets": np.array(frame.n_buckets or 0),
            "cell_stratum": frame.cell_stratum,
            "cell_cluster": frame.cell_cluster,
            "cell_count": frame.cell_count,
        }
    return table


def joint_of_table(table, places, moves, make):
    """Return the `JointSums` that `table_of` wrote; `make` is their class."""
    cells = {}
    if "totals" in table:
        cells = {
            name: table[name] for name in ("cell_stratum", "cell_cluster", "cell_count")
        }
        cells["clusters"] = labels_of_arrays("clusters", table)
        cells["n_buckets"] = int(table["n_buckets"]) or None
        cells["cell_mass"] = table["totals"][-1]
        # none has a number without a label: counts by number would fill the memory
        np.empty(len(table["count"]))[cells["cell_stratum"]]
        np.empty(len(cells["clusters"]))[cells["cell_cluster"]]
    strata = None
    if "strata" in table:
        strata = labels_of_texts(table["strata"])
    heaviest = float(table["heaviest"])
    frame = Frame(table["count"], strata, **cells, heaviest=heaviest)
    slants = {
        int(top): (int(end), slant)
        for top, end, slant in np.asarray(table["slants"]).reshape(-1, 3).tolist()
    }
    about = float(table["offset"]), places, moves, table["origin"], slants
    sums = table["first"], table["second"], table.get("totals")
    out = make.of_arrays(frame, *about, *sums)
    out.has_halves = bool(table["halves"])
    return out

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What a round is to the statistic: its weight, its stratum and its cluster.

Strata are separate samples: loggers, arms, slots. Clusters are rounds that depend
on each other: the groups of the logs. A cell is what a stratum and a cluster share.
"""

from dataclasses import dataclass
from functools import cached_property
from math import inf
from operator import attrgetter

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from skope_ope._parallel import LONGEST_PRODUCT
from skope_ope.logs._labels import (
    count_codes,
    factorise,
    label_hash,
    rows_of_codes,
    sums_of_codes,
)

# What a round weighs: "logger" and "own_logger" against the probability of whoever
# acted, where all rounds are one sample and where each logger has a sample of its own;
# "mixture" against the probability under all loggers; None: against none.
PLAIN_WEIGHT = attrgetter("w")  # one object: evaluators share what it gives
PROPOSAL_WEIGHTS = {
    "logger": PLAIN_WEIGHT,
    "own_logger": PLAIN_WEIGHT,
    "mixture": attrgetter("b"),
    None: attrgetter("pi"),
}


@dataclass(frozen=True)
class Sampling:
    """What one sample is: the strata of an estimate.

    Parameters
    ----------
    by : {"rounds", "loggers", "arms"}, default="rounds"
        All rounds, or those of each logger, or of each arm.
    n_folds : int, default=None
        Folds into which the rounds of every logger are cut, each a stratum; None: they
        are not cut.
    arms : {"action", "logger"}, default=None
        What a policy chooses among, where samples are those of arms.
    """

    by: str = "rounds"
    n_folds: int | None = None
    arms: str | None = None

    @property
    def name(self) -> str:
        """What the sums are found by."""
        return self.by if self.n_folds is None else f"{self.by} in {self.n_folds} folds"


def tallied_as(evaluator):
    """Return what tells the weights of an evaluator, and what a policy wants, apart."""
    arms = evaluator.sampling.arms
    return evaluator.proposal if arms is None else f"wanted of {arms}s"


def weight_of(evaluator):
    """Return the function of some rounds that gives the importance weights."""
    return PROPOSAL_WEIGHTS[evaluator.proposal]


def kind_of_sums(evaluator):
    """Return what tells the sums of weighted rewards from those of other evaluators."""
    # Weights of one kind have the same sums, but for those of other strata.
    proposal, folds = evaluator.proposal, evaluator.sampling.n_folds
    return proposal if folds is None else f"{proposal}, {evaluator.sampling.name}"


SMALL_TABLE = 10_000_000  # entries of a table of flags


class Frame:
    """Strata, clusters and the numbers of their rounds; no rows."""

    # Rounds of sample weight zero do not count.

    def __init__(
        self,
        count,
        strata=None,
        clusters=None,
        cell_stratum=None,
        cell_cluster=None,
        cell_count=None,
        n_buckets=None,
        cell_mass=None,
        heaviest=1.0,
    ):
        self.count, self.heaviest = count, heaviest
        self.strata = [None] if strata is None else list(strata)
        self.clusters = clusters
        self.cell_stratum, self.cell_cluster = cell_stratum, cell_cluster
        self.cell_count, self.n_buckets = cell_count, n_buckets
        self.n_strata, self.clustered = len(self.strata), clusters is not None
        self.cell_mass = cell_mass
        if cell_mass is None and cell_count is not None:
            self.cell_mass = cell_count.astype(float)

    @cached_property
    def cluster_sizes(self):
        """Number of rounds of every cluster that has one."""
        sizes = np.bincount(self.cell_cluster, self.cell_count, len(self.clusters))
        return sizes[sizes > 0]

    @cached_property
    def effective_clusters(self):
        """(sum n_g)^2 / sum n_g^2: clusters of one size that are worth as much."""
        # Sizes are sums of weights: a group that has nearly all of it counts as one.
        sizes = np.bincount(self.cell_cluster, self.cell_mass, len(self.clusters))
        total = float(sizes.sum())
        return total * total / float(sizes @ sizes) if total else 0.0

    @cached_property
    def units(self):
        """Number of units, clusters or rounds, of every stratum."""
        if not self.clustered:
            return self.count
        return np.bincount(
            self.cell_stratum[self.cell_count > 0], minlength=self.n_strata
        )

    def samples(self, centre, used, clusters):
        """Count the units of the sample of every stratum, and degrees of freedom."""
        # Strata that share a centre, or a cluster, are one sample.
        if clusters and self.n_strata == 1:
            sample, units = centre, np.array([len(self.cluster_sizes)])
        elif clusters:
            cells = (self.cell_count > 0) & used[self.cell_stratum]
            stratum, cluster = self.cell_stratum[cells], self.cell_cluster[cells]
            sample = linked(centre, stratum, cluster, len(self.clusters))
            units = _distinct(sample[stratum], cluster, len(sample))
        else:
            sample = centre
            units = np.bincount(sample, used * self.count, len(sample))
        found = units[np.unique(sample[used & (self.count > 0)])]
        return units[sample], float(np.maximum(found - 1, 0).sum())

    def merged(self, other):
        """Return the frame of both, and where the parts of each are in it."""
        strata = sorted_labels(dict.fromkeys([*self.strata, *other.strata]))
        position = {label: place for place, label in enumerate(strata)}
        count, at = np.zeros(len(strata)), []
        for one in (self, other):
            at.append(np.array([position[label] for label in one.strata]))
            count[at[-1]] += one.count
        most = max(self.heaviest, other.heaviest)
        if not self.clustered:
            return Frame(count, strata, heaviest=most), [(place, None) for place in at]
        if self.clusters is other.clusters or (
            self.clusters.dtype == other.clusters.dtype != object
            and np.array_equal(self.clusters, other.clusters)
        ):
            clusters, code = self.clusters, np.tile(np.arange(len(self.clusters)), 2)
            if len(strata) == 1 and self._is_plain and other._is_plain:
                return self._beside(other, count, most), [(at[0], slice(None))] * 2
        else:
            clusters, code = factorise(np.concatenate([self.clusters, other.clusters]))
        codes = code[: len(self.clusters)], code[len(self.clusters) :]
        keys = [
            place[one.cell_stratum] * len(clusters) + which[one.cell_cluster]
            for one, place, which in zip((self, other), at, codes, strict=True)
        ]
        if len(strata) == 1 and self._is_plain and other._is_plain:
            cells, where = np.arange(len(clusters)), keys  # a cell for every cluster
        else:
            cells, where = np.unique(np.concatenate(keys), return_inverse=True)
            where = where[: len(keys[0])], where[len(keys[0]) :]
        cell_count, mass = np.zeros((2, len(cells)))
        for one, place in zip((self, other), where, strict=True):
            cell_count[place] += one.cell_count
            mass[place] += one.cell_mass
        cells = *np.divmod(cells, len(clusters)), cell_count
        frame = Frame(count, strata, clusters, *cells, self.n_buckets, mass, most)
        return frame, list(zip(at, where, strict=True))

    def _beside(self, other, count, heaviest):
        """Return the frame of both, where their cells are the same ones."""
        return Frame(
            count,
            self.strata,
            self.clusters,
            self.cell_stratum,
            self.cell_cluster,
            self.cell_count + other.cell_count,
            self.n_buckets,
            self.cell_mass + other.cell_mass,
            heaviest,
        )

    @property
    def _is_plain(self):
        """Whether every cluster has one cell, at its place."""
        return self.n_strata == 1 and len(self.cell_cluster) == len(self.clusters)

    def bucketed(self, n_buckets):
        """Get the frame whose clusters are hash buckets, and the cell of each cell."""
        # A bucket holds whole clusters, whatever part of a log they were met in.
        bucket = label_hash(self.clusters) % n_buckets
        clusters, code = np.unique(bucket, return_inverse=True)
        keys = self.cell_stratum * len(clusters) + code[self.cell_cluster]
        cells, where = np.unique(keys, return_inverse=True)
        sums = (self.cell_count, self.cell_mass)
        count, mass = (np.bincount(where, one, len(cells)) for one in sums)
        cells = *np.divmod(cells, len(clusters)), count
        frame = Frame(
            self.count, self.strata, clusters, *cells, n_buckets, mass, self.heaviest
        )
        return frame, where

    def scaled(self, factor):
        """Return the frame of rounds that all weigh a factor more."""
        mass = None if self.cell_mass is None else factor * self.cell_mass
        return self._with(mass, factor * self.heaviest)

    def filled(self):
        """Return the frame without rows and empty cells, and where the others were."""
        if self.n_strata == 1 or not self.clustered:
            return self._with(self.cell_mass, self.heaviest), slice(None)
        cells = np.flatnonzero(self.cell_count)
        frame = Frame(
            self.count,
            self.strata,
            self.clusters,
            self.cell_stratum[cells],
            self.cell_cluster[cells],
            self.cell_count[cells],
            self.n_buckets,
            self.cell_mass[cells],
            self.heaviest,
        )
        return frame, cells

    def _with(self, cell_mass, heaviest):
        return Frame(
            self.count,
            self.strata,
            self.clusters,
            self.cell_stratum,
            self.cell_cluster,
            self.cell_count,
            self.n_buckets,
            cell_mass,
            heaviest,
        )


class Design(Frame):
    """Weight, stratum and cluster of every round; made once and shared by all jobs."""

    def __init__(
        self,
        n_rounds,
        omega=None,
        stratum=None,
        strata=None,
        cluster=None,
        clusters=None,
        count=None,
        sizes=None,
    ):
        self.n_rounds, self.omega = n_rounds, omega
        self.stratum, self.cluster = stratum, cluster
        positive = None if omega is None or omega.all() else omega > 0
        n_strata = 1 if strata is None else len(strata)
        if count is None and stratum is None:
            count = n_rounds if positive is None else int(np.count_nonzero(positive))
            count = np.array([count])
        elif count is None:
            count = np.bincount(_of(stratum, positive), minlength=n_strata)
        cells, cell_mass = (None, None, None), None
        self.cell = None
        if cluster is not None:
            self.cell, *cells = _cells(stratum, cluster, n_strata, len(clusters))
            if sizes is None or stratum is not None or positive is not None:
                sizes = count_codes(_of(self.cell, positive), len(cells[0]))
            cells.append(sizes)
            if omega is not None:
                cell_mass = sums_of_codes(self.cell, omega, len(cells[0]))
        most = 1.0 if omega is None else float(omega.max(initial=0.0))
        super().__init__(
            count, strata, clusters, *cells, cell_mass=cell_mass, heaviest=most
        )

    @cached_property
    def mass(self):
        """Sum of the weights of every stratum."""
        if self.omega is None:
            return self.count.astype(float)
        if self.stratum is None:
            return np.array([self.omega.sum()])
        return np.bincount(self.stratum, self.omega, self.n_strata)

    @cached_property
    def squared_mass(self):
        """Sum of the squared weights of every stratum."""
        if self.omega is None:
            return self.count.astype(float)
        square = self.omega * self.omega
        if self.stratum is None:
            return np.array([square.sum()])
        return np.bincount(self.stratum, square, self.n_strata)

    def take(self, rows):
        """Return the design of some rounds (an array of ints), with the same strata."""
        omega, stratum, cluster = (
            None if codes is None else codes[rows]
            for codes in (self.omega, self.stratum, self.cluster)
        )
        strata = None if self.stratum is None else self.strata
        labels = self.clusters
        if cluster is not None and len(cluster) < len(labels):
            present, cluster = np.unique(cluster, return_inverse=True)
            labels = labels[present]
        return Design(len(rows), omega, stratum, strata, cluster, labels)

    def without(self, rows):
        """Return the design in which some rounds (a mask) weigh nothing."""
        # The others have mean weight one.
        omega = np.where(rows, 0.0, 1.0 if self.omega is None else self.omega)
        total = omega.sum()
        if total:
            omega *= np.count_nonzero(omega) / total
        return Design(
            self.n_rounds, omega, self.stratum, self.strata, self.cluster, self.clusters
        )

    def unweighted(self):
        """Return the design in which all rounds weigh the same."""
        if self.omega is None:
            return self
        return Design(
            self.n_rounds, None, self.stratum, self.strata, self.cluster, self.clusters
        )

    def with_strata(self, stratum, strata, count=None):
        """Return the design with other strata, and their numbers of rounds if known."""
        return Design(
            self.n_rounds,
            self.omega,
            stratum,
            strata,
            self.cluster,
            self.clusters,
            count,
        )

    def block(self, low, high, upper=None):
        """Return the design of the rounds low..high-1, for sums."""
        # `upper`: which of them are in the upper half, an array of int.
        out = DesignBlock(self, slice(low, high), high - low)
        if upper is not None:
            out.upper = DesignBlock(self, low + upper, len(upper), upper)
        return out


class DesignBlock:
    """The design of a block of rounds, shared by all that sum over it."""

    upper = None  # the design of those in the upper half

    def __init__(self, design, rows, n_rounds, places=None):
        self.n_rounds, self.places = n_rounds, places  # of a half: where in the block
        self.omega = None if design.omega is None else design.omega[rows]
        self.cell = None if design.cell is None else design.cell[rows]
        self._design, self._rows = design, rows
        self._largest = {}  # by ids; what they are of stays alive

    def largest(self, values):
        """Return the largest of every stratum, in the rounds that weigh something."""
        key = id(values)
        if key not in self._largest:
            some = values if self.omega is None else np.where(self.omega, values, -inf)
            parts = self.rows_of_strata
            found = [float(some[rows].max(initial=-inf)) for rows in parts]
            self._largest[key] = found, values
        return self._largest[key][0]

    @cached_property
    def rows_of_strata(self):
        """Rows of every stratum, a list of arrays."""
        design = self._design
        return rows_of_codes(design.stratum[self._rows], design.n_strata)

    @cached_property
    def by_stratum(self):
        """Function that sums an array over every stratum."""
        design = self._design
        return partial_sums(design.stratum[self._rows], design.n_strata)


def design_of(logs, omega=None):
    """Return the design of some logs: their sample weights and their groups."""
    if logs.group is None:
        return Design(len(logs), omega)
    groups = {"clusters": logs.groups, "sizes": logs._group_sizes}
    return Design(len(logs), omega, cluster=logs.group_index, **groups)


def sorted_labels(labels):
    """Return labels sorted, where they can be compared; else as they appear."""
    try:
        return sorted(labels)
    except TypeError:
        return list(labels)


def _of(codes, positive):
    return codes if positive is None else codes[positive]


def _cells(stratum, cluster, n_strata, n_clusters):
    """Return the cell of every round, and stratum and cluster of every cell."""
    if n_strata == 1:
        return cluster, np.zeros(n_clusters, dtype=np.intp), np.arange(n_clusters)
    cell = stratum * n_clusters + cluster
    if n_strata * n_clusters <= 4 * len(cell):
        numbers = np.arange(n_strata * n_clusters)
    else:
        numbers, cell = np.unique(cell, return_inverse=True)
    return cell, *np.divmod(numbers, n_clusters)


def _distinct(sample, cluster, n_samples):
    """Count the distinct clusters of every sample."""
    n_clusters = int(cluster.max(initial=-1)) + 1
    if (int(sample.max(initial=-1)) + 1) * n_clusters <= SMALL_TABLE:
        present = np.zeros((n_samples, n_clusters), dtype=bool)
        present[sample, cluster] = True
        return present.sum(axis=1)
    pairs = np.unique(sample * n_clusters + cluster)
    return np.bincount(pairs // n_clusters, minlength=n_samples)


def linked(centre, stratum, cluster, n_clusters):
    """Return the sample of every stratum: those linked by a centre or a cluster."""
    n = len(centre)
    if n == 1:
        return np.zeros(1, dtype=np.intp)
    nodes = 2 * n + n_clusters  # strata, centres, clusters
    ends = np.concatenate([np.arange(n), stratum])
    others = np.concatenate([n + centre, 2 * n + cluster])
    graph = coo_array((np.ones(len(ends)), (ends, others)), shape=(nodes, nodes))
    sample = connected_components(graph, directed=False)[1][:n]
    return np.unique(sample, return_inverse=True)[1].ravel()


# -- sums over strata -----------------------------------------------------------------
DOT_STRATA = 6  # strata for which a dot product each beats counting


def partial_sums(codes, n_codes):
    """Return a function that sums an array of shape (n,) over every code."""
    if n_codes == 1:
        return lambda values: values.sum(keepdims=True)
    if n_codes > DOT_STRATA:
        return lambda values: np.bincount(codes, values, n_codes)
    rows = indicators(codes, n_codes)
    starts = range(0, len(codes), LONGEST_PRODUCT)
    pieces = [slice(start, start + LONGEST_PRODUCT) for start in starts]
    pieces = [(piece, [row[piece] for row in rows]) for piece in pieces]

    def sums(values):
        total = np.zeros(n_codes)
        for piece, owns in pieces:
            part = values[piece]
            total += [part.dot(own) for own in owns]
        return total

    return sums


def indicators(codes, n_codes):
    """Return the indicators of the codes, shape (n_codes, n)."""
    out = np.empty((n_codes, len(codes)))
    labels = np.arange(n_codes)
    if n_codes < 256:  # compared faster
        codes, labels = codes.astype(np.uint8), labels.astype(np.uint8)
    out[:] = codes == labels[:, None]
    return out

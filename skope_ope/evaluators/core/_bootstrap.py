# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Values of resamples: many estimates from one product of counts and terms.

An estimate is a function of sums of terms, and its standard error one of sums of their
products. So a resample needs sums alone, numerators and denominators together, and all
estimates of a log see the same resamples. Where terms come from a pass over the rounds
they are resampled in that pass, and never stored. The jackknife leaves one group out
at a time.
"""

from dataclasses import dataclass, field
from functools import partial
from math import isnan, nan, sqrt

import numpy as np

from skope_ope._parallel import dot
from skope_ope.evaluators.core._blocks import blocks
from skope_ope.evaluators.core._design import linked
from skope_ope.evaluators.core._estimate import Estimate
from skope_ope.evaluators.core._rows import FormulaTerms, run_together
from skope_ope.intervals._bootstrap import (
    DrawnUnits,
    Resampled,
    Resampling,
    Statistic,
    number_of_resamples,
    resampled_sums,
    seed_of,
)

MOST_COLUMNS = 256  # of one product, those of terms and those of their products


@dataclass
class ResampledValue:
    """What resamples say of a value."""

    found: Resampled  # the value and its standard error, and those of the resamples
    # (sum c)^2 / sum c^2 of what the rounds, or groups, add to the value, for those
    # above or those below the mean: the smaller of both
    effective_events: float


def resampled_values(
    values,
    level,
    studentized=True,
    n_resamples=None,
    block_length=None,
    random_state=0,
    n_jobs=None,
):
    """Return the `ResampledValue` of every `PolicyValue`, of the same resamples."""
    n_resamples, seed = number_of_resamples(n_resamples, level), seed_of(random_state)
    places, buckets = {}, []
    for place, value in enumerate(values):
        plan = _Plan(value, studentized, block_length)
        bucket = next((one for one in buckets if one.takes(plan)), None)
        if bucket is None:
            bucket = _Bucket(plan.key)
            buckets.append(bucket)
        places[place] = bucket, len(bucket.plans)
        bucket.plans.append(plan)
    done = {id(one): one.resample(n_resamples, seed, n_jobs) for one in buckets}
    return [done[id(bucket)][number] for bucket, number in places.values()]


class _Plan:
    """The columns that a value needs."""

    def __init__(self, value, studentized, block_length):
        name = value.estimator
        self.parts = parts_of(value)
        self.clustered = self.parts[0].estimate.frame.clustered
        finest = max(self.parts, key=lambda part: part.estimate.frame.n_strata)
        sample = finest.sample()
        if block_length is not None and (self.clustered or sample is not None):
            what = "groups" if self.clustered else "separate samples, as of loggers"
            raise ValueError(
                f"block_length is for rounds in the order of time, and those of {name} "
                f"have {what}. Leave it out: these are resampled as they are."
            )
        self.units = DrawnUnits(
            finest.n_units,
            "groups" if self.clustered else "rounds",
            block_length,
            sample,
        )
        if isnan(value.standard_error):
            raise ValueError(
                f"this value of {name} has no standard error, and a bootstrap has none "
                "either: see its warnings. Use 'auto'."
            )
        self.pairs = self._pairs() if studentized else []
        self.n_columns = sum(part.statistic.n_columns for part in self.parts)
        n_sums = self.n_columns + len(self.pairs)
        if n_sums > MOST_COLUMNS:
            instead = "'percentile' or 'auto'" if studentized else "'auto'"
            raise ValueError(
                f"a bootstrap of {name} needs {n_sums} sums a resample, and at most "
                f"{MOST_COLUMNS} are kept. Use {instead}."
            )
        self.key = self._key(sample)

    def _pairs(self):
        """Columns of which products are needed: those that a unit may have both of."""
        owner = [
            (number, stratum)
            for number, part in enumerate(self.parts)
            for stratum in range(part.statistic.n_strata)
            for _ in range(part.n_terms + 1)
        ]
        return [
            (i, j)
            for i, one in enumerate(owner)
            for j, other in enumerate(owner[: i + 1])
            if self.clustered or one == other or one[0] != other[0]
        ]

    def _key(self, sample):
        first = self.parts[0]
        if self.clustered:
            same = first.estimate.frame.clusters
            if all(part.estimate.frame.clusters is same for part in self.parts):
                alike = sample is None or id(self)
                return "groups", id(same), self.units.n, alike
        elif sample is None and all(part.streams for part in self.parts):
            same, *others = {id(part.terms.source.positive) for part in self.parts}
            moving = {part.moving_offset for part in self.parts} - {None}
            offset, *more = moving or {0.0}
            if not others and not more:
                return "rounds", same, offset
        return "alone", id(self)

    @property
    def streams(self):
        """Whether the terms come from a pass over the rounds."""
        return self.key[0] == "rounds"

    def columns_of_groups(self):
        """Return the columns of all groups."""
        return [column for part in self.parts for column in part.columns_of_groups()]

    def columns(self, low, high, terms):
        """Return the columns of the rounds low..high-1."""
        return [
            column
            for part, some in zip(self.parts, terms, strict=True)
            for column in part.columns(low, high, some)
        ]


def parts_of(value):
    """Return the estimates whose signed sum is a value, each with its columns."""
    return [_Part(sign, one, value.estimator) for sign, one in _signed(value)]


class _Part:
    """An estimate, with a sign, and where its terms come from."""

    def __init__(self, sign, value, name):
        self.sign, self.estimate, self.rows = sign, value._estimate, value._rows
        drawn = value._independent_rounds and value._resamples
        if not (isinstance(self.estimate, Estimate) and drawn):
            raise ValueError(
                "a bootstrap is for functions of means over independent rounds or "
                f"groups. {name} is none: it is one walk through the log, a mean of "
                "parts, or depends on earlier rounds or on fits that every resample "
                "would have to repeat. Use 'auto'."
            )
        estimate, self.design = self.estimate, self.rows.design
        if self.rows.dropped and not estimate.frame.clustered:
            raise ValueError(
                f"{name} was made from merged sums, which hold no rounds to draw from. "
                "Give the logs their group=... and groups are drawn, or use 'auto'."
            )
        self.terms = self.rows._terms
        self.streams = isinstance(self.terms, FormulaTerms)
        # others serve warnings alone
        n_terms = len(estimate.origin)
        self.n_terms = getattr(estimate.combine, "n_means", n_terms)
        kappa, _, _ = estimate._small_sample(clusters=estimate.frame.clustered)
        n, shares = estimate.frame.n_strata, estimate.shares
        self.statistic = Statistic(
            estimate.combine,
            estimate.origin[: self.n_terms],
            np.broadcast_to(shares.weight, n),
            np.broadcast_to(estimate.sums.mass, n),
            shares.centre,
            np.broadcast_to(kappa, n),
            estimate.level,
        )
        slopes = [*estimate.slopes[: self.n_terms], estimate.slopes[-1]]
        self.slopes = sign * np.stack([np.broadcast_to(b, n) for b in slopes], axis=1)
        omega = None if estimate.frame.clustered else self.design.omega
        self.kept = None if omega is None or omega.all() else omega > 0

    @property
    def moving_offset(self):
        """What its terms were formed with, or None where it does not matter."""
        return self.estimate.offset if self.terms.shifts else None

    @property
    def n_units(self):
        """Number of groups, or of rounds that count."""
        frame = self.estimate.frame
        return len(frame.cluster_sizes) if frame.clustered else int(frame.count.sum())

    def sample(self):
        """Return the sample of every unit, or None where there is one."""
        frame, centre = self.estimate.frame, self.estimate.shares.centre
        if frame.n_strata == 1:
            return None
        if not frame.clustered:
            codes = centre[self.design.stratum]
            codes = codes if self.kept is None else codes[self.kept]
        else:
            cells = (frame.cell_count > 0) & self.estimate.shares.used[
                frame.cell_stratum
            ]
            stratum, cluster = frame.cell_stratum[cells], frame.cell_cluster[cells]
            sample = linked(centre, stratum, cluster, len(frame.clusters))
            codes = np.zeros(len(frame.clusters), dtype=np.intp)
            codes[cluster] = sample[stratum]
            codes = codes[self.groups]
        _, codes = np.unique(codes, return_inverse=True)
        return codes if codes.any() else None

    @property
    def groups(self):
        """Whether a cluster has a round, ndarray of bool of shape (n_clusters,)."""
        frame = self.estimate.frame
        return (
            np.bincount(frame.cell_cluster, frame.cell_count, len(frame.clusters)) > 0
        )

    def columns(self, low, high, terms):
        """Return the columns of the rounds low..high-1, from their terms."""
        design, rows = self.design, slice(low, high)
        origin, terms = self.estimate.origin, self.estimate.straight(terms)
        x = [
            term - near if near else term
            for term, near in zip(terms[: self.n_terms], origin, strict=False)
        ]
        if design.omega is None:
            x.append(np.ones(high - low))
        else:
            omega = design.omega[rows]
            x = [*(omega * column for column in x), omega]
        if self.kept is not None:
            x = [column[self.kept[rows]] for column in x]
        n = self.estimate.frame.n_strata
        if n == 1:
            return x
        stratum = design.stratum[rows]
        stratum = stratum if self.kept is None else stratum[self.kept[rows]]
        return [column * (stratum == s) for s in range(n) for column in x]

    def columns_of_groups(self):
        """Return the columns of the groups: the sums of their rounds."""
        frame = self.estimate.frame
        totals = self.estimate.sums.totals
        totals = [*totals[: self.n_terms], totals[-1]]
        kept, found = self.groups, []
        for stratum in range(frame.n_strata):
            cells = frame.cell_stratum == stratum
            cluster = frame.cell_cluster[cells]
            for total in totals:
                column = np.zeros(len(frame.clusters))
                column[cluster] = total[cells]
                found.append(column[kept])
        return found


def _signed(value, sign=1):
    """Return the values that add up to a value, with their signs."""
    if value._pair is None:
        return [(sign, value)]
    if not isinstance(value._pair, tuple):
        raise ValueError(
            "a bootstrap of a difference needs its two values, and differences do "
            "not keep them when they are pickled or sent from another process. Ask "
            "for it before, or use 'auto'."
        )
    first, second = value._pair
    return _signed(first, sign) + _signed(second, -sign)


@dataclass
class _Bucket:
    """Values whose sums come from the same pass."""

    key: tuple
    plans: list = field(default_factory=list)

    def takes(self, plan):
        """Whether there is room for one more."""
        if plan.key != self.key or plan.units.length != self.plans[0].units.length:
            return False
        return (
            sum(one.n_columns + len(one.pairs) for one in [*self.plans, plan])
            <= MOST_COLUMNS
        )

    def resample(self, n_resamples, seed, n_jobs=None):
        """Return the `ResampledValue` of every plan."""
        pairs, starts, start = [], [], 0
        for plan in self.plans:
            starts.append(start)
            pairs += [(start + i, start + j) for i, j in plan.pairs]
            start += plan.n_columns
        units = self.plans[0].units
        draws = units.draws(n_resamples, seed)
        sums = Resampling(start, pairs, draws, units.length, n_jobs)
        events = [_Events(plan) for plan in self.plans]
        self._feed(partial(_add, sums, events))
        found, place = sums.finish(), start
        out = []
        for plan, first, seen in zip(self.plans, starts, events, strict=True):
            stop = place + len(plan.pairs)
            own = [*range(first, first + plan.n_columns), *range(place, stop)]
            parts = [(part.sign, part.statistic) for part in plan.parts]
            one = resampled_sums(found[:, own], parts, plan.pairs, plan.units)
            out.append(ResampledValue(one, seen.effective))
            place = stop
        return out

    def _feed(self, take):
        """Give the columns of all units, block by block, a list for every plan."""
        first = self.plans[0]
        if first.clustered:
            take([plan.columns_of_groups() for plan in self.plans])
        elif first.streams:
            sources = [part.terms for plan in self.plans for part in plan.parts]
            run_together(sources, partial(self._take_block, take), self.key[2])
        else:
            for block in blocks(first.parts[0].rows.n_rounds):
                terms = [part.rows.terms[:, block.rows] for part in first.parts]
                self._take_block(take, block.low, block.high, terms)

    def _take_block(self, take, low, high, terms):
        """Give the columns of the rounds low..high-1, from the terms of all parts."""
        terms = iter(terms)
        take(
            [
                plan.columns(low, high, [next(terms) for _ in plan.parts])
                for plan in self.plans
            ]
        )


def _add(sums, events, columns):
    """Add the columns of a block of units, a list for every plan."""
    for seen, some in zip(events, columns, strict=True):
        seen.add(some)
    sums.add([column for some in columns for column in some])


class _Events:
    """Sums of what units add to a value, for those above and those below the mean."""

    def __init__(self, plan):
        self.slopes = np.concatenate([part.slopes.ravel() for part in plan.parts])
        self.sums = np.zeros((2, 2))

    def add(self, columns):
        """Add units by their columns."""
        change = np.zeros(len(columns[0]))
        for slope, column in zip(self.slopes, columns, strict=True):
            change += slope * column
        for side, sign in enumerate((1, -1)):
            size = np.maximum(sign * change, 0.0)
            self.sums[side] += size.sum(), dot(size, size)

    @property
    def effective(self):
        """The smaller of the effective numbers."""
        return min(
            total * total / square if square else 0.0 for total, square in self.sums
        )


# -- leaving out one group each -------------------------------------------------------
def jackknife_error(value):
    r"""Return the standard error of a value by leaving out one group at a time."""
    # .. math:: SE^2 = \frac{G - 1}{G} \sum_g (\hat V_{-g} - \bar V)^2,
    #
    # with the estimate :math:`\hat V_{-g}` from all groups (or hash buckets of groups)
    # but one, and their mean.
    if not value._estimate.frame.clustered:
        raise ValueError(
            "method='jackknife' leaves out one group at a time, and these rounds have "
            "none. Give the logs their group=..., or use 'student': for independent "
            "rounds it is the same in all but name."
        )
    if isnan(value.value) or isnan(value.standard_error):
        return nan
    without = [_without_each(part) for part in parts_of(value)]
    if len({len(one) for one in without}) > 1:
        raise ValueError(
            "method='jackknife' of a difference needs two values of the same groups."
        )
    without = sum(without)
    n = len(without)
    change = without - without.mean()
    return sqrt((n - 1) / n * float(change @ change))


def _without_each(part):
    """Return the estimates without one group each, ndarray of shape (n_groups,)."""
    columns = np.stack(part.columns_of_groups(), axis=1)
    values, _ = part.statistic.of(columns.sum(axis=0) - columns)
    return part.sign * values

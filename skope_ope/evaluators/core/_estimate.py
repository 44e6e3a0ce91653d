# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""The one statistic: a smooth function of sums, and how sure it is.

With :math:`\lambda_s` what a round of stratum s counts (see `_functions`),

.. math:: \hat V = f(m), \qquad m = \sum_s \lambda_s \sum_{i \in s} \omega_i t_i,

and the slopes :math:`b_s = \kappa_s \lambda_s\, (\nabla f,\, -\nabla f^T c_s)`, with
:math:`c_s` the mean of the terms from which stratum s is measured, everything else is
linear in the :math:`x_i` of `_sums`:

.. math:: \psi_i = b_s^T x_i, \qquad SE^2 = \sum_i \psi_i^2 = \sum_s b_s^T Q_s\, b_s
    \quad\text{or}\quad SE^2 = \sum_g \Big(\sum_{i \in g} \psi_i\Big)^2
    = \sum_g \Big(\sum_s b_s^T X_{sg}\Big)^2

for independent rounds, or for clusters g of rounds that depend on each other. With G
units (rounds or clusters) in the sample, :math:`\kappa^2 = G / (G - 1)`, and its
degrees of freedom are G - 1. The round values :math:`z_i = \hat V + \sqrt{n (n - 1)}\,
\psi_i` average to the estimate, and

.. math:: SE^2 = \frac{1}{n (n - 1)} \sum_g \Big(\sum_{i \in g} (z_i - \hat V)\Big)^2,

for differences of two estimates from the same rounds, too.
"""

from copy import copy
from math import isfinite, nan, sqrt

import numpy as np

from skope_ope._parallel import dot
from skope_ope.evaluators.core._blocks import blocks
from skope_ope.evaluators.core._functions import mean, pooled
from skope_ope.evaluators.core._products import quadratic, straight, total
from skope_ope.evaluators.core._sums import sums_of_rounds
from skope_ope.logs._labels import factorise

MANY_TERMS = 8  # products of more take longer than the influences of the rounds
EPSILON = 1e-30  # square of the rounding of a difference of two floats
ROUNDING_OF_VARIANCE = 1e-13  # of its terms: a smaller one is lost in their rounding
FEW_CLUSTERS = 40  # effective ones; with fewer, their number gives the freedom
# Effective rounds (or clusters) in the sum that a ratio is divided by. With fewer, one
# has all of it but a hundredth, and its own deviation from the ratio is none.
NEARLY_ONE = 1.02


class _Certain:
    """What estimates of both kinds can do."""

    @property
    def design_effect(self):
        """Variance of the estimate over that of independent rounds."""
        if not self.independent_error > 0:
            return nan
        return (self.standard_error / self.independent_error) ** 2

    def with_error(self, error):
        """Return the same estimate with another standard error."""
        out = copy(self)
        out.standard_error = error
        return out

    def without_error(self):
        """Return the same estimate without a standard error."""
        return self.with_error(nan)

    def with_freedom(self, degrees_of_freedom):
        """Return the same estimate with at most some degrees of freedom."""
        out = copy(self)
        out.degrees_of_freedom = min(self.degrees_of_freedom, degrees_of_freedom)
        return out

    def without_value(self):
        """Return an estimate that cannot be formed, of the same rounds."""
        out = self.without_error()
        out.value = nan
        return out


class Estimate(_Certain):
    """The value of a function of sums, its standard error and what linearises it."""

    needs_terms = True  # for round values

    def __init__(self, sums, combine, pooling=pooled, rounds=None):
        self.sums, self.combine, self.pooling = sums, combine, pooling
        self.frame, self.origin, self.offset = sums.frame, sums.origin, sums.offset
        self.shares = shares = pooling(sums.mass, self.frame.units)
        weight = shares.weight
        level = total(weight * sums.mass)
        columns = [weight * column for column in sums.first]
        if self.frame.n_strata > 1:  # of one they are numbers
            columns = list(map(total, columns))
        pairs = zip(columns, self.origin, strict=True)
        self.means = [column + near * level for column, near in pairs]
        try:
            value, gradient = combine(self.means)
        except ZeroDivisionError:
            value, gradient = nan, (nan,) * len(self.means)
        self.level = self.offset + sum([slant for _, slant in sums.slants.values()])
        self.value = float(value) + self.level
        pairs = zip(gradient, sums.first, strict=True)
        line = sum([g * column for g, column in pairs if g])
        centre = self._centred(weight * line, weight * sums.mass)
        plain = [weight * g for g in gradient] + [-weight * centre]
        kappa, freedom, formed = self._small_sample(clusters=False)
        self.slopes = [kappa * b for b in plain]
        self._gradient = gradient
        if rounds is None:
            variance, noise = quadratic(self.slopes, sums)
            alike = 0 < self._rounded() >= variance
            drowned = isfinite(noise) and not variance > ROUNDING_OF_VARIANCE * noise
            self.lost = noise > 0 and drowned and not alike
        else:  # the rounding is one of the influences, not of their squares
            influence, noise = self._influence(*rounds)
            variance = dot(influence, influence)
            alike = False
            self.lost = noise > 0 and not variance > (ROUNDING_OF_VARIANCE * noise) ** 2
        if (alike or self.lost) and isfinite(variance):
            variance = 0.0
        error = sqrt(variance) if formed else nan
        self.independent_error = error
        if self.frame.clustered:
            kappa, freedom, formed = self._small_sample(clusters=True)
            self.slopes = [kappa * b for b in plain]
            sums_of = self.cluster_sums
            none = alike or self.lost
            error = sqrt(dot(sums_of, sums_of)) if formed and not none else 0.0
            error = error if formed else nan
            effective = self.frame.effective_clusters
            if effective < FEW_CLUSTERS:
                freedom = min(freedom, effective)
        self._count = kappa * weight  # of a round, in the influences
        self.rests_on_one = isfinite(error) and self._rests_on_one(rounds)
        known = isfinite(self.value) and not self.rests_on_one
        self.standard_error = error if known else nan
        self.degrees_of_freedom = freedom

    def _rounded(self):
        """Return the variance that the rounding of numerators makes."""
        if not self.sums.slants:
            return 0.0
        return EPSILON * sum(
            total((self.slopes[top] * slant) ** 2 * self.sums.product(end, end))
            for top, (end, slant) in self.sums.slants.items()
        )

    def _rests_on_one(self, rounds):
        """Whether one unit has all but a hundredth of what the ratio is divided by."""
        divisor = getattr(self.combine, "divisor", None)
        if divisor is None:
            return False
        sums, weight, near = self.sums, self.shares.weight, self.origin[divisor]
        if self.frame.clustered:
            cells = sums.totals[divisor] + near * sums.totals[-1]
            if self.frame.n_strata > 1:
                cells = weight[self.frame.cell_stratum] * cells
            parts = np.bincount(self.frame.cell_cluster, cells)
        elif rounds is not None:
            terms, design = rounds
            parts = self._of_rounds(weight, design.stratum) * terms[divisor]
            parts = parts if design.omega is None else design.omega * parts
        else:
            cross = sums.product(sums.n_terms, divisor % sums.n_terms)
            square = sums.product(*[divisor % sums.n_terms] * 2)
            square = square + 2 * near * cross + near * near * sums.square
            square = total(weight * weight * square)
            return self.means[divisor] * self.means[divisor] < NEARLY_ONE * square
        return parts.sum() ** 2 < NEARLY_ONE * dot(parts, parts)

    def _centred(self, above, below):
        """Return the mean of the strata that share a centre, for each of them."""
        if self.frame.n_strata == 1:
            return above / below if below else 0.0
        codes, n = self.shares.centre, self.frame.n_strata
        above, below = (np.bincount(codes, v, n)[codes] for v in (above, below))
        return np.divide(above, below, out=np.zeros(n), where=below != 0)

    def _small_sample(self, clusters):
        """Return kappa, the degrees of freedom, and whether there is a spread."""
        frame = self.frame
        if frame.n_strata == 1 and not clusters:
            units = int(frame.count[0])
            return sqrt(units / (units - 1)) if units > 1 else 1.0, units - 1, units > 1
        used = self.shares.used
        units, freedom = frame.samples(self.shares.centre, used, clusters)
        kappa = np.sqrt(
            np.divide(units, units - 1, out=np.ones(len(units)), where=units > 1)
        )
        formed = bool((units[used & self.shares.needed] > 1).all())
        formed = formed and not self.shares.alone
        if self.shares.inflation is not None:
            kappa = kappa * np.sqrt(self.shares.inflation)
        return float(kappa[0]) if frame.n_strata == 1 else kappa, freedom, formed

    @property
    def cluster_sums(self):
        """What every cluster adds to the estimate: the sum of its influences."""
        frame, totals = self.frame, self.sums.totals
        codes = frame.cell_stratum
        influence = np.zeros(len(codes))
        for b, column in zip(self.slopes, totals, strict=True):
            influence += (b if frame.n_strata == 1 else b[codes]) * column
        return np.bincount(frame.cell_cluster, influence, len(frame.clusters))

    def round_values(self, terms, design, rows=None):
        """Return z_i, ndarray of shape (n_rounds,)."""
        n = design.n_rounds
        influence, _ = self._influence(terms, design, rows)
        return self.value + sqrt(n * max(n - 1, 1)) * influence

    def _influence(self, terms, design, rows=None):
        """Return psi of every round, and the size of what cancels in it."""
        influence, size = 0.0, 0.0
        stratum, omega = (
            codes if codes is None or rows is None else codes[rows]
            for codes in (design.stratum, design.omega)
        )
        slopes = [self._of_rounds(b, stratum) for b in self.slopes]
        terms = self.straight(terms)
        for b, term, near in zip(slopes, terms, self.origin, strict=False):
            part = b * (term - near)
            size += sqrt(dot(part, part))
            influence = part + influence
        influence += slopes[-1]
        if omega is not None:
            influence *= omega
            size *= float(omega.max(initial=0))
        return influence, size

    def slopes_of(self, terms):
        """Return the slopes of some terms alone, about the means of these."""
        weight, sums, zero = self.shares.weight, self.sums, 0.0 * self._count
        line = sum(self._gradient[j] * sums.first[j] for j in terms)
        centre = self._centred(weight * line, weight * sums.mass)
        slopes = [b if j in terms else zero for j, b in enumerate(self.slopes[:-1])]
        return [*slopes, -self._count * centre]

    @property
    def plain_slopes(self):
        """The slopes of the terms less their origins, whatever their slants."""
        slopes = list(self.slopes)
        for top, (end, slant) in self.sums.slants.items():
            change = slant * slopes[top]
            slopes[end] = slopes[end] - change
            slopes[-1] = slopes[-1] - change * self.origin[end]
        return slopes

    def straight(self, terms):
        """Return terms as `slopes` take them, less the slants of the sums."""
        return straight(terms, self.sums.slants)

    def _of_rounds(self, slope, stratum):
        return slope if self.frame.n_strata == 1 else slope[stratum]


def estimate_of_rounds(
    design, terms, combine, pooling=pooled, offset=0.0, upper=None, moves=None
):
    """Return the estimate from the terms of all rounds at once."""
    # Where there are many terms, few of their products would be needed: the error is
    # the spread of the influences.
    many = len(terms) > MANY_TERMS
    upper = None if many else upper  # halves need products, too
    sums = sums_of_rounds(design, terms, offset, upper, moves, not many)
    return Estimate(sums, combine, pooling, (terms, design) if many else None)


class GivenEstimate(_Certain):
    """A value that is not a function of sums, such as that of a simulated history."""

    needs_terms = rests_on_one = lost = False
    sums = None  # it is not a function of any
    offset = level = 0.0
    pooling = staticmethod(pooled)

    def __init__(
        self,
        value,
        standard_error,
        degrees_of_freedom,
        round_values,
        frame,
        independent_error=nan,
        combine=mean,
    ):
        self.value, self.standard_error = value, standard_error
        self.degrees_of_freedom, self.frame = degrees_of_freedom, frame
        self.independent_error, self.combine = independent_error, combine
        self._round_values = round_values

    def round_values(self, terms, design, rows=None):
        """Return the given round values."""
        found = self.all_round_values()
        return found if rows is None else found[rows]

    def all_round_values(self):
        """Return the given round values, formed where a function was given."""
        found = self._round_values
        return found() if callable(found) else found

    def with_round_values(self, find):
        """Return the same estimate with a function that gives round values."""
        out = copy(self)
        out._round_values = find
        return out

    def __getstate__(self):
        # a function holds the rounds, which stay behind: call it now
        return {**self.__dict__, "_round_values": self.all_round_values()}

    def __copy__(self):
        out = self.__class__.__new__(self.__class__)
        out.__dict__.update(self.__dict__)
        return out


def difference(a, b):
    r"""Return the estimate of a difference of two estimates, without their rounds."""
    # .. math:: SE^2 = \sum_g (u_g - v_g)^2
    #
    # with what every cluster (a group or a hash bucket) adds to the one and the other.
    if not (a.frame.clustered and b.frame.clustered):
        raise ValueError(
            "a difference without the rounds needs sums by groups, and these are not. "
            "Give the logs their group=..., a number of every round will do; or "
            "subtract results, evaluate(a) - evaluate(b)."
        )
    n = len(a.frame.clusters)
    labels, code = factorise(np.concatenate([a.frame.clusters, b.frame.clusters]))
    if a.frame.n_buckets != b.frame.n_buckets or not n == len(labels) == len(code) - n:
        raise ValueError(
            "the two estimates are of different groups: "
            f"{' and '.join(_clusters_text(one.frame) for one in (a, b))}. Sum both "
            "over the same rounds, and write both with the same n_buckets."
        )
    masses = [
        np.bincount(one[frame.cell_cluster], frame.cell_mass, n)
        for one, frame in ((code[:n], a.frame), (code[n:], b.frame))
    ]
    mine, others = (mass / max(mass.sum(), 1e-300) for mass in masses)
    if not np.allclose(mine, others, rtol=1e-9, atol=0):
        raise ValueError(
            "the two estimates are about different rounds: each leaves out rounds in "
            "which the logger never shows what the policy shows. Sums do not record "
            "which rounds. Subtract results, evaluate(a) - evaluate(b)."
        )
    change = np.zeros(n)
    change[code[:n]] += a.cluster_sums
    change[code[n:]] -= b.cluster_sums
    error = sqrt(dot(change, change))
    if not (isfinite(a.standard_error) and isfinite(b.standard_error)):
        error = nan
    freedom = min(a.degrees_of_freedom, b.degrees_of_freedom)
    return GivenEstimate(a.value - b.value, error, freedom, None, a.frame)


def _clusters_text(frame):
    buckets = frame.n_buckets
    kind = "groups" if buckets is None else f"of {buckets} hash buckets"
    return f"{len(frame.clusters)} {kind}"


def spread_estimate(
    value, round_values, design, degrees_of_freedom=None, scaled=False, **given
):
    r"""Return the estimate whose error is the spread of its round values."""
    # As everywhere, :math:`SE^2 = \kappa^2 \sum_g (\sum_{i \in g} (z_i - V) / n)^2`
    # with :math:`\kappa^2 = G / (G - 1)` for G units, clusters or rounds that count.
    n, units = len(round_values), units_of(design)
    error = independent = error_of(round_values, value)
    if not scaled and 1 < units < n:
        change = round_values - value
        change *= sqrt(units / (units - 1) * (n - 1) / n)
        round_values = value + change
    if design.clustered or not scaled:
        error = error_of(round_values, value, design.cluster)
    error = error if units > 1 else nan
    freedom = freedom_of_difference(design)
    if degrees_of_freedom is not None:
        freedom = min(freedom, degrees_of_freedom)
    return GivenEstimate(
        value, error, freedom, round_values, design, independent, **given
    )


def units_of(frame):
    """Return the number of independent units: rounds, or clusters."""
    return len(frame.cluster_sizes) if frame.clustered else int(frame.count.sum())


def freedom_of_difference(frame):
    """Return the degrees of freedom that the units of one sample allow."""
    freedom = units_of(frame) - 1
    if frame.clustered and frame.effective_clusters < FEW_CLUSTERS:
        freedom = min(freedom, frame.effective_clusters)
    return freedom


def error_of(round_values, value, cluster=None):
    """Return the standard error of a mean, from its round values."""
    n = len(round_values)
    if n < 2:
        return nan
    if cluster is None:  # block by block: an array of all would come from memory
        changes = (round_values[block.rows] - value for block in blocks(n))
    else:
        changes = [np.bincount(cluster, round_values - value)]
    square = sum(dot(change, change) for change in changes)
    return float(np.sqrt(square / n / (n - 1)))

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""How well the rounds of a log cover a policy: sums of its importance weights.

They are taken against the propensities of one logger, of each of several, or of
their mixture.
"""

from functools import cached_property
from math import copysign, inf, isnan, log, nan, sqrt
from types import SimpleNamespace

import numpy as np

from skope_ope.evaluators.core._blocks import Observer
from skope_ope.evaluators.core._estimate import Estimate
from skope_ope.evaluators.core._functions import mean, pooled, stratified
from skope_ope.evaluators.core._mean_weight import (
    UNSEEN,
    bounded,
    evidence_above,
    evidence_below,
    squares_about,
)
from skope_ope.evaluators.core._products import total
from skope_ope.evaluators.core._sums import JointSums
from skope_ope.logs.checks._evidence import EVIDENT
from skope_ope.logs.sums._log_sums import places_in


def sums_of_weights(sums):
    """Return sum w and sum w^2 of every stratum, from sums of the term w."""
    return sums.first[0] + sums.origin[0] * sums.mass, squares_about(sums, 0.0)


UNKNOWN_SUMS = SimpleNamespace(first=None)  # sums of weights that are not known
ROUNDING_OF_SCALE = 1e-12  # of the mean sample weight
SAME_WEIGHTS = 1e-12  # of the squared mean weight: single precision varies no more


class Overlap:
    """Sums of the importance weights of one policy, and its unsupported mass."""

    # What is read is computed once: all blocks have been added by then.

    factor = 1.0

    missing_by_logger = None  # {label: mass}, where it counts logger by logger
    lacking = "the logger never took"  # what is said of the actions that are missing
    pooling = staticmethod(pooled)  # what strata count in the mean weight

    def __init__(self, design, n):
        self.n, self.joint = n, JointSums(design, halves=False)
        self.max_w = self.min_w = self.missing = 0.0

    def add(self, block, w, missing=0.0, extremes=None):
        """Add the weights of the rounds of a block of the design."""
        low, plain = extremes or (float(w.min()), float(w.max()))
        largest, self.min_w = plain, min(self.min_w, low)
        if block.omega is not None:
            largest = float((block.omega * w).max())
        self.joint.put("w", (w, bounded(w, self.n, plain)))
        self.joint.add(block)
        self.max_w = max(self.max_w, largest)
        self.missing += missing

    @cached_property
    def both(self):
        """Sums of the weights and of the bounded ones; None: they are not known."""
        return self.joint.of("w") if self.joint.places else None

    @cached_property
    def sums(self):
        """Sums of the weights."""
        return UNKNOWN_SUMS if self.both is None else self.both.some([0])

    @cached_property
    def bounded(self):
        """Sums of the weights, those above the root of n cut."""
        return UNKNOWN_SUMS if self.both is None else self.both.some([1])

    @classmethod
    def of_sums(cls, summary):
        """Return the overlap from a `Summary` of all parts of a log."""
        # Sample weights of parts are as they are, and have mean one in the whole.
        out, tally = cls.__new__(cls), summary.tally
        out.n = n = summary.n
        scale = n / summary.mass
        scale = 1.0 if abs(scale - 1) < ROUNDING_OF_SCALE else scale
        weights = summary.weights  # None: there are no propensities
        out.both = weights if weights is None or scale == 1 else weights.scaled(scale)
        out.max_w = scale * float(tally.largest.max())
        out.min_w = tally.lowest
        out.missing = n * tally.missing_mass(summary.counts)
        return out

    @cached_property
    def _totals(self):
        if self.sums.first is None:  # the propensities are not known
            return 0.0, 0.0
        return sums_of_weights(self.sums)

    @property
    def sum_w(self):
        """Sum of the weights."""
        return self._totals[0]

    @property
    def sum_w2(self):
        """Sum of the squared weights."""
        return self._totals[1]

    @cached_property
    def effective_sample_size(self):
        """(sum w)^2 / sum w^2, NaN where all weights are zero."""
        if not 0 < self.sum_w2 < inf:
            return nan
        return self.sum_w * self.sum_w / self.sum_w2

    @property
    def missing_mass(self):
        """Mean probability of actions that the logger could not take."""
        return self.missing / self.n

    @property
    def mean_weight(self):
        """Mean of w; its expectation is one where the policy is supported."""
        return self.sum_w / self.n

    @cached_property
    def constant_weight(self):
        """The weight that all rounds have, NaN where they differ, or where one has."""
        sums = self.sums
        if sums.first is None or self.n < 2:
            return nan
        first, second = map(total, self._totals)
        if not 0 < second < inf:
            return nan
        spread = total(squares_about(sums, first / total(sums.mass)))
        return self.mean_weight if spread <= SAME_WEIGHTS * second else nan

    @cached_property
    def mean_weight_z(self):
        """(mean w - 1) in standard errors."""
        # Weights that are all alike, and not one, have none: z is then the normal
        # deviate of about the same chance, which is at most w^-n for n weights of w >
        # 1.
        if self.sums.first is None:
            return nan
        found, gap = Estimate(self.sums, mean, self.pooling), self.mean_weight - 1
        if isnan(self.constant_weight):
            error = found.standard_error
            return gap / error if error > 0 else nan
        if abs(gap) < 1e-9:
            return 0.0
        if isnan(found.standard_error) or not self.mean_weight > 0:
            return nan
        units = found.degrees_of_freedom + 1
        return copysign(sqrt(2 * units * abs(log(self.mean_weight))), gap)

    def evidence_above(self, lowest=0.0):
        """Return the logarithm of the e-value against a mean weight of at most one."""
        if lowest not in self._above:  # several evaluators ask
            self._above[lowest] = evidence_above(self.bounded, self.factor, lowest)
        return self._above[lowest]

    @cached_property
    def _above(self):
        return {}

    @cached_property
    def told(self):
        """Warnings of the weights, by whether a model is used."""
        return {}

    def evidence_below(self, largest, expected=1.0):
        """Return the same against one of at least `expected`."""
        return evidence_below(self.sums, largest, self.factor, expected)


class Support(Observer):
    """Observes the overlap of every policy with the logs."""

    needs_tables = False  # what is missing is a number of every block

    def __init__(self, positive):
        self.positive, self.overlaps = positive, {}

    def see(self, key, target):
        """Add what a policy does in a block."""
        if key not in self.overlaps:
            self.overlaps[key] = Overlap(self.positive.design, self.positive.n)
        overlap = self.overlaps[key]
        if target.w is None:
            overlap.missing += target.missing
        else:
            block, w = target.block, target.w
            about = target.missing, block.extremes(w)
            overlap.add(block.of(self.positive.design), w, *about)


def weight_entries(overlap, balance=None):
    """Return what the weights of the rounds tell, by name."""
    size, total = overlap.effective_sample_size, overlap.sum_w
    balance = overlap if balance is None else balance
    return {
        "effective_sample_size": size,
        "effective_share": size / overlap.n,
        "max_weight": float(overlap.max_w),
        "max_weight_share": float(overlap.max_w / total) if total else nan,
        "mean_weight": overlap.mean_weight,
        "mean_weight_z": lambda: balance.mean_weight_z,
    }


LEAST_LOST = 0.01  # of the policy's probability: what mean weights are asked for


class OverlapByLogger(Overlap):
    """Sums of the importance weights of one policy, logger by logger."""

    @property
    def effective_sample_size(self):
        """(sum w)^2 / sum w^2 of every logger, 0 where its weights are zero."""
        first, second = map(np.atleast_1d, self._totals)
        return np.divide(first**2, second, out=np.zeros_like(first), where=second > 0)


def by_logger(summary):
    """Return the `OverlapByLogger` of a `Summary`."""
    out, tally = OverlapByLogger.of_sums(summary), summary.tally
    mass, out.labels = out.sums.mass, out.sums.frame.strata
    out.sizes, rows = np.atleast_1d(mass), places_in(tally.loggers, out.labels)
    scale = out.sizes.sum() / summary.mass
    sizes = out.sizes / scale
    out.missing = tally.missing_by_logger(summary.counts, sizes, rows)
    out.max_w = scale * tally.largest[rows]
    return out


class WeighedOverlap(Overlap):
    r"""Sums of the weights as they enter, :math:`n \lambda_i w`."""

    @classmethod
    def of_loggers(cls, summary):
        """Return the overlap from a `Summary`."""
        out, found, evaluator = cls.__new__(cls), by_logger(summary), summary.evaluator
        weights = evaluator.stratum_weights(summary)
        mass = weights * np.atleast_1d(summary.sums.mass)  # by logger, and fold
        shares = mass.reshape(len(found.labels), -1).sum(axis=1) / mass.sum()
        out.n, out.sums, out.bounded = found.n, found.sums, found.bounded
        alike = evaluator.requires.divergences is None and np.ptp(weights) == 0
        out.pooling = pooled if alike else stratified(shares / found.sizes)
        out.factor = shares * out.n / found.sizes  # n lambda_i
        out.max_w, out.min_w = float((out.factor * found.max_w).max()), found.min_w
        out.missing = float(shares @ found.missing) * out.n
        if len(found.labels) > 1:
            pairs = zip(found.labels, found.missing.tolist(), shares, strict=True)
            out.missing_by_logger = {label: lost for label, lost, use in pairs if use}
        return out

    @cached_property
    def sum_w(self):
        """Sum of the weights."""
        return float(self.factor @ np.atleast_1d(self._totals[0]))

    @cached_property
    def sum_w2(self):
        """Sum of the squared weights."""
        return float(self.factor**2 @ np.atleast_1d(self._totals[1]))


class MixtureOverlap(Overlap):
    """Sums of the weights pi / (mixture of the loggers) of one policy."""

    # What a logger could not do in the round of another, it may do elsewhere, and what
    # is left to none of them in a context no single round shows. Where some logger had
    # probability 0 or 1 somewhere, a mean weight below one tells it: by how much it is
    # below is the mass on what no logger could do.

    gaps = False
    several = False

    @property
    def lacking(self):
        """What is said of the actions that are missing."""
        return "no logger could take" if self.several else Overlap.lacking

    @cached_property
    def missing_mass(self):
        """Mean probability of what no logger could do."""
        known = self.missing / self.n
        lost = 1 - known - self.mean_weight
        if not (self.gaps and lost > LEAST_LOST):
            return known
        found = self.evidence_below(UNSEEN * self.max_w, 1 - known)
        return known + lost if found > EVIDENT else known

    @classmethod
    def of_sums(cls, summary):
        """Return the overlap from a `Summary` of all parts of a log."""
        out = super().of_sums(summary)
        out.gaps = summary.tally.gaps
        out.several = summary.sums.frame.n_strata > 1
        return out


def overlap_of(evaluator, summary):
    """Return the `Overlap` of the weights as they enter, from a `Summary`."""
    if evaluator.sampling.arms is not None:  # there are no propensities
        return None
    if evaluator.proposal == "mixture":
        return MixtureOverlap.of_sums(summary)
    if evaluator.sampling.by == "rounds":
        return Overlap.of_sums(summary)
    return WeighedOverlap.of_loggers(summary)

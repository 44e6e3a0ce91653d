# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Differences of two values from the same rounds.

An evaluator may know nothing of a policy in some rounds: of a slate, say, that the
logger never composes. Its value is then that of the other rounds. A difference of two
such values compares other rounds as well as other policies, unless both are estimated
anew on the rounds that they have in common.
"""

from __future__ import annotations

import warnings as python_warnings
from copy import copy
from typing import TYPE_CHECKING

import numpy as np

from skope_ope.evaluators.core._blocks import blocks
from skope_ope.evaluators.core._diagnostics import Diagnostics, group_entries
from skope_ope.evaluators.core._drowned import beyond_floats
from skope_ope.evaluators.core._estimate import Estimate, difference, spread_estimate
from skope_ope.evaluators.core._reach import DifferenceReach
from skope_ope.evaluators.core._rows import DroppedRows
from skope_ope.exceptions import SingleTrajectoryWarning, SupportWarning

if TYPE_CHECKING:
    from skope_ope.evaluators.core._policy_value import PolicyValue

LEAST_CHANGE = 1e-12  # of the largest round value: smaller differences are none
CANCELS_BELOW = 1e-6  # share of a variance in what cancels: digits of three places
_NO_PAIRED_ERROR = (
    "the difference has no standard error: the rounds of a policy that learns depend "
    "on each other. Subtract repeated_runs of both policies on segments of the log, or "
    "give both the same DRns(n_splits=..., horizon=...)."
)
_OTHER_PAIRED_ERROR = (
    "the standard error and the interval of this difference are about the "
    "progressive-validation policies, mixtures of those along the trace. At a given "
    "horizon, two policies that learn differ much more by chance. Give both the same "
    "DRns(n_splits=..., horizon=...), or subtract repeated_runs."
)

MERGED_AND_NOT = (
    "one value comes from merged sums and the other from rounds in memory, so it is "
    "not known which rounds they share. Summarize both policies in one call, "
    "summarize({{'a': ..., 'b': ...}}, logs)."
)


class PairedDifferences:
    """How one `PolicyValue` is subtracted from another, on what they have in common."""

    def _without(self, left_out):
        """Return the value without some rounds (a mask), estimated anew."""
        if self._rows.of_sums:
            raise ValueError(
                "values from merged sums cannot be estimated anew without some rounds: "
                "the rounds are gone. Evaluate both policies in memory."
            )
        if self._operands is not None:
            first, second = (one._without(left_out) for one in self._operands)
            return first - second
        out = copy(self)
        for name in (
            "round_values",
            "_deviations",
            "_deviations_of_rounds",
            "_estimate_of_halves",
            "_usual_reach",
        ):
            out.__dict__.pop(name, None)
        if self._find_reach is not None:
            out._find_reach = self._find_reach.take(np.arange(self.n_rounds))
        estimate, out._rows = self._estimate_without(left_out)
        design = out._rows.design
        entries = {"n_common_rounds": int(np.count_nonzero(design.omega))}
        if entries["n_common_rounds"]:
            size, known = self._overlap_without(design)
            entries |= known
        else:
            estimate, size = estimate.without_value(), float("nan")
        if estimate.frame.clustered:
            entries |= group_entries(estimate)
        out._estimate, out.effective_sample_size = estimate, size
        out.diagnostics = Diagnostics(self.diagnostics._entries | entries)
        out._bound = out.successes = out._plain_weights = out._pair = None
        out._joint = None
        return out

    def _estimate_without(self, left_out):
        """Return the estimate without some rounds (a mask), and its `Rows`."""
        rows = self._rows.without(left_out)
        return rows.estimate(self._estimate), rows

    def _overlap_without(self, design):
        """Return the effective sample size of the rounds of a design, and entries."""
        if np.isnan(self.effective_sample_size):
            return self.effective_sample_size, {}
        mass = design.mass.sum()  # no importance weights: those of the rounds
        return float(mass * mass / design.squared_mass.sum()), {}

    def __sub__(self, other: PairedDifferences) -> PolicyValue:
        """Paired difference of two values from the same rounds."""
        # Where one of them is not about all rounds (slates that the logger never
        # composes), both are estimated anew on those that they have in common, and a
        # warning says how many; `diagnostics["n_common_rounds"]` does, too.
        if not isinstance(other, PairedDifferences):
            return NotImplemented
        *_, difference, warned = self._paired(other)
        for warning in warned:
            python_warnings.warn(warning, stacklevel=2)
        return difference

    def _paired(self, other):
        """Return two values on their common rounds, their difference, and warnings."""
        # The warnings are not emitted; the difference has them, too.
        if self._rows.of_sums is not other._rows.of_sums:
            raise ValueError(MERGED_AND_NOT)
        if self._rows.of_sums:
            return self._paired_of_sums(other)
        if not self._rows.same_rounds(other._rows):
            raise ValueError(
                "the two values come from different rounds; a paired difference needs "
                "both policies evaluated on the same logs (equal row_id)."
            )
        pair = {"the first": self, "the second": other}
        pair, warned = on_common_rounds(pair)
        first, second = pair.values()
        with beyond_floats():
            estimate, doubts = first._estimate_of_sums_less(second), ()
            if estimate is None:
                estimate, doubts = first._estimate_of_rounds_less(second)
        warned = (*warned, *doubts)
        rows = first._rows.of_changes(estimate.all_round_values)
        out = first._difference_from(
            second,
            estimate,
            rows,
            diagnostics={"n_common_rounds": first._rows.n_common(second._rows)},
            warnings=warned,
        )
        if rows.left_out is not None:
            out._operands = first, second
        out = out._resting_on(self, other)
        out = out._with_mixture(self._mixture or other._mixture)
        return first, second, out, warned

    def _difference_from(self, other, estimate, rows, **given):
        """Return the difference of two values that has an estimate."""
        out = self._derived(
            estimate,
            rows,
            estimator=f"{self.estimator} - {other.estimator}",
            reach=DifferenceReach(self, other),
            leaves_bias_out=_either(self.leaves_bias_out, other.leaves_bias_out),
            **given,
        )
        out._pair = self, other
        return out

    def _paired_of_sums(self, other):
        """Return two values of merged sums, their difference, and no warnings."""
        mine, others = self._rows.counted, other._rows.counted
        if mine is not None and others is not None and mine != others:
            raise ValueError(
                "the two values come from different rounds, "
                f"{mine} and {others}: a paired difference needs both policies "
                "summarized over the same files and row groups."
            )
        if self._rows.dropped or other._rows.dropped:
            estimate = self._estimate_of_joint_less(other)
            rows = DroppedRows(self.n_rounds, estimate.frame, mine)
        else:
            with beyond_floats():
                estimate = self._estimate_of_sums_less(other)
                if estimate is None:
                    estimate, _ = self._estimate_of_rounds_less(other)

            def changes():
                return self.round_values - other.round_values

            estimate = estimate.with_round_values(changes)
            rows = self._rows.of_changes(changes)
        given = {"diagnostics": {"n_common_rounds": _n_summed(self, other)}}
        out = self._difference_from(other, estimate, rows, **given)
        return self, other, out._resting_on(self, other), ()

    def _estimate_of_joint_less(self, other):
        """Return the estimate of a difference from sums alone."""
        if self._joint is not None and self._joint is other._joint:
            owners = self._owner, other._owner
            return self._joint.difference(owners, (self._estimate, other._estimate))
        pair = self, other
        if any(one._of_sequence for one in pair) and not all(map(_has_clusters, pair)):
            raise ValueError(
                f"the gain of {self.estimator} over {other.estimator} is not "
                "known: the rounds that both took were read and dropped. Subtract "
                "repeated_runs of both policies, or evaluate rounds in memory, "
                "evaluate({'a': ..., 'b': ...}, lazy.head(100_000)); of policies "
                "that do not learn DoublyRobust has gains."
            )
        with beyond_floats():
            return difference(*map(_with_clusters, pair))

    def _estimate_of_sums_less(self, other):
        """Return the estimate of a difference from sums of both; None: from rounds."""
        found = self._joint
        if found is None or found is not other._joint:
            return None
        jobs, estimates = (self._owner, other._owner), (self._estimate, other._estimate)
        joint = found.joint_of(jobs[0])
        if jobs[1] not in joint.places or any(
            one.sums.joint is not joint for one in estimates
        ):
            return None  # of other strata, or summed anew about a value
        out = found.difference(jobs, estimates, CANCELS_BELOW)
        errors = [one.standard_error for one in (out, *estimates)]
        if not errors[0] > 0 and np.isfinite(errors[1:]).all():
            return None  # it may be lost in the rounding of sums
        return out.with_round_values(lambda: self._all_changes_from(other))

    def _all_changes_from(self, other):
        change = self._changes_from(other)
        return np.zeros(self.n_rounds) if change is None else change

    def _estimate_of_rounds_less(self, other):
        """Return the estimate of a difference from all round values, and warnings."""
        value, change = self.value - other.value, self._changes_from(other)
        if change is None:
            value, change = 0.0, np.zeros(self.n_rounds)
        return self._paired_estimate(other, value, change)

    def _changes_from(self, other):
        """Return the differences of all round values."""
        # None where only the order of sums tells them apart: the policies act alike.
        change, largest, scale = np.empty(self.n_rounds), 0.0, 0.0
        for block in blocks(self.n_rounds):
            part = change[block.rows]
            pair = [one._round_values_of(block.rows) for one in (self, other)]
            np.subtract(*pair, out=part)
            largest = np.maximum(largest, _size(part))  # NaN stays
            scale = np.maximum(scale, np.maximum(*map(_size, pair)))
        return None if largest <= LEAST_CHANGE * scale else change

    def _paired_estimate(self, other, value, change):
        """Return the estimate of a difference from its round values, and warnings."""
        freedom = min(self.degrees_of_freedom, other.degrees_of_freedom)
        design = self._common_design(other)
        estimate = spread_estimate(value, change, design, freedom, scaled=True)
        if not (np.isfinite(self.standard_error) and np.isfinite(other.standard_error)):
            estimate = estimate.without_error()
        if self._independent_rounds and other._independent_rounds:
            if self._of_another_policy or other._of_another_policy:
                return estimate, [SingleTrajectoryWarning(_OTHER_PAIRED_ERROR, 1)]
            return estimate, []
        warned = SingleTrajectoryWarning(_NO_PAIRED_ERROR, 1)
        return estimate.without_error(), [warned]

    def _common_design(self, other):
        """Return the design of a difference, which must have one kind of clusters."""
        mine, others = self._rows.design, other._rows.design
        same = mine.clustered == others.clustered and (
            not mine.clustered or np.array_equal(mine.cluster, others.cluster)
        )
        if not same:
            raise ValueError(
                "the two values come from logs with different groups. A difference "
                "needs the same groups. Evaluate both on the same logs."
            )
        return mine


def _size(values):
    """Return the largest absolute value; no array of absolute values is made."""
    return np.maximum(values.max(), -values.min())


def _n_summed(*values):
    """Return the number of rounds that enter both of two values from sums."""
    return min(int(one.diagnostics.get("n_rounds", one.n_rounds)) for one in values)


def _has_clusters(value):
    estimate = value._estimate
    return isinstance(estimate, Estimate) and estimate.frame.clustered


def _with_clusters(value):
    """Return the estimate of a value that has sums by cluster; raise if it has none."""
    if isinstance(value._estimate, Estimate):
        return value._estimate
    raise ValueError(
        f"the value of {value.estimator} is a difference itself, or no function of "
        "sums: subtract values of single policies."
    )


def _either(one, other):
    """Return what intervals of a difference leave out: what those of either do."""
    if one and other and one != other:
        return f"{one}; {other}"
    return one or other


def on_common_rounds(values):
    """Return values on the rounds that all of them are about."""
    known = {name: one for name, one in values.items() if not np.isnan(one.value)}
    left_out = _in_any(one._rows.left_out for one in known.values())
    if left_out is None:
        return dict(values), ()
    found = {
        name: one._without(left_out) if name in known else one
        for name, one in values.items()
    }
    return found, (_common_rounds_warning(known, left_out),)


def _in_any(masks):
    """Return the rounds that one of the masks has; None where all are the same."""
    masks = list(masks)
    if all(mask is masks[0] for mask in masks):
        return None
    given = [mask for mask in masks if mask is not None]
    union = np.logical_or.reduce(given)
    if len(given) == len(masks) and all((mask == union).all() for mask in given):
        return None
    return union


def _common_rounds_warning(values, left_out):
    """Return the warning that says how many rounds of how many are compared."""
    rows = [one._rows for one in values.values()]
    counted = np.logical_or.reduce([one.counted for one in rows])
    n_rounds = int(np.count_nonzero(counted))
    n_common = int(np.count_nonzero(counted & ~left_out))
    lost = ", ".join(
        f"{name} ({one.n_left_out:,} rounds)"
        for name, one in zip(values, rows, strict=True)
        if one.n_left_out
    )
    told = (
        "The values and their differences are about the common rounds only."
        if n_common
        else "Nothing can be compared: the values are NaN."
    )
    return SupportWarning(
        f"{n_common:,} of {n_rounds:,} rounds are common to all values; the others "
        f"lie outside the range of the logger for {lost}. {told}",
        1 - n_common / n_rounds,
    )

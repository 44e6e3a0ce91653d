# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The value of a policy from merged sums: a `PolicyValue` without its rounds."""

import warnings as python_warnings
from functools import cached_property
from math import isnan, sqrt

import numpy as np

from skope_ope.evaluators.core._drowned import beyond_floats
from skope_ope.evaluators.core._estimate import Estimate, difference
from skope_ope.evaluators.core._grounds import (
    propensities_of,
    width_where_weights_tell,
)
from skope_ope.evaluators.core._paired_differences import MERGED_AND_NOT
from skope_ope.evaluators.core._policy_value import PolicyValue
from skope_ope.evaluators.core._reach import DifferenceReach
from skope_ope.evaluators.core._rows import IN_MEMORY, RowsGone
from skope_ope.evaluators.core._summed_reach import SummedReach
from skope_ope.exceptions import SupportWarning
from skope_ope.intervals._gamma import DeviationBounds, deviations_of_blocks


class SummedValue(PolicyValue):
    """Estimated value of a policy, from sums over parts of a log."""

    # It has what a `PolicyValue` has, with the same numbers, but for what needs the
    # rounds themselves: `round_values`, resamples of rounds, finite-sample intervals
    # and values of groups that were not asked for beforehand raise, and say what to do.
    # `ValueSummary.values` makes it. Read more in the :ref:`User Guide <evaluators>`.

    def __init__(
        self,
        estimate,
        n_rounds,
        *,
        estimator,
        counted=None,
        joint=None,
        owner=None,
        origin=None,
        by=None,
        columns=(),
        **about,
    ):
        rows = RowsGone(n_rounds, estimate.frame, counted)
        self._joint, self._owner = joint, owner
        self._by, self._columns = by, tuple(columns)
        rewards = () if origin is None else origin._reward_extremes
        super().__init__(estimate, rows, estimator=estimator, rewards=rewards, **about)
        self._propensities = propensities_of(origin)
        self._width = width_where_weights_tell(origin)

    _walked = False  # whether it was found by a walk, in the order of the rounds

    @cached_property
    def round_values(self):
        """Those of files, which are read again; other sums do not hold them."""
        if not self._rows.gone:
            return PolicyValue.round_values.func(self)
        raise ValueError(
            "round_values of a value from merged sums are not known: the rounds were "
            f"summed and dropped. {IN_MEMORY}; or give the logs a group=... and take "
            "the sums of the groups."
        )

    @cached_property
    def _deviations(self):
        """Sums of the deviations of the round values, or bounds of them."""
        with beyond_floats():
            return self._summed_deviations()

    def _summed_deviations(self):
        estimate, n = self._estimate, self.n_rounds
        scale = sqrt(n * max(n - 1, 1))
        found = self._deviations_of_sums
        if found is None and any(one._pair is not None for one in self._parts):
            found = self._deviations_of_rounds  # of a difference of differences
        if found is not None:
            return found
        sums = _sums_of_clusters(self)
        if sums is not None:
            return deviations_of_blocks([scale * sums], n)
        find, square = self._find_reach, (scale * self.standard_error) ** 2
        if isinstance(find, SummedReach) and isinstance(estimate, Estimate):
            found = find.exact(estimate)
            if found is not None:
                return found
        return DeviationBounds.of(n, square, *self._ends, self._fourth_root**4)

    @cached_property
    def _deviations_of_rounds(self):
        """Those of the rounds themselves; None where they are gone."""
        if self._rows.gone:
            return None
        return PolicyValue._deviations_of_rounds.func(self)

    def _of_weights(self, estimate, find, weighted):
        about = {"joint": self._joint, "owner": weighted.job}
        n = self.n_rounds
        out = SummedValue(estimate, n, estimator="SNIPS", reach=find, **about)
        if weighted.rows is not None:
            out._rows = weighted.rows
        return out

    @property
    def _skewness(self):
        found = self._deviations
        if not self._is_of_halves or found.known:
            return found.skewness
        found = self._deviations_of_rounds
        return None if found is None else found.skewness

    @cached_property
    def _fourth_root(self):
        """A bound of the fourth root of the sum of the deviations to the fourth."""
        if self._pair is not None:
            return sum(one._fourth_root for one in self._pair)
        find, n = self._find_reach, self.n_rounds
        size = max(abs(end) for end in self._ends)
        square = n * max(n - 1, 1) * self.standard_error**2
        bound = sqrt(size) * square**0.25
        if isinstance(find, SummedReach) and isinstance(self._estimate, Estimate):
            return min(find.fourth_root(self._estimate), bound)
        return bound

    @cached_property
    def _ends(self):
        """Bounds of the deviations of the round values that were seen."""
        find = self._find_reach
        if self._pair is not None:
            if all(one._follows_weights for one in self._pair):
                reach = self._reach_of_all()
                if reach is not None:
                    return -reach.down, reach.up
            (low, high), (less, more) = (one._ends for one in self._pair)
            return low - more, high - less
        if not isinstance(find, SummedReach):
            return -np.inf, np.inf
        if not find.is_exact(self._estimate) and self._follows_weights:
            reach = self._reach_of_all()
            if reach is not None:
                return -reach.down, reach.up
        return find.observed(self._estimate)

    def _reach_of_all(self):
        """Return a `Reach` that bounds what was seen, or None."""
        reach = None if self._limits is None else self._usual_reach
        if reach is None and self._find_reach is not None:
            reach = self._find_reach.of_seen_rewards(self)
        return None if reach is None or isnan(reach.up) else reach

    @property
    def _follows_weights(self):
        """Whether no round lies further out than one of the largest weight may."""
        if self._pair is not None:
            return all(one._follows_weights for one in self._pair)
        find = self._find_reach
        return isinstance(find, SummedReach) and find.evaluator.requires.weights

    def by(self, key):
        """Values of groups of rounds, by a column that was asked for beforehand."""
        asked = isinstance(key, str) and key in self._columns
        if not asked and not self._rows.gone:
            return super().by(key)
        if not asked:
            what = repr(key) if isinstance(key, str) else "labels of rounds"
            known = ", ".join(map(repr, self._columns)) or "none"
            raise ValueError(
                f"values by {what} are not known: these sums were taken by {known}. "
                f"Ask beforehand, summarize(policies, logs, by={_column(key)})."
            )
        values = self._by(key)
        lost = [label for label, one in values.items() if isnan(one.value)]
        if lost and not isnan(self.value):
            text = (
                f"{len(lost)} of {len(values)} groups have no estimate, {lost[0]!r} "
                "first: the rounds of the group have no information on the policy. "
                "The value is NaN."
            )
            python_warnings.warn(SupportWarning(text, float("nan")), stacklevel=2)
        return values

    def sensitivity(self, gamma=(1, 1.5, 2), *, level=0.95):
        """Bounds under hidden confounding, where the rounds are not gone."""
        self._check_rounds("sensitivity")
        return super().sensitivity(gamma, level=level)

    def breakdown_gamma(self, baseline, *, level=None):
        """Least Gamma that explains a gain, where the rounds are not gone."""
        self._check_rounds("breakdown_gamma")
        return super().breakdown_gamma(baseline, level=level)

    def deviation_bound(self, delta=0.05, **assumptions):
        """Bound of a theorem, whose assumptions are checked on the rounds."""
        self._check_rounds("deviation_bound")
        return super().deviation_bound(delta, **assumptions)

    def _check_rounds(self, name):
        if self._rows.gone:
            raise ValueError(
                f"{name} needs the weight and the reward of every round, and a value "
                f"from merged sums has none. {IN_MEMORY}."
            )

    def _of_first(self, sizes):
        if not self._rows.gone:
            return super()._of_first(sizes)
        raise ValueError(
            "the value of the first rounds is not known from merged sums. Add the "
            "summaries of the parts one after the other, and show their values; or "
            "ConvergenceDisplay of a sample in memory, lazy.sample(n)."
        )

    def _without(self, left_out):
        raise ValueError(
            "values from merged sums cannot be estimated anew without some rounds: "
            "the rounds are gone. Evaluate both policies in memory."
        )

    def _paired(self, other):
        """Return two values, their difference, and warnings."""
        if not isinstance(other, SummedValue):
            raise ValueError(MERGED_AND_NOT)
        mine, others = self._rows.counted, other._rows.counted
        if mine is not None and others is not None and mine != others:
            raise ValueError(
                "the two values come from different rounds, "
                f"{mine} and {others}: a paired difference needs both policies "
                "summarized over the same files and row groups."
            )
        if not (self._rows.gone or other._rows.gone):
            with beyond_floats():
                estimate = self._estimate_of_sums_less(other)
                if estimate is None:
                    estimate, _ = self._estimate_of_rounds_less(other)
        elif self._joint is not None and self._joint is other._joint:
            owners = self._owner, other._owner
            estimate = self._joint.difference(owners, (self._estimate, other._estimate))
        else:
            pair = self, other
            if any(one._walked for one in pair) and not all(map(_has_clusters, pair)):
                raise ValueError(
                    f"the gain of {self.estimator} over {other.estimator} is not "
                    "known: the rounds that both took were read and dropped. Subtract "
                    "repeated_runs of both policies, or evaluate rounds in memory, "
                    "evaluate({'a': ..., 'b': ...}, lazy.head(100_000)); of policies "
                    "that do not learn DoublyRobust has gains."
                )
            with beyond_floats():
                estimate = difference(*map(_with_clusters, pair))
        out = self._derived_difference(estimate, other)
        return self, other, out, ()

    def _derived_difference(self, estimate, other):
        left_out = (self.leaves_bias_out, other.leaves_bias_out)
        given = list(dict.fromkeys(text for text in left_out if text))
        common = min(
            one.diagnostics.get("n_rounds", one.n_rounds) for one in (self, other)
        )
        out = SummedValue(
            estimate,
            self.n_rounds,
            estimator=f"{self.estimator} - {other.estimator}",
            counted=self._rows.counted,
            diagnostics={"n_common_rounds": int(common)},
            reach=DifferenceReach(self, other),
            leaves_bias_out="; ".join(given) or False,
        )
        out._pair = self, other
        if not (self._rows.gone or other._rows.gone):
            out._estimate = estimate.with_round_values(out._changes_of_pair)
            out._rows = self._rows.of_changes(out._changes_of_pair)
        return out._resting_on(self, other)

    def _changes_of_pair(self):
        first, second = self._pair
        return first.round_values - second.round_values

    def __getstate__(self):
        state = self.__dict__.copy()  # sums are small, and hold no rounds
        for name in ("_deviations", "_deviations_of_rounds", "round_values"):
            state.pop(name, None)  # found again; skops keeps no kinds of tuples
        if self._pair is not None:
            state["_estimate"] = self._estimate.with_round_values(None)
        rows = self._rows
        state["_rows"] = RowsGone(rows.n_rounds, self._estimate.frame, rows.counted)
        state["_plain_weights"] = None
        return state


def _sums_of_clusters(value):
    """Return what every cluster adds to a value, ndarray of shape (n_clusters,)."""
    estimate = value._estimate
    if not estimate.frame.clustered:
        return None
    sums = getattr(estimate, "cluster_sums", None)
    if sums is None and value._pair is not None:
        pair = [_sums_of_clusters(one) for one in value._pair]
        same = [one._estimate.frame.clusters for one in value._pair]
        if any(one is None for one in pair) or not np.array_equal(*same):
            return None
        sums = pair[0] - pair[1]
    return sums


def _has_clusters(value):
    estimate = value._estimate
    return isinstance(estimate, Estimate) and estimate.frame.clustered


def _with_clusters(value):
    """Return the estimate of a value that has sums by cluster; raise if it has none."""
    estimate = value._estimate
    if isinstance(estimate, Estimate):
        return estimate
    raise ValueError(
        f"the value of {value.estimator} is a difference itself, or no function of "
        "sums: subtract values of single policies."
    )


def _column(key):
    return repr(key) if isinstance(key, str) else "'column'"

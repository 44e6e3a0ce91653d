# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The value of a policy, how sure it is, and what it rests on."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from functools import cached_property, reduce
from math import sqrt
from typing import Any

import numpy as np

from skope_ope._types import Array
from skope_ope.evaluators.core._blocks import blocks
from skope_ope.evaluators.core._diagnostics import Diagnostics, group_entries
from skope_ope.evaluators.core._drowned import beyond_floats, within_floats
from skope_ope.evaluators.core._evidence import (
    Evidence,
    missing_weight,
    propensities_of,
    width_where_weights_tell,
)
from skope_ope.evaluators.core._halves import deviations_of_sums
from skope_ope.evaluators.core._implied_weights import only_propensities
from skope_ope.evaluators.core._intervals import FEW_EVENTS
from skope_ope.evaluators.core._intervals_of_value import IntervalsOfValue
from skope_ope.evaluators.core._lift import RelativeGains
from skope_ope.evaluators.core._paired_differences import PairedDifferences
from skope_ope.evaluators.core._plain_weights import LEFT_BEHIND
from skope_ope.evaluators.core._reach import StatedReach, without_model
from skope_ope.evaluators.core._rows import DroppedRows
from skope_ope.evaluators.core._sensitivity import HiddenConfounding
from skope_ope.evaluators.core._values_of_groups import ValuesOfGroups
from skope_ope.evaluators.core._verdict import Verdict, VerdictThresholds, verdict_on
from skope_ope.evaluators.core._warnings import (
    group_warnings,
    one_unit_warnings,
    outside_warnings,
)
from skope_ope.exceptions import OPEWarning
from skope_ope.intervals._gamma import (
    Deviations,
    deviations_of,
    deviations_of_blocks,
)
from skope_ope.logs._html import card, doubts, interval_picture, main_number, pairs
from skope_ope.logs._shown_numbers import called, counts, decimals, fixed, span


class PolicyValue(
    IntervalsOfValue,
    PairedDifferences,
    RelativeGains,
    HiddenConfounding,
    ValuesOfGroups,
):
    """Estimated value of a policy.

    Evaluators make it, and nothing changes it afterwards. Read more in the
    :ref:`User Guide <evaluators>`.

    Attributes
    ----------
    value : float
        The estimate. `float(policy_value)` gives it, too.
    standard_error : float
        sd(round_values, ddof=1) / sqrt(n_rounds). If the logs have groups, it comes
        from the sums of the groups.
    degrees_of_freedom : float
        Of the standard error.
    n_rounds : int
        Number of rounds that were used.
    round_values : ndarray of shape (n_rounds,)
        One number per round. Their mean is the value. For ratio estimators they are
        linear approximations. They are computed on first access.
    effective_sample_size : float
        (sum w)^2 / sum w^2 of the importance weights. For `Replay` and
        `RejectionSampling` the number of accepted rounds. NaN if neither exists.
    diagnostics : Diagnostics
        Facts about the weights and the model, as a mapping. Entries are computed on
        first access.
    warnings : tuple of OPEWarning
        The warnings of the evaluation.
    row_id : RowId
        Identifies the rounds. Two values can be subtracted only if their `row_id` is
        equal.
    estimator : str
        How the value was estimated.
    leaves_bias_out : str or False
        A bias of the evaluator that the standard error and the intervals leave out, in
        a few words. False: there is none.
    successes : tuple (int, int) or None
        The number of ones among 0/1 rewards, and the number of rewards. Only if the
        value is their mean, and they are independent: `Replay` and `RejectionSampling`
        of a stationary policy, on logs without groups.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import BanditLogs, IPS
    >>> logs = BanditLogs(np.zeros((4, 1)), [0, 1, 1, 0], [1, 0, 1, 0], [0.5] * 4)
    >>> result = IPS().fit(logs).evaluate(np.tile([0.5, 0.5], (4, 1)))
    >>> float(result), f"{result.standard_error:.4f}", f"{result:.2f}"
    (0.5, '0.2887', '0.50')
    >>> low, high = result.confidence_interval(0.9, "student")
    >>> round(low, 3), round(high, 3)
    (-0.179, 1.179)
    """

    _independent_rounds = True  # whether a spread of round values is a standard error
    _of_another_policy = False  # whether its error is about a mixture of histories
    _mixture = None  # `LoggerMixture` by which rounds of several loggers are weighted
    _extreme = None  # the warning of a value whose error leaves the range of floats
    _operands = None  # of a difference of values that are not about all rounds
    _pair = None  # the two values of a difference
    _resamples = True  # whether its rounds may be drawn anew, each by itself
    _inherited = None  # `Evidence` of the values that it was made from
    _of_sequence = False  # whether it was found along the rounds, in their order

    def __init__(
        self,
        estimate: Any,
        rows: Any,
        *,
        estimator: str,
        effective_sample_size: float = float("nan"),
        diagnostics: Any = (),
        warnings: Iterable[OPEWarning] = (),
        bound: Any = None,
        successes: tuple[int, int] | None = None,
        reach: Any = None,
        plain_weights: Any = None,
        leaves_bias_out: str | bool = False,
        joint: Any = None,
        owner: Any = None,
        origin: Any = None,
        by: Any = None,
        columns: Iterable[str] = (),
    ) -> None:
        warnings = tuple(warnings)
        # sums that those of other values are among, and whose; what is known of a log
        # whose rounds are gone, and values by the columns that were asked for
        self._joint, self._owner, self._origin = joint, owner, origin
        self._by, self._columns = by, tuple(columns)
        log = rows.logs if origin is None else origin
        rewards = () if log is None else log._reward_extremes
        estimate, self._extreme = within_floats(estimate, rewards, warnings)
        self._estimate, self._rows, self._bound = estimate, rows, bound
        self._find_reach, self._find_plain_weights = reach, plain_weights
        self.estimator, self.successes = estimator, successes
        self.leaves_bias_out = leaves_bias_out
        self.effective_sample_size = effective_sample_size
        warned = (*warnings, *[self._extreme] * (self._extreme is not None))
        warned += outside_warnings(estimate.value, self._limits)
        warned += one_unit_warnings(estimate)
        if estimate.frame.clustered:
            known = diagnostics() if callable(diagnostics) else dict(diagnostics)
            diagnostics = known | group_entries(estimate)
            warned += group_warnings(estimate)
        self.diagnostics, self.warnings = Diagnostics(diagnostics), warned

    @property
    def value(self) -> float:
        """The estimate."""
        return self._estimate.value

    @property
    def standard_error(self) -> float:
        """Its standard error."""
        return self._estimate.standard_error

    @property
    def degrees_of_freedom(self) -> float:
        """Degrees of freedom of the standard error."""
        return self._estimate.degrees_of_freedom

    @property
    def n_rounds(self) -> int:
        """Number of rounds."""
        return self._rows.n_rounds

    @property
    def row_id(self) -> Any:
        """The rounds that were evaluated."""
        return self._rows.row_id

    @cached_property
    def round_values(self) -> Array:
        """Terms whose mean is the value, ndarray of shape (n_rounds,)."""
        rows = self._rows
        rows.check_known("round_values")
        with beyond_floats():
            terms = rows.terms if self._estimate.needs_terms else None
            return self._estimate.round_values(terms, rows.design)

    @cached_property
    def _deviations(self):
        """Sums of the deviations of the round values, or of their sums by group."""
        # None where neither rounds nor sums tell them.
        stated = getattr(self._find_reach, "deviations", None)
        if stated is not None:
            return Deviations(*stated)
        found = self._deviations_of_sums
        if found is None:
            found = self._deviations_of_rounds
        sums = self._cluster_sums if found is None else None
        if sums is None:
            return found
        n = self.n_rounds
        return deviations_of_blocks([sqrt(n * max(n - 1, 1)) * sums], n)

    @cached_property
    def _plain_weights(self):
        """The `PlainWeights` of a value that is of weighted rewards, or None."""
        found = self._find_plain_weights
        return found() if callable(found) else found

    @property
    def _parts(self):
        """The value itself, or the two of which it is the difference."""
        return (self,) if self._pair is None else self._pair

    @property
    def _is_of_halves(self):
        """Whether sums in two halves say how the round values spread."""
        return self._find_reach is not None and self._find_reach.of_halves

    @cached_property
    def _estimate_of_halves(self):
        """The estimate whose sums are in two halves, where these are known."""
        return self._find_reach.estimate_of_halves(self)

    @property
    def _deviations_of_sums(self):
        """The same from sums in two halves of a known range, otherwise None."""
        if self._limits is None or not self._is_of_halves:
            return None
        with beyond_floats():
            return deviations_of_sums(self, self._parts)

    @property
    def _cluster_sums(self):
        """What every cluster adds to the value; None where that is not known."""
        if not self._estimate.frame.clustered:
            return None
        if self._pair is None:
            return getattr(self._estimate, "cluster_sums", None)
        pair = [one._cluster_sums for one in self._pair]
        labels = [one._estimate.frame.clusters for one in self._pair]
        known = all(one is not None for one in pair) and np.array_equal(*labels)
        return pair[0] - pair[1] if known else None

    @property
    def _skewness(self):
        """Skewness of the round values on one side; None where it is not known."""
        found = self._deviations_of_rounds
        if found is None and not self._is_of_halves:
            found = self._deviations
        return None if found is None else found.skewness

    @cached_property
    def _deviations_of_rounds(self):
        """The same from the rounds; None where they are gone."""
        if self._rows.dropped:
            return None
        n, design = self.n_rounds, self._rows.design
        with beyond_floats():
            if design.clustered:
                return deviations_of(self.round_values, self.value, design.cluster)
            changes = (self._round_values_of(b.rows) - self.value for b in blocks(n))
            return deviations_of_blocks(changes, n)

    def _round_values_of(self, some):
        """Return the round values of consecutive rounds, and store none."""
        rows, estimate = self._rows, self._estimate
        given = "round_values" in vars(self) or not estimate.needs_terms
        if given or not rows.come_in_blocks:
            return self.round_values[some]
        return estimate.round_values(rows.terms_of(some), rows.design, some)

    def _reach(self, max_weight=None, error=None):
        """Return the `Reach` of the round values, or None where no range is known."""
        if self._find_reach is None:
            return None
        if max_weight is not None or error is not None:
            return self._find_reach(self, max_weight, error)
        return self._usual_reach

    @cached_property
    def _usual_reach(self):
        return self._find_reach(self)

    @property
    def _limits(self):
        """Range of the value, (low, high), or None where it is not known."""
        return None if self._find_reach is None else self._find_reach.limits

    @property
    def verdict(self) -> Verdict:
        """Whether the value can be acted on: a `Verdict`.

        "trustworthy", "caution" or "not supported", from what the value itself knows,
        by the default thresholds. An audit of the log knows more, and thresholds can
        be changed: see `skope_ope.verdict`.
        """
        return verdict_on(self, VerdictThresholds())

    @property
    def _evidence(self):
        """What the value rests on, and the values that it was made from."""
        derived = self._inherited is not None
        evaluators = () if derived else (self.estimator,)
        size, propensities = self.effective_sample_size, self._propensities
        found = self.diagnostics
        own = Evidence(
            self.warnings,
            size,
            propensities,
            evaluators,
            missing_weight(found),
            not np.isnan(found.get("unsupported_mass", 0.0)),
            np.nan if self._width is None else self._width,
            found.get("mean_weight", np.nan) + 1 - found.get("expected_weight", 1.0),
            found.get("mean_weight_z", np.nan),
        )
        return own.merged(self._inherited) if derived else own

    @cached_property
    def _propensities(self):
        """Where those of the logs come from."""
        return propensities_of(self._log)

    @cached_property
    def _width(self):
        """Width of the rewards where only weights tell what the log may lack."""
        known = getattr(self._find_reach, "regional", None) is not None
        if known and self._log is not None and only_propensities(self._log):
            return None  # the interval allows for what may be lacking
        return width_where_weights_tell(self._log)

    @property
    def _regions_untested(self):
        """Whether regions of contexts may lack rounds, and contexts are gone."""
        known = getattr(self._find_reach, "regional", None) is not None
        if not (known and self._rows.of_sums and only_propensities(self._log)):
            return False
        return len(self._log.actions) > 2  # of two, propensities tell the other

    @property
    def _log(self):
        """What is known of the log: its rounds, or sums of them."""
        return self._rows.logs if self._origin is None else self._origin

    def _derived(self, estimate, rows, **given):
        """Return a value of some of the rounds, or of a difference."""
        return PolicyValue(estimate, rows, **given)

    def _of_weights(self, estimate, find, weighted):
        """Return the value of the same rounds by `WeightedRounds` alone."""
        rows = weighted.rows
        rows = DroppedRows(self.n_rounds, estimate.frame) if rows is None else rows
        about = {"joint": self._joint, "owner": weighted.job, "origin": self._origin}
        return self._derived(estimate, rows, estimator="SNIPS", reach=find, **about)

    def _resting_on(self, *values):
        """Return the same value, which rests on what some others rest on, too."""
        first, *others = (value._evidence for value in values)
        out = copy(self)
        out._inherited = reduce(Evidence.merged, others, first)
        return out

    def _at(self, logs):
        """Return the same value of these logs, which a process may have left behind."""
        rows = self._rows.at(logs)
        if rows is self._rows:
            return self
        out = copy(self)
        out._rows = rows
        return out

    def _with_warnings(self, warnings):
        """Return the same value with more warnings, which come first."""
        if not warnings:
            return self
        out = copy(self)
        out.warnings = (*warnings, *self.warnings)
        return out

    def _with_diagnostics(self, entries):
        """Return the same value with more diagnostics, or self where there are none."""
        if not entries:
            return self
        out = copy(self)
        out.diagnostics = self.diagnostics.with_entries(entries)
        return out

    def __getstate__(self):
        # what finds the reach and the weights holds the logs, which stay behind
        state = self.__dict__ | {"_width": self._width}
        state["_propensities"] = self._propensities
        state["_origin"] = None
        state.pop("_estimate_of_halves", None)
        if self._rows.of_sums:
            return self._state_of_sums(state)
        if self._plain_weights is not None:
            state["_plain_weights"] = LEFT_BEHIND
        state["_find_plain_weights"] = None
        if self._pair is not None:
            state["_pair"] = LEFT_BEHIND
        state["_joint"] = None
        if self._find_reach is not None:
            state["_find_reach"] = self._stated_reach()
        return state

    def _state_of_sums(self, state):
        """Return the state of a value of merged sums, which are small."""
        for name in ("_deviations", "_deviations_of_rounds", "round_values"):
            state.pop(name, None)  # found again; skops keeps no kinds of tuples
        if self._pair is not None:
            state["_estimate"] = self._estimate.with_round_values(None)
        rows = self._rows
        state["_rows"] = DroppedRows(rows.n_rounds, self._estimate.frame, rows.counted)
        state["_find_plain_weights"] = state["_plain_weights"] = None
        return state

    def _stated_reach(self):
        """Return what intervals need of the rounds, found before they stay behind."""
        if not np.isfinite(self.value):
            return StatedReach(self._limits, None)
        found = self._deviations
        few = found.effective_events < FEW_EVENTS
        other = without_model(self) if few and self._limits is not None else None
        out = StatedReach(self._limits, self._reach(), other, list(found))
        out.of_halves = self._is_of_halves
        if out.of_halves and self._pair is None:  # a difference may have less error
            out.of_all_weights = self._reach(error=0.0)
        smooth = self._find_reach.smooth if out.of_halves else None
        if smooth is not None and self._limits is not None:
            out.smooth = smooth
            out.rounds = self._find_reach.effective_rounds(self)
            out.halves = self._estimate_of_halves
        return out

    def __copy__(self):
        # not by the state of a pickle, which leaves the rounds behind
        out = self.__class__.__new__(self.__class__)
        out.__dict__.update(self.__dict__)
        return out

    def _with_mixture(self, mixture):
        """Return the same value, with the mixture by which its rounds are weighted."""
        if mixture is None:
            return self
        out = copy(self)
        out._mixture = mixture
        return out

    def __float__(self) -> float:
        return float(self.value)

    def __format__(self, spec):
        return format(float(self), spec) if spec else str(self)

    def __repr__(self):
        left_out, error = self.leaves_bias_out, self.standard_error
        places = decimals([error])
        return (
            f"PolicyValue({called(self.value, places)}, "
            f"standard_error={called(error, places)}, "
            f"n_rounds={self.n_rounds}, estimator={self.estimator!r}"
            + (f", leaves_bias_out={left_out!r})" if left_out else ")")
        )

    def _repr_html_(self):
        interval, places = self._interval(), decimals([self.standard_error])
        gain = self._pair is not None
        value, error = fixed(self.value, places, "+" * gain), self.standard_error
        limits = span(*interval, places, "+" * gain)
        told = f"95% interval {limits} ({interval.method})"
        about = (self.value, *interval, f"{self.estimator}: {value}, {limits}")
        reach = None if gain else self._limits
        picture = interval_picture(*about, reach=reach, zero=gain)
        facts = {
            "standard error": fixed(error, places),
            "rounds": fixed(self.n_rounds, 0),
            "effective rounds": counts([self.effective_sample_size])[0],
            "verdict": self.verdict.answer,
        }
        if self.leaves_bias_out:
            facts["it leaves out"] = self.leaves_bias_out
        return card(
            self.estimator,
            main_number(value, told, picture),
            pairs(facts),
            details=doubts((*self.warnings, *interval.warnings))
            | {"Diagnostics": self.diagnostics._table()},
        )

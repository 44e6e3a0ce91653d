# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The value of a policy, how sure it is, and what it rests on."""

import warnings

import numpy as np

from skope_ope.evaluators.core._moments import Moments, mean
from skope_ope.exceptions import SingleTrajectoryWarning, SupportWarning
from skope_ope.intervals import (
    clopper_pearson_interval,
    normal_interval,
    student_interval,
)
from skope_ope.logs._html import table_html
from skope_ope.logs._validation import check_labels

ROUNDING = 1e-12  # of the largest round value: smaller differences are none
_NO_PAIRED_ERROR = (
    "the difference has no standard error: the rounds of a policy that learns depend "
    "on each other. Subtract repeated_runs of both policies on segments of the log, or "
    "give both the same DRns(n_splits=..., horizon=...)."
)
_OTHER_PAIRED_ERROR = (
    "the standard error and the interval of this difference are about the "
    "progressive-validation policies, mixtures of what was learned on the way. What "
    "two policies that learn are worth at some horizon differs by chance much more: "
    "give both the same DRns(n_splits=..., horizon=...), or subtract repeated_runs."
)
_NO_GROUP_ERROR = (
    "values of groups of rounds have no standard error: the rounds of a policy that "
    "learns depend on each other."
)
_NO_GROUP_VALUE = "no logged round of the group bears on the policy. The value is NaN."


class PolicyValue:
    """Estimated value of a policy.

    Evaluators make it; read more in the :ref:`User Guide <evaluators>`.

    Attributes
    ----------
    value : float
        The estimate. `float(policy_value)` gives it, too.
    standard_error : float
        sd(round_values, ddof=1) / sqrt(n_rounds), unless the evaluator says
        otherwise.
    n_rounds : int
        Rounds that entered.
    round_values : ndarray of shape (n_rounds,)
        Terms whose mean is the value, linearised for ratio estimators; computed on
        first access.
    effective_sample_size : float
        (sum w)^2 / sum w^2 of the importance weights; accepted rounds of `Replay` and
        `RejectionSampling`; NaN where none are used.
    diagnostics : mapping
        What the estimate rests on; entries are computed on first access.
    warnings : tuple of OPEWarning
        What the evaluation warned of.
    row_id : RowId
        The rounds, which must agree where two values are subtracted.
    estimator : str
        How the value was estimated.
    successes : tuple (int, int) or None
        Ones among 0/1 rewards and their number, where the value is their mean and
        they are independent draws (`Replay` and `RejectionSampling` of a stationary
        policy).

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import BanditLogs, IPS
    >>> logs = BanditLogs(np.zeros((4, 1)), [0, 1, 1, 0], [1, 0, 1, 0], [0.5] * 4)
    >>> result = IPS().fit(logs).evaluate(np.tile([0.5, 0.5], (4, 1)))
    >>> float(result), round(result.standard_error, 4)
    (0.5, 0.2887)
    >>> low, high = result.confidence_interval(0.9)
    >>> round(low, 3), round(high, 3)
    (-0.179, 1.179)
    """

    successes = None
    _of_another_policy = False  # whether its error is about a mixture of histories
    independent_rounds = True  # whether a spread of round values is a standard error

    def __init__(
        self,
        value,
        standard_error,
        n_rounds,
        *,
        estimator,
        logs=None,
        terms=None,
        linearise=None,
        combine=None,
        sample_weight=None,
        offset=0.0,
        round_values=None,
        effective_sample_size=float("nan"),
        diagnostics=None,
        warnings=(),
        degrees_of_freedom=None,
        bound=None,
        bearing=None,
    ):
        self.value = value
        self.standard_error = standard_error
        self.n_rounds = n_rounds
        self.estimator = estimator
        self.effective_sample_size = effective_sample_size
        self.diagnostics = {} if diagnostics is None else diagnostics
        self.warnings = tuple(warnings)
        self.degrees_of_freedom = (
            n_rounds - 1 if degrees_of_freedom is None else degrees_of_freedom
        )
        self._logs = logs
        self._row_id = None
        self._terms = terms
        self._linearise = linearise
        self._combine = combine
        self._sample_weight = sample_weight
        self._offset = offset
        self._round_values = round_values
        self._bound = bound
        self._bearing = bearing  # what decides whether groups have an estimate

    @property
    def row_id(self):
        """The rounds that were evaluated."""
        return self._row_id if self._logs is None else self._logs.row_id

    @property
    def terms(self):
        """Per-round terms of which the value is a function, shape (n_terms, n)."""
        if callable(self._terms):
            self._terms = self._terms()
        return self._terms

    @property
    def round_values(self):
        """Terms whose mean is the value, ndarray of shape (n_rounds,)."""
        if self._round_values is None:
            self._round_values = self._linearise(
                self.value, self.terms, self._sample_weight
            )
        return self._round_values

    def confidence_interval(self, level=0.95, method="student"):
        """Two-sided interval for the value.

        Parameters
        ----------
        level : float, default=0.95
            Coverage, in (0, 1).
        method : {"student", "normal", "clopper-pearson"}, default="student"
            Quantiles of Student's distribution (with n_rounds - 1 degrees of freedom,
            unless the evaluator says otherwise) or of the normal; or the exact
            interval for values that are a share of `successes`.

        Returns
        -------
        low, high : float
        """
        if not 0 < level < 1:
            raise ValueError(f"level must lie in (0, 1), got {level}.")
        if method == "normal":
            return normal_interval(self.value, self.standard_error, level)
        if method == "student":
            return student_interval(
                self.value, self.standard_error, self.degrees_of_freedom, level
            )
        if method == "clopper-pearson":
            if self.successes is None:
                raise ValueError(
                    "method='clopper-pearson' is for the share of ones among 0/1 "
                    "rewards that Replay or RejectionSampling accepted for a "
                    f"stationary policy; this value of {self.estimator} is not one. "
                    "Use 'student'."
                )
            return clopper_pearson_interval(*self.successes, level)
        raise ValueError(
            f"method must be 'student', 'normal' or 'clopper-pearson', got {method!r}."
        )

    def deviation_bound(self, delta=0.05, **assumptions):
        """Bound ``|value - truth|`` with probability 1 - delta.

        Parameters
        ----------
        delta : float, default=0.05
            Allowed probability of failure, in (0, 1).
        **assumptions : float
            What the theorem behind the evaluator assumes; a missing one is named.

        Returns
        -------
        radius : float

        Raises
        ------
        ValueError
            If no theorem covers the evaluator, or an assumption is missing.
        """
        if not 0 < delta < 1:
            raise ValueError(f"delta must lie in (0, 1), got {delta}.")
        if self._bound is None:
            raise ValueError(
                f"no theorem bounds the deviation of {self.estimator}; use "
                "confidence_interval."
            )
        return self._bound(self, delta, **assumptions)

    def by(self, key):
        """Values of groups of rounds: by action, by day, by any row labels.

        Parameters
        ----------
        key : str or array-like of shape (n_rounds,)
            Label of every round, or the name of a field or a column of the logs.

        Returns
        -------
        values : dict
            A `PolicyValue` for every label, in sorted order: the same estimator on
            the rounds of the group. NaN, and a warning, where no estimate can be
            formed from them.
        """
        labels = check_labels("key", self._field(key) if isinstance(key, str) else key)
        if len(labels) != self.n_rounds:
            raise ValueError(
                f"key must have one label per round ({self.n_rounds}), got "
                f"{len(labels)}."
            )
        if not self.independent_rounds:
            warned = SingleTrajectoryWarning(_NO_GROUP_ERROR, 1)
            warnings.warn(warned, stacklevel=2)
        distinct, sizes = np.unique(labels, return_counts=True)
        rows = np.split(np.argsort(labels, kind="stable"), np.cumsum(sizes)[:-1])
        values = {
            label: self._group(group, label)
            for label, group in zip(distinct.tolist(), rows, strict=True)
        }
        lost = [label for label, value in values.items() if np.isnan(value.value)]
        if lost and not np.isnan(self.value):
            first = values[lost[0]].warnings[0]
            text = f"{len(lost)} of {len(values)} groups have no estimate, {lost[0]!r}"
            warned = type(first)(f"{text} first: {first}", first.value)
            warnings.warn(warned, stacklevel=2)
        return values

    def _field(self, name):
        logs = self._logs
        if logs is not None and name in logs.columns:
            return logs.columns[name]
        if logs is None or name not in logs._row_fields or getattr(logs, name) is None:
            raise ValueError(
                f"the logs of this value have no field or column {name!r}. Pass the "
                "labels of the rounds as an array."
            )
        return getattr(logs, name)

    def _group(self, rows, label):
        moments = Moments()
        if self._terms is None:
            terms, omega, combine = self.round_values[None, rows], None, mean
        else:
            omega = self._sample_weight
            omega = None if omega is None else omega[rows]
            terms, combine = self.terms[:, rows], self._combine
            if self._linearise is not None:  # groups of strata keep their strata
                moments = self._linearise.moments(rows)
        moments.add(0, tuple(terms), omega)
        value, error, linearise = moments.estimate(combine)
        warned, bearing = [], None
        if self._bearing is not None:
            bearing = self._bearing.of(rows)
            warned = bearing.warnings()
            if warned:
                value = float("nan")
            if warned or bearing.n_used == 1:
                error = float("nan")
        elif np.isnan(self.value):  # nothing is known of the policy, in no group
            value = error = float("nan")
        if np.isnan(value) and not warned:
            warned.append(SupportWarning(_NO_GROUP_VALUE, float("nan")))
        if not self.independent_rounds:
            error = float("nan")
            warned.append(SingleTrajectoryWarning(_NO_GROUP_ERROR, 1))
        return PolicyValue(
            value + self._offset,
            error,
            terms.shape[1],
            estimator=f"{self.estimator} of {label!r}",
            terms=terms,
            linearise=linearise,
            combine=combine,
            sample_weight=omega,
            offset=self._offset,
            warnings=warned,
            degrees_of_freedom=linearise.degrees_of_freedom,
            bearing=bearing,
        )

    def __sub__(self, other):
        """Paired difference of two values from the same rounds."""
        if not isinstance(other, PolicyValue):
            return NotImplemented
        if self.row_id is None or other.row_id is None or self.row_id != other.row_id:
            raise ValueError(
                "the two values come from different rounds; a paired difference needs "
                "both policies evaluated on the same logs (equal row_id)."
            )
        differences = self.round_values - other.round_values
        value = self.value - other.value
        error, freedom = self._paired_error(other, differences)
        if self._differ_by_rounding(other, differences):
            value, differences = 0.0, np.zeros(len(differences))
            error = 0.0 if np.isfinite(error) else error
        warned = []
        if np.isnan(error) and not self._independent_of_history(other):
            warned.append(SingleTrajectoryWarning(_NO_PAIRED_ERROR, 1))
        elif self._of_another_policy or other._of_another_policy:
            warned.append(SingleTrajectoryWarning(_OTHER_PAIRED_ERROR, 1))
        for warning in warned:
            warnings.warn(warning, stacklevel=2)
        difference = PolicyValue(
            value,
            error,
            len(differences),
            estimator=f"{self.estimator} - {other.estimator}",
            logs=self._logs,
            round_values=differences,
            warnings=warned,
            degrees_of_freedom=freedom,
        )
        difference._row_id = self.row_id
        return difference

    def _differ_by_rounding(self, other, differences):
        """Whether policies act alike, and only the order of sums tells them apart."""
        scale = max(np.abs(v.round_values).max(initial=0) for v in (self, other))
        return np.abs(differences).max(initial=0) <= ROUNDING * scale

    def _independent_of_history(self, other):
        return self.independent_rounds and other.independent_rounds

    def _paired_error(self, other, differences):
        """Return the standard error of a difference, and its degrees of freedom."""
        n = len(differences)
        if n < 2 or not self._independent_of_history(other):
            return float("nan"), None
        return float(differences.std(ddof=1) / np.sqrt(n)), None

    def __float__(self):
        return float(self.value)

    def __repr__(self):
        return (
            f"PolicyValue({self.value:.6g}, standard_error={self.standard_error:.3g}, "
            f"n_rounds={self.n_rounds}, estimator={self.estimator!r})"
        )

    def _repr_html_(self):
        low, high = self.confidence_interval()
        rows = [
            ("value", f"{self.value:.6g}"),
            ("standard error", f"{self.standard_error:.3g}"),
            ("95% interval", f"{low:.6g} to {high:.6g}"),
            ("rounds", f"{self.n_rounds:,}"),
            ("effective sample size", f"{self.effective_sample_size:,.1f}"),
            *(("warning", str(warning)) for warning in self.warnings),
        ]
        return table_html(self.estimator, ("", ""), rows)

    def __getstate__(self):
        # What is computed on access holds the logs and the policy: compute it now.
        state = self.__dict__.copy()
        if self._terms is not None:
            state["_round_values"] = self.round_values
            state["_terms"] = self.terms
        state["_row_id"] = self.row_id
        state["_logs"] = None
        return state

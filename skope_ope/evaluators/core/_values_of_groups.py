# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Values of groups of rounds: by action, by day, by any row labels."""

from __future__ import annotations

import warnings as python_warnings
from typing import Any

import numpy as np

from skope_ope._types import ArrayLike
from skope_ope.evaluators.core._drowned import beyond_floats
from skope_ope.evaluators.core._largest_deviation import LargestDeviation
from skope_ope.exceptions import SingleTrajectoryWarning, SupportWarning
from skope_ope.logs._coded_labels import coded_labels
from skope_ope.logs._labels import factorise, rows_of_codes
from skope_ope.logs._row_container import check_row_labels

_CODED = {  # fields of logs with the names of their labels and codes
    "action": ("actions", "action_index"),
    "logger": ("loggers", "logger_index"),
    "group": ("groups", "group_index"),
}
_NO_GROUP_ERROR = (
    "values of groups of rounds have no standard error: the rounds of a policy that "
    "learns depend on each other."
)
NO_GROUP_VALUE = (
    "the rounds of the group have no information on the policy. The value is NaN."
)


class ValuesOfGroups:
    """What a `PolicyValue` says of groups of its rounds."""

    def by(self, key: str | ArrayLike) -> dict[Any, Any]:
        """Values of groups of rounds: by action, by day, by any row labels.

        Parameters
        ----------
        key : str or array-like of shape (n_rounds,)
            Label of every round, or the name of a field or a column of the logs.

        Returns
        -------
        values : dict
            A `PolicyValue` for every label, by the same estimator on the rounds of the
            group. Labels are sorted if they can be compared. NaN, with a warning, if
            the group has no estimate.
        """
        if isinstance(key, str) and key in self._columns:
            return self._asked_by(key)
        if self._rows.dropped:
            self._refuse_by(key)
        places = self._places(key)
        if not self._independent_rounds:
            warned = SingleTrajectoryWarning(_NO_GROUP_ERROR, 1)
            python_warnings.warn(warned, stacklevel=2)
        with beyond_floats():
            values = {k: self._of_group(rows, k) for k, rows in places.items()}
        lost = [label for label, value in values.items() if np.isnan(value.value)]
        if lost and not np.isnan(self.value):
            first = values[lost[0]].warnings[0]
            text = f"{len(lost)} of {len(values)} groups have no estimate, {lost[0]!r}"
            warned = type(first)(f"{text} first: {first}", first.value)
            python_warnings.warn(warned, stacklevel=2)
        if self._mixture is not None:
            rows = list(places.values())
            doubt = self._mixture.doubt(list(values), rows, self._rows.design)
            if doubt is not None:
                python_warnings.warn(doubt, stacklevel=2)
                values = {k: v._with_warnings([doubt]) for k, v in values.items()}
        return values

    def _asked_by(self, column):
        """Return the values by a column that was asked for when rounds were summed."""
        values = self._by(column)
        lost = [label for label, one in values.items() if np.isnan(one.value)]
        if lost and not np.isnan(self.value):
            text = (
                f"{len(lost)} of {len(values)} groups have no estimate, {lost[0]!r} "
                "first: the rounds of the group have no information on the policy. "
                "The value is NaN."
            )
            warned = SupportWarning(text, float("nan"))
            python_warnings.warn(warned, stacklevel=3)
        return values

    def _refuse_by(self, key):
        """Raise: these were not asked for when the rounds were summed."""
        what = repr(key) if isinstance(key, str) else "labels of rounds"
        known = ", ".join(map(repr, self._columns)) or "none"
        column = repr(key) if isinstance(key, str) else "'column'"
        raise ValueError(
            f"values by {what} are not known: these sums were taken by {known}. "
            f"Ask beforehand, summarize(policies, logs, by={column})."
        )

    def _places(self, key):
        """Return the rounds of every label, in the order of `factorise`."""
        logs = self._rows.logs
        given = self._rows.labels(key) if isinstance(key, str) else key
        if isinstance(key, str) and key in _CODED and key not in logs.columns:
            distinct, codes = (getattr(logs, name) for name in _CODED[key])
        else:
            if logs is not None:  # values from pickles have none
                check_row_labels("key", given, logs)
            given, distinct, codes = coded_labels("key", given, copy=False)
        if len(codes) != self.n_rounds:
            raise ValueError(
                f"key must have one label per round ({self.n_rounds}), got "
                f"{len(codes)}."
            )
        places = [rows for rows in rows_of_codes(codes, len(distinct)) if len(rows)]
        places.sort(key=lambda rows: rows[0])
        labels, code = factorise(given[[rows[0] for rows in places]])
        return dict(
            zip(labels.tolist(), [places[k] for k in np.argsort(code)], strict=True)
        )

    def _of_first(self, sizes):
        """Return the values of the first rounds, one for every number of them."""
        # Rounds are taken by their timestamps where the logs have some, else as they
        # are stored. Each value is estimated anew; a reward model stays as it is.
        rows = self._rows
        if rows.dropped:
            raise ValueError(
                "the value of the first rounds is not known from merged sums. Add the "
                "summaries of the parts one after the other, and show their values; or "
                "ConvergenceDisplay of a sample in memory, lazy.sample(n)."
            )
        if not self._estimate.needs_terms:
            raise ValueError(
                f"the value of {self.estimator} cannot be computed from sums over "
                "rounds, so that of its first rounds is not known. HistoryDisplay "
                "shows the running estimate of sequential evaluators. For a "
                "difference, subtract values of the same part of the log, "
                "evaluator.evaluate(policy, logs[:m])."
            )
        time = getattr(rows.logs, "timestamp", None)
        order = np.arange(self.n_rounds)
        if time is not None:
            order = np.argsort(time, kind="stable")
        return [
            self
            if size == self.n_rounds
            else self._of_group(order[:size], f"the first {size:,} rounds")
            for size in sizes
        ]

    def _checked_group(self, estimate):
        """Return the estimate of a group, and a warning where there is none."""
        if np.isnan(self.value):  # nothing is known of the policy, in no group
            estimate = estimate.without_value()
        if not np.isnan(estimate.value):
            return estimate, []
        return estimate, [SupportWarning(NO_GROUP_VALUE, float("nan"))]

    def _of_group(self, places, label):
        estimate, rows = self._group_estimate(places)
        estimate, warned = self._checked_group(estimate)
        if not self._independent_rounds:
            estimate = estimate.without_error()
            warned.append(SingleTrajectoryWarning(_NO_GROUP_ERROR, 1))
        mixture = self._mixture and self._mixture.take(places)
        reach = self._find_reach
        if isinstance(reach, LargestDeviation):
            reach = reach.of_group(self._rows, places)
        elif reach is not None:
            reach = reach.take(places)
        found = self._derived(
            estimate,
            rows,
            estimator=f"{self.estimator} of {label!r}",
            warnings=warned,
            successes=self._group_successes(rows),
            reach=reach,
            leaves_bias_out=self.leaves_bias_out,
        )
        return found._resting_on(self)._with_mixture(mixture)

    def _group_estimate(self, places):
        """Return the estimate of some rounds (an array of ints), and their `Rows`."""
        rows = self._rows.take(places)
        return rows.estimate(self._estimate), rows

    def _group_successes(self, rows):
        """Return `successes` of some rounds."""
        return None

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Several values in one table."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from skope_ope._pairs import WithPairs
from skope_ope._texts import meant
from skope_ope.evaluators.core._intervals import intervals_of
from skope_ope.exceptions import LowOverlapWarning, PropensityWarning
from skope_ope.intervals._confidence_interval import check_level
from skope_ope.logs._html import paragraphs, table_html, with_bars
from skope_ope.logs._shown_numbers import (
    LEFT,
    as_table,
    bias_notes,
    formats_of,
    marks_of,
    numbered_warnings,
    sizes_of,
    text_table,
    value_columns,
    value_record,
    wrapped,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas

    from skope_ope._types import Axes, IntervalMethod
    from skope_ope.displays._value_displays import PolicyValueDisplay
    from skope_ope.evaluators.core._policy_value import PolicyValue
    from skope_ope.intervals._confidence_interval import ConfidenceInterval


class ValueTable(WithPairs, Mapping["Any", "PolicyValue"]):
    """Values by evaluator, or by (policy, evaluator).

    Parameters
    ----------
    values : dict
        `PolicyValue` by name of the evaluator, or by (policy, evaluator).
    left_out : dict or tuple of str, default=()
        Evaluators that need what the logs lack of the logger: their names, and what
        each needs. The text names them.
    recommended : str, default=None
        Name of the evaluator whose values are recommended.
    reason : str, default=""
        Why that one, or why none.

    Attributes
    ----------
    left_out : tuple of str
        Names of the evaluators that are left out.
    recommended : str or None
        Name of the recommended evaluator; None: none is.
    reason : str
        Why that one, or why none.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import BanditLogs, UniformPolicy, evaluate
    >>> logs = BanditLogs(np.zeros((4, 1)), [0, 1, 1, 0], [1, 0, 1, 0], [0.5] * 4)
    >>> table = evaluate(UniformPolicy(), logs)
    >>> list(table)
    ['IPS', 'SNIPS', 'DoublyRobust', 'SNDR']
    >>> table["IPS"].value
    0.5
    >>> table.recommended
    'DoublyRobust'
    """

    def __init__(
        self,
        values: Mapping[Any, Any],
        left_out: Any = (),
        *,
        recommended: str | None = None,
        reason: str = "",
    ) -> None:
        self._values = dict(values)
        self.left_out = tuple(left_out)
        self._needs = dict(left_out) if isinstance(left_out, Mapping) else {}
        self.recommended, self.reason = recommended, reason

    def __getitem__(self, key: Any) -> PolicyValue:
        if key not in self._values:
            known = ", ".join(repr(one) for one in list(self._values)[:4])
            more = ", ..." if len(self._values) > 4 else "."
            near = meant(key, self._values)
            raise KeyError(f"{key!r}; the keys are {known}{more}{near}")
        return self._values[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def _index(self):
        return ("policy", "evaluator") if self._by_policy else ("evaluator",)

    @property
    def _by_policy(self):
        return any(isinstance(key, tuple) for key in self._values)

    def confidence_intervals(
        self,
        level: float = 0.95,
        method: IntervalMethod = "auto",
        *,
        simultaneous: bool = False,
        max_weight: Any = None,
        n_resamples: Any = None,
        block_length: Any = None,
        random_state: Any = 0,
        n_jobs: Any = None,
    ) -> dict[Any, ConfidenceInterval]:
        """Two-sided intervals of all values.

        With "bootstrap" and "percentile" all values see the same resamples, in one pass
        over the rounds. Read more in the :ref:`User Guide <one_sided>`.

        Parameters
        ----------
        level : float, default=0.95
            Coverage, in (0, 1): of each interval, or of all together.
        method : str, default="auto"
            As in `PolicyValue.confidence_interval`; it must suit every row.
        simultaneous : bool, default=False
            Whether all intervals hold together at `level`. Each then has the level 1 -
            (1 - level) / m for the m rows of the table (Bonferroni). All evaluators of
            a policy count as rows. So the level holds for any row that you choose
            afterwards. In a table with one evaluator m is the number of policies.
        max_weight, n_resamples, block_length, random_state, n_jobs : optional
            As in `PolicyValue.confidence_interval`.

        Returns
        -------
        intervals : dict of ConfidenceInterval
            With the keys of the table. `interval.level` is that of each.

        Examples
        --------
        >>> from skope_ope import UniformPolicy, evaluate
        >>> from skope_ope.datasets import make_bandit_logs
        >>> logs, policy, truth = make_bandit_logs(random_state=0, return_truth=True)
        >>> policies = {"new": policy, "uniform": UniformPolicy()}
        >>> table = evaluate(policies, logs, evaluators=["SNIPS"])
        >>> intervals = table.confidence_intervals(simultaneous=True)
        >>> low, high = intervals["new", "SNIPS"]
        >>> round(intervals["new", "SNIPS"].level, 6)
        0.975
        """
        check_level(level)
        found = intervals_of(
            self._values.values(),
            1 - (1 - level) / max(len(self), 1) if simultaneous else level,
            method,
            max_weight=max_weight,
            n_resamples=n_resamples,
            block_length=block_length,
            random_state=random_state,
            n_jobs=n_jobs,
        )
        found = dict(zip(self._values, found, strict=True))
        warn_once(((_text_of(key), one) for key, one in found.items()), stacklevel=2)
        return found

    def to_records(self, level: float = 0.95) -> list[dict[str, Any]]:
        """Rows of the table as a list of dicts.

        Parameters
        ----------
        level : float, default=0.95
            Coverage of the intervals.

        Returns
        -------
        records : list of dict
            Keys: policy (if there are several), evaluator, value, standard_error, low,
            high, interval, effective_sample_size, n_rounds, recommended (bool),
            leaves_bias_out (see `PolicyValue`), verdict, warnings. The interval is the
            method that was used, see `PolicyValue.confidence_interval`. The verdict
            uses only the value, not an audit. The warnings are names of those of the
            value and of its interval.
        """
        records = []
        for key, result in self._values.items():
            policy, evaluator = key if isinstance(key, tuple) else (None, key)
            record = {"policy": policy} if self._by_policy else {}
            record |= {"evaluator": evaluator} | value_record(result, level)
            record["recommended"] = self._is_recommended(evaluator)
            record["verdict"] = result.verdict.answer
            told = [type(w).__name__ for w in result.warnings]
            told += record.pop("interval_warnings")
            record["warnings"] = "; ".join(dict.fromkeys(told))
            records.append(record)
        return records

    def _is_recommended(self, evaluator):
        return self.recommended is not None and evaluator == self.recommended

    def to_frame(self, level: float = 0.95) -> pandas.DataFrame:
        """Return the table as a pandas frame.

        Parameters
        ----------
        level : float, default=0.95
            Coverage of the intervals.

        Returns
        -------
        frame : pandas.DataFrame
            Indexed by evaluator, or by policy and evaluator.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError(
                "to_frame needs pandas: pip install 'skope-ope[frames]'; to_records "
                "gives the same rows without."
            ) from error
        return pd.DataFrame(self.to_records(level)).set_index(list(self._index))

    def plot(
        self,
        ax: Axes = None,
        *,
        level: float = 0.95,
        truth: float | Mapping[Any, float] | None = None,
    ) -> PolicyValueDisplay:
        """Draw values and intervals; needs matplotlib.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Where to draw; `None` makes a new figure.
        level : float, default=0.95
            Coverage of the intervals.
        truth : float, or dict of float, default=None
            The true value, where it is known, or those of the policies.

        Returns
        -------
        display : PolicyValueDisplay
        """
        from skope_ope.displays import PolicyValueDisplay

        return PolicyValueDisplay.from_values(self, level=level).plot(ax, truth=truth)

    def __repr__(self):
        header, rows = self._texts()
        lines = text_table(header, rows, n_left=len(self._index), left=LEFT)
        for note in self._notes():
            lines += wrapped(note)
        return "\n".join(lines)

    def _notes(self):
        """Return what is said below the table, in sentences."""
        return [*self._plain_notes(), *self._numbered_warnings()[1]]

    def _plain_notes(self):
        """Return them without the warnings."""
        notes = []
        if self.reason:
            name = self.recommended or "none of these"
            notes.append(f"Recommended: {name}; {self.reason}.")
        notes += bias_notes([vars(value) for value in self._values.values()])
        for need in dict.fromkeys(self._needs.values()):
            names = ", ".join(n for n, its in self._needs.items() if its == need)
            notes.append(f"Left out, because the logs lack {need}: {names}.")
        return notes

    def _numbered_warnings(self):
        """Return the numbers of warnings in the rows, and what these say."""
        recommended = [
            key
            for key in self._values
            if self._is_recommended(key[1] if isinstance(key, tuple) else key)
        ]
        return numbered_warnings(self._values, recommended)

    def _texts(self):
        records = self.to_records()
        columns = {name: [str(r[name]) for r in records] for name in self._index}
        columns |= value_columns(records, 0.95, *formats_of(records))
        columns["eff. rounds"] = sizes_of(records)
        columns["note"] = marks_of(records)
        columns["warnings"] = self._numbered_warnings()[0]
        return as_table(columns)

    def _repr_html_(self):
        header, rows = self._texts()
        records = self.to_records()
        marked = [i for i, r in enumerate(records) if r["recommended"]]
        kinds = ["chosen" if r["recommended"] else "told" for r in records]
        limits = [(r["value"], r["low"], r["high"]) for r in records]
        header, rows, foot = with_bars(header, rows, limits, "95% high", kinds=kinds)
        told = self._numbered_warnings()[1]
        return table_html(
            "Values of policies",
            header,
            rows,
            notes=self._plain_notes(),
            bold=marked,
            foot=foot,
            left=(*self._index, *LEFT),
            details={f"Warnings ({len(told)})": paragraphs(told) if told else ""},
        )


def _text_of(key):
    return ", ".join(map(str, key)) if isinstance(key, tuple) else str(key)


# -- warnings that several values have in common, given once ---------------------------
OF_WEIGHTS = (PropensityWarning, LowOverlapWarning)
POLICIES_NAMED = 3  # policies that a warning names; of more, their number is


def warn_once(values, stacklevel, among=()):
    """Warn of what values warn of: once, and of which rows if not of all."""
    # What weights and propensities tell has other numbers for other policies. Of such
    # texts the first is given, with the names of all rows that have one.
    rows, about = dict.fromkeys(among, True), {}
    for name, value in values:
        rows[name] = True
        for warning in value.warnings:
            key = (type(warning), str(warning))
            _, names = about.setdefault(key, (warning, {}))
            names[name] = True
    alike = {}
    for (kind, text), (warning, names) in about.items():
        what = warning.name if issubclass(kind, OF_WEIGHTS) else text
        first = alike.setdefault((kind, what), (warning, names, {}))
        if first[0] is not warning:
            first[2].update(names)
    for warning, names, others in alike.values():
        text = str(warning)
        whose = _first_of(names, rows) if len(names) < len(rows) else ""
        if whose and not text.startswith(f"{whose} "):
            text = f"{whose}: {text}"
        more = {name: True for name in others if name not in names}
        if more:
            text += (
                f" The same was found for {_first_of(more, rows)}, with other numbers."
            )
        if text != str(warning):
            given = warning.value, warning.name, warning.severity
            warning = type(warning)(text, *given)
        warnings.warn(warning, stacklevel=stacklevel + 1)


def rows_of(table, several):
    """Yield the values of a table by (policy, evaluator)."""
    for name, value in table.items():
        yield (name if several else (None, name)), value


def _first_of(names, rows):
    """Return some names as a text, those of many policies shortened."""
    found, every = _by_policy(names), _by_policy(rows)
    some = next(iter(found.values()))
    if len(found) == len(every) and all(one == some for one in found.values()):
        return ", ".join(some)  # the same evaluators of all policies
    told = []
    for policy, evaluators in found.items():
        some = ", ".join(evaluators)
        if len(evaluators) == len(every[policy]):
            told.append(str(policy))
        else:
            told.append(f"{policy} ({some})")
    more = len(told) - POLICIES_NAMED
    return ", ".join(told[:POLICIES_NAMED]) + (f" and {more} more" if more > 0 else "")


def _by_policy(names):
    """Return the evaluators that are named of every policy; names may be policies."""
    found = {}
    for name in names:
        policy, *evaluators = name if isinstance(name, tuple) else (name,)
        found.setdefault(policy, []).extend(map(str, evaluators))
    return found

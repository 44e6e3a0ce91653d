# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Sums that become values: parts of a log, days and machines add up."""

from __future__ import annotations

import warnings
from contextlib import suppress
from functools import partial
from math import nan
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from skope_ope.evaluators._counted import Counted
from skope_ope.evaluators._logged_value import logged_value_of_sums
from skope_ope.evaluators._model_facts import both_models
from skope_ope.evaluators._recommended import doubted_reason, recommended_row
from skope_ope.evaluators._summary_facts import (
    NotRestored,
    common_facts,
    facts,
    read_evaluator,
    stored_evaluator,
)
from skope_ope.evaluators._summary_files import damaged, read_file, write_file
from skope_ope.evaluators._value_table import ValueTable
from skope_ope.evaluators._warn_once import rows_of, warn_once
from skope_ope.evaluators.core._design import Frame, in_order
from skope_ope.evaluators.core._estimate import GivenEstimate
from skope_ope.evaluators.core._largest_deviation import LargestDeviation
from skope_ope.evaluators.core._logger_mixture import doubt_of_parts
from skope_ope.evaluators.core._summary import LOGGER
from skope_ope.evaluators.core._summed_reach import SummedReach
from skope_ope.evaluators.core._summed_value import SummedValue
from skope_ope.evaluators.core._sums import weights_of
from skope_ope.evaluators.core._values_of_groups import NO_GROUP_VALUE
from skope_ope.evaluators.core._warnings import rounds_warnings_of_sums
from skope_ope.evaluators.parts._rows_of_files import RowsOfFiles, with_rows
from skope_ope.exceptions import SupportWarning
from skope_ope.logs._html import summary_html
from skope_ope.logs._known_range import known_range

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skope_ope._types import Path
    from skope_ope.evaluators.parts._part_sums import PartSums
    from skope_ope.logs._bandit_logs import BanditLogs
    from skope_ope.logs._slate_logs import SlateLogs
    from skope_ope.logs.lazy._lazy_logs import LazyLogs

FORMAT = 6  # of the files
ROUNDING = 1e-13  # of the squares: smaller differences of weights are none


class ValueSummary:
    """Sums of policies by evaluators over the rounds that were summarized.

    `summarize` makes it. Add summaries of different rounds with ``+`` or `sum`. Their
    files are small, so a new day needs only the rounds of that day. Read more in the
    :ref:`User Guide <evaluators>`.

    Parameters
    ----------
    sums : PartSums or None
        The sums; None: no rounds.
    evaluators : dict
        Evaluators by name; they need no fit.
    facts : dict of str
        What must be the same in all that adds up.
    counted : Counted
        The rounds.
    single : bool, default=False
        Whether there is one policy, which has no name.
    left_out : dict, default=()
        What evaluators that are left out need, by their names.
    models : dict, default=()
        By name of the evaluator, what diagnostics say of the fit of its reward model.
    reading : Reading, default=None
        What reads the rounds again; None: they are gone.

    Attributes
    ----------
    n_rounds : int
        Number of rounds.
    policies : tuple of str
        Names of the policies; empty where one was given without a name.
    evaluators : dict
        Evaluators by name.
    counted : Counted
        Which rounds were summed.

    See Also
    --------
    summarize : Makes it.

    Examples
    --------
    >>> from skope_ope import UniformPolicy, summarize
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs = make_bandit_logs(random_state=0)
    >>> monday, tuesday = logs[:400], logs[400:]
    >>> policies = {"uniform": UniformPolicy()}
    >>> total = sum(summarize(policies, day) for day in (monday, tuesday))
    >>> total.n_rounds
    1000
    >>> table = total.values()
    >>> table.recommended
    'DoublyRobust'
    """

    def __init__(
        self,
        sums: PartSums | None,
        *,
        evaluators: Mapping[Any, Any],
        facts: Mapping[Any, str],
        counted: Counted,
        single: bool = False,
        left_out: Mapping[Any, Any] = (),
        models: Mapping[Any, Any] = (),
        reading: Any = None,
    ) -> None:
        self._models, self._reading = dict(models), reading
        self._sums, self.evaluators = sums, dict(evaluators)
        self._facts, self.counted = dict(facts), counted
        self._single, self._left_out = single, dict(left_out)

    @classmethod
    def of(
        cls,
        sums: PartSums | None,
        policies: Mapping[Any, Any],
        evaluators: Mapping[Any, Any],
        logs: BanditLogs | SlateLogs | LazyLogs,
        counted: Counted,
        left_out: Mapping[Any, Any] = (),
    ) -> Self:
        """Return the summary of some sums.

        Parameters
        ----------
        sums : PartSums or None
            Those of the policies by the evaluators; None: there were no rounds.
        policies : dict
            By name; {None: policy} for one without a name.
        evaluators : dict
            By name, as they were asked for.
        logs : BanditLogs, SlateLogs or LazyLogs
            What was summed.
        counted : Counted
            The rounds.
        left_out : dict, default=()
            What evaluators that are left out need, by their names.
        """
        single = list(policies) == [None]
        known = facts(policies, evaluators, logs)
        given = {"evaluators": evaluators, "facts": known, "counted": counted}
        return cls(sums, single=single, left_out=left_out, **given)

    def __getstate__(self):
        return {**self.__dict__, "_reading": None}

    @property
    def n_rounds(self) -> int:
        """Number of rounds, those of sample weight zero included."""
        return 0 if self._sums is None else self._sums.n

    @property
    def policies(self) -> tuple[str, ...]:
        """Names of the policies."""
        if self._single or self._sums is None:
            return ()
        return tuple(self._sums.policies)

    def values(self) -> ValueTable:
        """Return the values of all policies by all evaluators.

        Returns
        -------
        table : ValueTable
            `SummedValue` by name of the evaluator; by (policy, evaluator) where
            policies have names. It has the numbers of `evaluate` on all rounds at once.
            There is one exception: for mixtures of loggers, and for their pooled
            divergences, each summary uses the shares of the loggers in its rounds.

        Raises
        ------
        ValueError
            If there are no rounds.

        Warns
        -----
        OPEWarning
            What the values warn of, each once.
        """
        table = self._table()
        warn_once(rows_of(table, not self._single), stacklevel=2)
        return table

    def _table(self):
        """Return the values without a word; their warnings are in them."""
        sums = self._some_sums()
        results = {
            name if self._single else (policy, name): value
            for (policy, name), value in self._values_of(sums).items()
        }
        row, reason, needs = None, "", self._left_out
        if sums.log is not None:
            row, reason = recommended_row(sums.log, self.evaluators, left_out=needs)
            reason = doubted_reason(row, reason, sums.log, results.values())
        return ValueTable(results, needs, recommended=row, reason=reason)

    def logged_value(self, evaluator: str | None = None) -> SummedValue:
        """Return the mean reward of the rounds, the value of the logger.

        Parameters
        ----------
        evaluator : str, default=None
            Name of the evaluator with whose values it will be compared; `None`: the
            first.

        Returns
        -------
        value : SummedValue
            Values of policies by this evaluator can be compared with it in pairs.
        """
        sums = self._some_sums()
        name = next(iter(self.evaluators)) if evaluator is None else evaluator
        summary = sums.by_evaluator[name][LOGGER]
        return logged_value_of_sums(
            summary, sums.log, sums.n, **self._about(sums, (name, LOGGER, None))
        )

    def _act_alike(self, policy, other=None):
        """Tell whether two policies gave all logged actions the same probability."""
        sums = self._some_sums()
        if (
            sums.log is None
            or "propensity" not in sums.log.fields
            or sums.log.actions is None
        ):
            return False
        kinds = dict.fromkeys(kind for (_, kind), *_ in sums.tallies)
        for kind in kinds:
            names = [policy] if other is None else [policy, other]
            jobs = [weights_of(kind, name) for name in names]
            joint = sums.sums.joint_of(jobs[0])
            if joint is None or not all(job in joint.places for job in jobs):
                continue
            weights = joint.whole.some([joint.places[job][0] for job in jobs])
            # of one policy its weights less one, of two the difference of theirs
            change = [1.0, -1.0][: len(jobs)]
            origin = [1.0] if other is None else [0.0, 0.0]
            _, second = weights.about(origin, weights.offset)
            second = second.sum(axis=0)
            gap = np.array([*change, 0.0])
            size = float(np.trace(second[:-1, :-1])) + float(second[-1, -1])
            return bool(gap @ second @ gap <= ROUNDING * size)
        return False

    def _some_sums(self):
        if self._sums is None or self._sums.counts is None:
            raise ValueError(
                "the summary has no rounds yet. Add a summary of some rounds: "
                "summarize(policies, logs)."
            )
        return self._sums

    def _values_of(self, sums):
        """Return the values of some sums by (policy, evaluator)."""
        joint = sums.by_evaluator
        return {
            (policy, name): self._value(sums, joint[name][policy], policy, name)
            for policy in sums.policies
            for name in self.evaluators
        }

    def _value(self, sums, summary, policy, name):
        """Return one value."""
        evaluator = sums.resolved.get((name, policy), self.evaluators[name])
        by = None
        if sums.by:
            by = partial(self._values_by, sums, policy, name)
        may_read = self._reading is not None and sums is self._sums
        if may_read:
            summary.rows = RowsOfFiles(self._reading, (name, policy), summary.sums)
        value = evaluator._value_of_sums(
            summary,
            sums.log,
            n_rounds=sums.n,
            by=by,
            columns=tuple(sums.by),
            **self._about(sums, (name, policy, None)),
        )
        value = value._with_diagnostics(self._models.get(name))
        if may_read and isinstance(value._find_reach, LargestDeviation):
            value = with_rows(value, self._reading, (name, policy))
        if sums.log is not None and "n_buckets" in value.diagnostics:
            value = value._with_diagnostics({"n_groups": sums.log.n_groups})
        return value._with_warnings(rounds_warnings_of_sums(sums, policy))

    def _about(self, sums, owner):
        """Return what a value is told of its rounds."""
        return {
            "counted": self.counted,
            "joint": sums.sums,
            "owner": owner,
            "origin": sums.log,
        }

    def _values_by(self, sums, policy, name, column):
        """Return the values of the groups of rounds of a column, by label."""
        limits = None if sums.log is None else known_range(sums.log)
        of_all, found = sums.by_evaluator[name][policy], {}
        whole = self._value(sums, of_all, policy, name)._find_reach
        for label in in_order(sums.by[column]):
            part = sums.by[column][label]
            if part.counts is None:  # all its rounds have sample weight zero
                found[label] = self._nothing(part, name, label)
                continue
            summary = part.by_evaluator[name][policy]
            summary.whole = of_all
            value = self._value(part, summary, policy, name)
            value.estimator = f"{value.estimator} of {label!r}"
            # the range of the rewards is that of the whole log
            if isinstance(value._find_reach, SummedReach):
                value._find_reach.limits = limits
            if isinstance(value._find_reach, LargestDeviation):
                value._find_reach = value._find_reach.within(whole)
            found[label] = value
        mixed = _mixes(self.evaluators[name], of_all)
        doubt = doubt_of_parts(sums, sums.by[column]) if mixed else None
        if doubt is not None:
            warnings.warn(doubt, stacklevel=3)
            found = {k: one._with_warnings([doubt]) for k, one in found.items()}
        return found

    def _nothing(self, part, name, label):
        """Return the value of rounds of which none counts: NaN."""
        estimate = GivenEstimate(nan, nan, 0.0, None, Frame(np.zeros(1, dtype=int)))
        return SummedValue(
            estimate,
            part.n,
            estimator=f"{type(self.evaluators[name]).__name__} of {label!r}",
            warnings=[SupportWarning(NO_GROUP_VALUE, nan)],
        )

    def __add__(self, other):
        """Return the summary of the rounds of both."""
        if not isinstance(other, ValueSummary):
            return NotImplemented
        found = common_facts(self._facts, other._facts)
        counted = self.counted + other.counted
        parts = [one._sums for one in (self, other) if one._sums is not None]
        _refuse_other_labels([one for one in parts if one.n])
        return ValueSummary(
            sum(parts) if parts else None,
            evaluators=self.evaluators,
            facts=found,
            counted=counted,
            single=self._single,
            left_out=self._left_out,
            models=both_models(self._models, other._models),
        )

    def __radd__(self, other):
        """Return self for the 0 that `sum` begins with."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def save(self, path: Path) -> None:
        """Write the summary to a file.

        A temporary file is written first, and then renamed. So another process reads
        either the old file or the new one, never a part.

        Parameters
        ----------
        path : str or path
            Ends with ".npz", or with ".arrow", which needs pyarrow. Nothing in it is a
            pickle.

        Raises
        ------
        ValueError
            If the file has another ending, or would unpack to more than 1 GiB.
        """
        header = {
            "format": FORMAT,
            "facts": self._facts,
            "counted": self.counted.to_text(),
            "single": self._single,
            "left_out": self._left_out,
            "models": self._models,
            "evaluators": {
                name: stored_evaluator(one) for name, one in self.evaluators.items()
            },
        }
        tables = {} if self._sums is None else self._sums.to_table()
        write_file(path, header, tables)

    @classmethod
    def load(cls, path: Path, evaluators: Mapping[Any, Any] | None = None) -> Self:
        """Read a summary from a file.

        Parameters
        ----------
        path : str or path
            What `save` wrote. Nothing in it is run, and it is read only if it unpacks
            to at most 1 GiB by its own word, which is held to it.
        evaluators : dict, default=None
            Evaluators by name. Only needed for evaluators of your classes: a file has
            the names and plain parameters of ours, and no code.

        Returns
        -------
        summary : ValueSummary
            It adds up with others, and gives the same values.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ValueError
            If the file is not a summary, is damaged or of another version, is too
            large, or has unknown evaluators.

        Examples
        --------
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from skope_ope import UniformPolicy, summarize
        >>> from skope_ope.evaluators import ValueSummary
        >>> from skope_ope.datasets import make_bandit_logs
        >>> logs = make_bandit_logs(random_state=0)
        >>> with TemporaryDirectory() as folder:
        ...     path = Path(folder) / "total.npz"
        ...     summarize({"uniform": UniformPolicy()}, logs[:400]).save(path)
        ...     total = ValueSummary.load(path)
        ...     total += summarize({"uniform": UniformPolicy()}, logs[400:])
        ...     total.save(path)
        >>> total.n_rounds
        1000
        """
        header, tables = read_file(path, FORMAT)
        try:
            return _restored(header, tables, {} if evaluators is None else evaluators)
        except NotRestored as error:
            raise ValueError(f"{path!s}: {error}") from error
        except Exception as error:  # whatever hostile names and numbers lead to
            raise damaged(path, repr(error)) from error

    def __repr__(self):
        lines = [f"{name:<{self._width}}  {text}" for name, text in self._rows()]
        return "\n".join(["ValueSummary", *lines])

    def _repr_html_(self):
        return summary_html("ValueSummary", dict(self._rows()))

    @property
    def _width(self):
        return max(len(name) for name, _ in self._rows())

    def _rows(self):
        rows = [("rounds", f"{self.n_rounds:,}"), ("from", repr(self.counted))]
        if self.policies:
            rows.append(("policies", ", ".join(map(str, self.policies))))
        rows.append(("evaluators", ", ".join(map(str, self.evaluators))))
        if self._sums is not None:
            rows.append(("clusters", clusters_text(self._frame)))
            if self._sums.by:
                rows.append(("values by", ", ".join(map(str, self._sums.by))))
        return rows

    @property
    def _frame(self):
        of_one = next(iter(self._sums.by_evaluator.values()))
        return of_one[self._sums.policies[0]].sums.frame


def _restored(header, tables, given):
    """Return the summary of a file, once it could be added and has shown its values."""
    from skope_ope.evaluators.parts._part_sums import PartSums

    names = ("facts", "single", "left_out", "models")
    known = {name: header[name] for name in names}
    counted = Counted.from_text(header["counted"])
    found = {
        name: read_evaluator(name, one, given)
        for name, one in header["evaluators"].items()
    }
    sums = PartSums.from_table(tables, found) if tables else None
    whole, tried = (
        ValueSummary(sums, evaluators=found, counted=one, **known)
        for one in (counted, Counted())
    )
    whole + tried
    with suppress(ValueError):  # few rounds may have no value yet
        tried._table()
    return whole


def _refuse_other_labels(parts):
    """Raise where two parts keep values by other columns: rounds would be missing."""
    kept = [sorted(one.by) for one in parts]
    if len(kept) == 2 and kept[0] != kept[1]:
        texts = [", ".join(map(repr, some)) or "nothing" for some in kept]
        raise ValueError(
            f"one summary keeps values by {texts[0]} and the other by {texts[1]}. "
            "Summarize all parts with the same by=."
        )


def _mixes(evaluator, summary):
    """Whether merged sums are of rounds weighted by the mixture of all loggers."""
    mixture = evaluator.proposal in ("mixture", "wanted of actions")
    return mixture and summary.facts["logger_proba"]


def clusters_text(frame):
    """Return how rounds depend on each other in sums, in words."""
    if not frame.clustered:
        return "none: rounds are independent"
    n = len(frame.cluster_sizes)
    if frame.n_buckets is None:
        return f"{n:,} exact groups"
    return f"{frame.n_buckets:,} hash buckets of groups, {n:,} of them filled"

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Sums that become values: parts of a log, days and machines add up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, Self

from skope_ope._types import ArrayLike, PolicyLike, RandomSeed, RewardModelLike
from skope_ope.evaluators._asked import asked
from skope_ope.evaluators._rules import recommend
from skope_ope.evaluators._summary_files import (
    NotRestored,
    common_facts,
    damaged,
    facts,
    read_evaluator,
    read_file,
    stored_evaluator,
    write_file,
)
from skope_ope.evaluators._value_table import ValueTable, rows_of, warn_once
from skope_ope.evaluators.base._summed_values import ValuesOfSums, sums_of
from skope_ope.evaluators.core._counted import Counted
from skope_ope.evaluators.parts._part_sums import PartSums
from skope_ope.logs._bandit_logs import BanditLogs
from skope_ope.logs._folds import HashKFold
from skope_ope.logs._html import summary_html
from skope_ope.logs._slate_logs import SlateLogs
from skope_ope.logs.lazy._lazy_logs import LazyLogs

if TYPE_CHECKING:
    from skope_ope._types import Path

FORMAT = 6  # of the files


def summarize(
    policies: PolicyLike | Mapping[Any, PolicyLike],
    logs: LazyLogs | BanditLogs | SlateLogs,
    *,
    evaluators: Sequence[Any] | Mapping[Any, Any] | None = None,
    reward_model: RewardModelLike = None,
    cv: int | HashKFold | Literal["prefit"] | None = None,
    by: str | Sequence[str] | None = None,
    random_state: RandomSeed = None,
    n_jobs: int | None = None,
    sample_weight: ArrayLike | None = None,
    n_sample: int | Literal["auto"] | None = "auto",
    verbose: int = 0,
) -> ValueSummary:
    """Sum what the values of policies are made of; sums of parts of a log add up.

    `evaluate(policies, lazy)` is `summarize(policies, lazy).values()`. A summary is
    small, holds no rounds, and can be saved. So you can add the sums of each day to
    those of earlier days. Read more in the :ref:`User Guide <large_logs>`.

    Parameters
    ----------
    policies : policy, str, or dict of them
        The policies to evaluate, as in `evaluate`. A dict gives names, which identify
        the policies in other parts. Without names a hash of the policy is used. A
        policy without a hash, such as a function, needs a name.
    logs : LazyLogs, BanditLogs or SlateLogs
        The rounds: see `scan_logs`. Partitions are read one by one by the workers.
    evaluators : list of names or evaluators, or dict, default=None
        As in `evaluate`. An evaluator whose value cannot be computed from sums raises
        an error. A Pipeline with steps must be the only evaluator, on logs in memory.
    reward_model : model, number or str, default=None
        Shared by the evaluators whose `reward_model` is None.
    cv : int, HashKFold or "prefit", default=None
        How rounds are split for cross-fitting of the shared reward model. A number
        means `HashKFold`. `None`: the `cv` of each evaluator, which is 5 by default.
    by : str or list of str, default=None
        Columns for which sums by value are kept, too. They allow `value.by(column)`.
    random_state : int, RandomState instance or None, default=None
        Seeds everything random without a seed, and the sample for reward models.
    n_jobs : int, default=None
        Number of parallel tasks, as in scikit-learn. `joblib.parallel_config` says
        where they run. The sums do not depend on it.
    sample_weight : array-like of shape (n_rounds,), default=None
        Weights of the rounds, multiplied by those of the logs. Lazy logs have their
        weights as a column: `scan_logs(..., sample_weight="column")`.
    n_sample : int, None or "auto", default="auto"
        Number of rounds of lazy logs that are drawn to fit reward models. `None`: all
        rounds, with `partial_fit` if the model has it. "auto": all rounds if the model
        has `partial_fit`, else 2,000,000.
    verbose : int, default=0
        As in joblib: lines of progress.

    Returns
    -------
    summary : ValueSummary
        `summary + summary`, `.save(path)`, `.values()`.

    Raises
    ------
    TypeError
        If `logs` are not logs, or a policy cannot be evaluated part by part.
    ValueError
        If an evaluator cannot be computed from sums, or a partition cannot be read. The
        message names file and row group.

    See Also
    --------
    ValueSummary.load : A summary from its file.
    evaluate : Values at once.

    Examples
    --------
    >>> from skope_ope import UniformPolicy, summarize
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs, policy = make_bandit_logs(random_state=0), UniformPolicy()
    >>> first = summarize({"new": policy}, logs[:400], evaluators=["SNIPS"])
    >>> rest = summarize({"new": policy}, logs[400:], evaluators=["SNIPS"])
    >>> (first + rest).values()["new", "SNIPS"].n_rounds == len(logs)
    True
    """
    question = asked(
        "summarize",
        policies,
        logs,
        evaluators,
        reward_model,
        cv,
        by=by,
        random_state=random_state,
        n_jobs=n_jobs,
        sample_weight=sample_weight,
        n_sample=n_sample,
        verbose=verbose,
        sums=True,
    )
    for name, evaluator in question.evaluators.items():
        if question.lazy:
            evaluator._check_lazy()
        if evaluator.__sklearn_tags__().order_dependent:
            raise ValueError(
                f"{name} reads the rounds in order, so it has no sums over parts. "
                "Estimate the value instead: evaluate(policies, logs, "
                f"evaluators=[{name!r}])."
            )
    question.check_sums()
    about = question.policies, question.evaluators, question.logs
    known = facts(*about, question.reward_model)  # raises before long work
    found = sums_of(question, is_whole=False)
    return ValueSummary(
        found._sums,
        evaluators=found.evaluators,
        facts=known,
        counted=found.counted,
        single=question.single,
        left_out=question.left_out,
        models=found._models,
        reading=found._reading,
    )


class ValueSummary(ValuesOfSums):
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
        super().__init__(sums, evaluators, counted, models, reading)
        self._facts, self._single, self._left_out = dict(facts), single, dict(left_out)

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
            `PolicyValue` by name of the evaluator; by (policy, evaluator) where
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
        log, needs = self._log, self._left_out
        results = {
            name if self._single else (policy, name): value
            for (policy, name), value in self._by_job().items()
        }
        row, reason = None, ""
        if log is not None:
            about = log, self.evaluators, needs, results.values()
            tallies = self._sums.tallies.values()
            logged_only = not all(one.table for one in tallies)
            row, reason = recommend(*about, logged_only=logged_only)
        return ValueTable(results, needs, recommended=row, reason=reason)

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
            models=_both_models(self._models, other._models),
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


def _both_models(one, two):
    """Return what is said of the models of two summaries: each has its own rounds."""
    out = one | two
    for name in one.keys() & two.keys():
        facts = [one[name], two[name]]
        ways = "; ".join(some["model_fitted_to"] for some in facts).split("; ")
        out[name] = {
            "model_rounds": sum(some["model_rounds"] for some in facts),
            "model_fitted_to": "; ".join(dict.fromkeys(ways)),
        }
    return out


def clusters_text(frame):
    """Return how rounds depend on each other in sums, in words."""
    if not frame.clustered:
        return "none: rounds are independent"
    n = len(frame.cluster_sizes)
    if frame.n_buckets is None:
        return f"{n:,} exact groups"
    return f"{frame.n_buckets:,} hash buckets of groups, {n:,} of them filled"

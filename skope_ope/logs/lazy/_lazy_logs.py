# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Logs that stay where they are: files that are read part by part, or lazy frames."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from skope_ope._texts import meant
from skope_ope.logs._html import summary_html
from skope_ope.logs._labels import kind_of_parts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skope_ope._types import AuditLike, PolicyLike, RandomSeed
    from skope_ope.logs._bandit_logs import BanditLogs
    from skope_ope.logs._slate_logs import SlateLogs
    from skope_ope.logs.lazy._file_parts import Scanned
    from skope_ope.logs.lazy._lazy_frames import ScannedFrame
    from skope_ope.logs.lazy._log_description import LogDescription
    from skope_ope.logs.lazy._partitions import Reading

from contextlib import contextmanager
from functools import partial
from numbers import Integral

from sklearn.utils import check_random_state
from sklearn.utils.random import sample_without_replacement

from skope_ope._parallel import run_tasks
from skope_ope.exceptions import RowError
from skope_ope.logs.lazy._lazy_frames import filtered, sample_of_frame
from skope_ope.logs.lazy._log_description import describe, labelled
from skope_ope.logs.lazy._log_files import named_over
from skope_ope.logs.lazy._partitions import (
    MOST_TASKS,
    ROUNDS_OF_TASK,
    Partition,
    PartReader,
    logs_of_table,
    read_partitions,
)

FIRST_OF_FRAME = 20_000  # rows of a frame that are looked at: those that come first
FEW_TASKS = 32  # of any size


class LazyLogs:
    """Logs that are read only when needed, made by `scan_logs`.

    Pass them to functions that take logs. Rounds are read in parts, which are dropped
    after use. Read more in the :ref:`User Guide <lazy_logs>`.

    Parameters
    ----------
    reading : Reading
        The columns to read, and their meaning.
    scanned : Scanned or ScannedFrame
        The source of the rows.
    source : str
        Name of the source in messages and in the repr.

    Attributes
    ----------
    n_rounds : int or None
        Number of rounds. `None` if it is unknown before a pass over them.
    partitions : tuple of Partition or None
        The parts of files; `None` for a frame.
    frame : narwhals LazyFrame or None
        The frame; `None` for files.

    Examples
    --------
    >>> from skope_ope import scan_logs
    >>> import tempfile
    >>> import pandas as pd
    >>> folder = tempfile.TemporaryDirectory()
    >>> frame = pd.DataFrame({"item": ["a", "b"], "click": [0, 1], "p": [0.5, 0.2]})
    >>> frame.to_parquet(f"{folder.name}/monday.parquet")
    >>> logs = scan_logs(folder.name, action="item", reward="click", propensity="p")
    >>> logs.n_rounds, logs.partitions
    (2, (Partition('monday.parquet, row group 0', n_rounds=2),))
    >>> logs.describe().action_counts
    array([1, 1])
    >>> folder.cleanup()
    """

    def __init__(
        self, reading: Reading, scanned: Scanned | ScannedFrame, source: str = ""
    ) -> None:
        self._reading, self._scanned, self.source = reading, scanned, source

    @property
    def frame(self) -> Any:
        """The narwhals LazyFrame; None for files."""
        return self._scanned.frame

    @property
    def _log_type(self) -> type[Any]:
        """`BanditLogs` or `SlateLogs`: the type of the partitions once read."""
        return self._reading.log_type

    @property
    def roles(self) -> Mapping[str, Any]:
        """Names of the columns of every field, a tuple each."""
        return dict(self._reading.roles)

    @property
    def columns(self) -> Mapping[str, Any]:
        """The column, or the tuple of columns, of every named row field."""
        return dict(self._reading.columns)

    @property
    def _origin(self) -> Any:
        """Token of the source, the same in all processes."""
        return self._reading.origin

    @property
    def actions(self) -> Any:
        """Ordered labels of the actions; None where they are not known yet."""
        return self._reading.stated.get("actions")

    @property
    def loggers(self) -> Any:
        """Ordered labels of the loggers; None where they are not known yet."""
        return self._reading.loggers

    @property
    def reward_range(self) -> tuple[float, float] | None:
        """Known bounds of the reward, or None."""
        return self._reading.stated.get("reward_range")

    @cached_property
    def partitions(self) -> tuple[Partition, ...] | None:
        """Parts that are read one by one, a tuple of `Partition`; None for a frame."""
        if self._scanned.parts is None:
            return None
        return tuple(
            Partition(part, self._reading, index, start)
            for index, start, part in self._scanned.places()
        )

    @property
    def n_rounds(self) -> int | None:
        """Number of rounds; None where only a pass over them tells."""
        if self.partitions is None:
            return None
        sizes = [part.n_rounds for part in self.partitions]
        return None if None in sizes else sum(sizes)

    def __len__(self) -> int:
        if self.n_rounds is None:
            raise TypeError(
                "the number of rounds is unknown before they are read. Use "
                "describe().n_rounds."
            )
        return self.n_rounds

    def __getattr__(self, name):
        if not name.startswith("_") and hasattr(self._log_type, name):
            raise AttributeError(
                f"LazyLogs have no {name!r}, because their rounds are not in memory. "
                "describe() summarises them. sample(100_000) and head() return logs in "
                "memory. Fields are named in scan_logs."
            )
        raise AttributeError(f"LazyLogs have no attribute {name!r}.")

    def __getitem__(self, key):
        raise TypeError(
            "LazyLogs cannot be indexed: their rounds are not in memory. Draw some, "
            "lazy.sample(100_000, random_state=0), and split or search these. Or scan "
            "training and test files separately: scan_logs(train_files, ...)."
        )

    __iter__ = None  # `for` would ask for rows

    def __array__(self, dtype=None, copy=None):
        raise TypeError(
            "LazyLogs cannot become an array: their rounds are not in memory. Draw "
            "some, lazy.sample(100_000, random_state=0)."
        )

    def _label_kind(self, field):
        """Return the kind of the labels of a field, such as "numbers"; "": unknown."""
        types, names = self._reading.types, self._reading.roles.get(field, ())
        return kind_of_parts([self._scanned.label_kind(name, types) for name in names])

    def _with(self, **changes):
        return self._of(self._scanned, replace(self._reading, **changes))

    def _of(self, scanned, reading=None):
        """Return the same logs of other rows, or of which something else is read."""
        reading = self._reading if reading is None else reading
        return type(self)(reading, scanned, self.source)

    def _needing(self, context=True, columns=None):
        """Return the same logs with fewer columns to read."""
        roles, named = self.roles, self.columns
        if not context:
            roles["context"] = ()
        if columns is not None:
            missing = [name for name in columns if name not in named]
            if missing:
                raise ValueError(
                    f"column {missing[0]!r} is not among the columns that were named: "
                    f"{list(named)}.{meant(missing[0], named)} Name it in "
                    "scan_logs(columns=...)."
                )
            named = {name: named[name] for name in columns}
        return self._with(roles=roles, columns=named)

    def _tasks(self, n_tasks):
        """Return the partitions in contiguous tuples of about equally many rounds."""
        # Beyond 32, each has at least 65,536 rounds: every task has a fixed cost.
        if not self._in_files():
            return []
        # an empty partition costs something, a filtered one as much as a whole one
        sizes = np.array([max(part.part.n_rounds, 1) for part in self.partitions])
        ends = np.cumsum(sizes)
        n_tasks = min(n_tasks, max(FEW_TASKS, int(ends[-1:].sum()) // ROUNDS_OF_TASK))
        middle = ends - sizes / 2
        task = np.minimum(middle * n_tasks // ends[-1], n_tasks - 1).astype(int)
        cuts = np.flatnonzero(np.diff(task)) + 1
        bounds = [0, *cuts.tolist(), len(ends)]
        return [self.partitions[low:high] for low, high in pairwise(bounds)]

    def _in_files(self):
        """Return the partitions; raise where there are none because it is a frame."""
        if self.partitions is None:
            raise TypeError(
                "a lazy frame has no partitions to read one by one. Write it as "
                "parquet and scan that, or use a method that the frame can compute."
            )
        return self.partitions

    def labelled(self, n_jobs: int | None = None) -> LazyLogs:
        """Return the same logs with known labels of actions and loggers.

        Stated labels are used. Otherwise one pass over these columns finds them.

        Parameters
        ----------
        n_jobs : int, default=None
            Number of tasks at a time, as in scikit-learn.

        Returns
        -------
        logs : LazyLogs
            With `actions` and, if there is a logger column, `loggers`. Slates have
            `n_candidates` instead.
        """
        return labelled(self, n_jobs)

    def read(self) -> tuple[Partition, BanditLogs | SlateLogs | None]:
        """Read the partitions in turn, each as ordinary logs.

        Yields
        ------
        partition : Partition
            One of `partitions`.
        logs : BanditLogs, SlateLogs or None
            Its rounds, or `None` if it has none.
        """
        yield from read_partitions(self._in_files())

    def head(self, n: int = 5) -> BanditLogs | SlateLogs:
        """Return the first rounds as ordinary logs.

        Parameters
        ----------
        n : int, default=5
            Maximum number of rounds.

        Returns
        -------
        logs : BanditLogs or SlateLogs
        """
        return first_rows(self, check_size("head", n))

    def sample(
        self, n: int, random_state: RandomSeed = None, n_jobs: int | None = None
    ) -> BanditLogs | SlateLogs:
        """Return rounds drawn at random as ordinary logs, in the order of the source.

        Rounds are equally likely, and none is drawn twice. It reads all partitions, so
        it costs a pass over the data.

        Parameters
        ----------
        n : int
            Number of rounds. All are returned if there are no more than `n`.
        random_state : int, RandomState instance or None, default=None
            Seed of the draw.
        n_jobs : int, default=None
            Number of tasks at a time, as in scikit-learn.

        Returns
        -------
        logs : BanditLogs or SlateLogs
        """
        return some_rows(self, check_size("sample", n), random_state, n_jobs)

    def filter(self, condition: Any) -> LazyLogs:
        """Return the logs of the rounds that satisfy a condition.

        Rounds keep their positions in the source. Rounds with a missing answer, such as
        a comparison with a missing value, are left out.

        Parameters
        ----------
        condition : expression or callable
            A narwhals expression of any columns of the source. For files you can also
            pass a pyarrow expression, or a function that takes a narwhals frame and
            returns a mask. For a frame, also an expression of its library.

        Returns
        -------
        logs : LazyLogs
        """
        return filtered(self, condition)

    def describe(self, n_jobs: int | None = None) -> LogDescription:
        """Describe the logs, in one pass over the fields.

        Parameters
        ----------
        n_jobs : int, default=None
            Number of tasks at a time, as in scikit-learn.

        Returns
        -------
        description : LogDescription
            Rounds, actions and their counts, rewards, propensities, loggers, groups.
        """
        return describe(self, n_jobs)

    if TYPE_CHECKING:  # the audit gives logs this method

        def audit(self, policies: PolicyLike = None, **how: Any) -> AuditLike | Any: ...

    def __repr__(self):
        n_rounds, n_parts = self.n_rounds, len(self.partitions or ())
        known = "" if n_rounds is None else f", n_rounds={n_rounds:,}"
        where = "" if self.frame is not None else f", n_partitions={n_parts:,}"
        kind = self._log_type.__name__
        return f"LazyLogs({self.source!r}, {kind}{known}{where})"

    def summary(self) -> dict[Any, Any]:
        """Describe the logs in a dict of short texts, without reading rounds.

        Returns
        -------
        summary : dict
            Source, rounds, partitions and the columns of the fields.
        """
        n_rounds = self.n_rounds
        out = {
            "source": self.source,
            "read as": self._log_type.__name__,
            "rounds": "known after a pass" if n_rounds is None else f"{n_rounds:,}",
        }
        if self.frame is None:
            out["partitions"] = f"{len(self.partitions):,}"
            if self._scanned.passed:
                out["passed over"] = named_over(self._scanned.passed)
        for field, names in self.roles.items():
            if names:
                more = f" and {len(names) - 8} more" if len(names) > 8 else ""
                out[field] = ", ".join(names[:8]) + more
        if self.columns:
            out["columns"] = ", ".join(self.columns)
        if self.actions is not None:
            out["labels of actions"] = f"{len(self.actions):,}"
        return out

    def _repr_html_(self):
        return summary_html("LazyLogs", self.summary())


def first_rows(logs, n):
    """Return the first rows, as `LazyLogs.head` does."""
    if logs.partitions is None:
        return _logs(logs, [first_table(logs, n, logs._reading.names)], None)
    tables, rows, read = [], [], []
    left = n
    with PartReader() as reader:
        for part in logs.partitions:
            if left <= 0:
                break
            read.append(part)
            if not logs._reading.conditions:
                part = part.up_to(left)
            table, kept = part.kept(reader)
            tables.append(table.slice(0, left))
            rows.append(part.position(kept[:left]))
            left -= len(tables[-1])
    return _logs(logs, tables, np.concatenate(rows) if rows else None, read)


def seeing_first(logs, n):
    """Return the same logs of a frame, which is asked for its first rows once."""
    # `head` and `first_table` answer from them.
    return logs._of(logs._scanned.seeing(n, logs._reading.names))


def first_table(logs, n, names):
    """Return the first rows of some columns of a frame, a pyarrow Table."""
    return logs._scanned.first(n, names)


def all_rows(logs, most, n_jobs=None):
    """Return all rows as ordinary logs where they are few, else None."""
    if logs.partitions is None:
        return None
    n_rounds = int(kept_sizes(logs, n_jobs).sum())
    if not 0 < n_rounds <= most:
        return None
    return first_rows(logs.labelled(n_jobs), n_rounds)


@contextmanager
def rows_told_by_files(lazy, logs):
    """Have errors about a row of logs that were read say in which file it lies."""
    try:
        yield
    except RowError as error:
        if not 0 <= error.row < len(logs):
            raise
        place = int(logs.row_id.position[error.row])
        part = max((p for p in lazy.partitions if p.start <= place), key=_start)
        text = error.told_of(f"row {place - part.start}")
        raise ValueError(f"{part.name}: {text}") from error


def _start(part):
    return part.start, part.index  # those without rows start where the next one does


def some_rows(logs, n, random_state, n_jobs):
    """Return a sample of the rows, as `LazyLogs.sample` does."""
    if logs.partitions is None:
        names, seed = logs._reading.names, check_random_state(random_state)
        table, rows = sample_of_frame(logs.frame, names, n, seed)
        return _logs(logs, [table], rows)
    sizes = kept_sizes(logs, n_jobs)
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    if n >= total:
        drawn = np.arange(total)
    else:  # of many rounds no list of all is made
        seed = check_random_state(random_state)
        drawn = np.sort(sample_without_replacement(total, n, random_state=seed))
    cuts = np.searchsorted(drawn, ends)
    chosen = {
        part.index: drawn[low:high] - (end - size)
        for part, low, high, end, size in zip(
            logs.partitions, [0, *cuts[:-1]], cuts, ends, sizes, strict=True
        )
        if high > low
    }
    tasks = []
    for task in logs._tasks(MOST_TASKS):
        some = [(part, chosen[part.index]) for part in task if part.index in chosen]
        tasks.append(partial(_taken, some))
    found = [one for some in run_tasks(tasks, n_jobs) for one in some]
    rows = np.concatenate([rows for _, rows in found]) if found else None
    read = [part for part in logs.partitions if part.index in chosen]
    return _logs(logs, [table for table, _ in found], rows, read)


def kept_sizes(logs, n_jobs=None):
    """Return how many rows of every partition are kept, an array of int."""
    sizes = [part.n_rounds for part in logs.partitions]
    if None not in sizes:
        return np.array(sizes, dtype=np.int64)
    tasks = [partial(_sizes, task) for task in logs._tasks(MOST_TASKS)]
    return np.concatenate(run_tasks(tasks, n_jobs)).astype(np.int64)


def _sizes(partitions):
    with PartReader() as reader:
        return [part.count(reader) for part in partitions]


def _taken(some):
    """Return rows of partitions: for each a table, and the positions of its rows."""
    found = []
    with PartReader() as reader:
        for part, chosen in some:
            table, kept = part.kept(reader)
            rows = chosen if isinstance(kept, range) else kept[chosen]
            if len(chosen) < len(table):
                table = table.take(chosen)
            found.append((table, part.position(rows)))
    return found


def _logs(logs, tables, rows, read=()):
    """Return the rows of some tables as ordinary logs."""
    # `read` are the partitions that they come from: an error is that of one of them.
    import pyarrow

    if not sum(map(len, tables)):
        raise ValueError(f"there is no round in {logs!r}.")
    tables = [table for table in tables if len(table)]
    table = pyarrow.concat_tables(tables) if len(tables) > 1 else tables[0]
    try:
        return logs_of_table(logs._reading, table, 0, rows, logs.partitions)
    except (ValueError, TypeError) as error:
        for part in read:
            part.read()  # raises with file, row group and the number of bad rows
        if isinstance(error, RowError):
            raise ValueError(f"some rows of {logs.source}: {error}") from error
        raise


def check_size(method, n):
    """Return a number of rows."""
    if isinstance(n, bool) or not isinstance(n, Integral) or n < 1:
        raise ValueError(f"{method} needs a positive number of rounds, got {n!r}.")
    return int(n)


REMEDY = "draw some, lazy.sample(100_000, random_state=0)"


def kind_of(value):
    """Return the name of a type; of lazy logs with what to do about them."""
    if isinstance(value, LazyLogs):
        return f"LazyLogs, whose rounds are not in memory: {REMEDY}"
    return type(value).__name__


def refuse_lazy(logs):
    """Raise where rounds themselves are needed and logs hold none."""
    if isinstance(logs, LazyLogs):
        raise TypeError(
            "this needs every round in memory, and the rounds of LazyLogs are not in "
            f"memory: {REMEDY}, and fit on them."
        )

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Some rows of lazy logs as ordinary logs: the first ones, or a sample."""

from contextlib import contextmanager
from functools import partial
from numbers import Integral

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.random import sample_without_replacement

from skope_ope._parallel import run_tasks
from skope_ope.exceptions import RowError
from skope_ope.logs.lazy._lazy_frames import sample_of_frame
from skope_ope.logs.lazy._part_columns import logs_of_table
from skope_ope.logs.lazy._partitions import PartReader

MOST_TASKS = 64


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

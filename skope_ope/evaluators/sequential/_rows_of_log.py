# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Some rounds of a lazy log, which are read as the log is: a segment or a draw."""

from dataclasses import dataclass

import numpy as np

from skope_ope.evaluators.sequential._uniforms import UniformStream
from skope_ope.logs.lazy._partitions import read_partitions


@dataclass(frozen=True)
class RowsOfPartition:
    """Some rounds of a partition, ready to travel to another process."""

    partition: object  # where they lie
    rows: slice  # the rows that are taken
    # Seed, rounds of the log before the partition, and the share of the rounds that is
    # kept by a uniform number each; None: all are
    draw: tuple | None = None

    @property
    def name(self):
        """What messages call it."""
        return self.partition.name

    def logs(self, reader):
        """Return the rounds, None where there are none."""
        logs = self.partition.logs(reader)
        if logs is None:
            return None
        if self.draw is None:
            found = logs[self.rows]
        else:
            seed, before, share = self.draw
            u = UniformStream(seed).skip(before).take(len(logs))
            found = logs[np.flatnonzero(u < share)]
        return found if len(found) else None

    def read(self):
        """Return the rounds as ordinary logs, None where there are none."""
        return next(read_partitions([self]))[1]


class RowsOfLog:
    """Some rounds of a lazy log, to walk through."""

    frame = n_rounds = None

    def __init__(self, lazy, sizes, rows, seed=None):
        self._lazy, self._about = lazy, (sizes, rows, seed)
        self._log_type, self._origin = lazy._log_type, lazy._origin
        self.columns, self.roles = lazy.columns, lazy.roles
        found, start = [], 0
        for partition, size in zip(lazy.partitions, sizes.tolist(), strict=True):
            if not isinstance(rows, slice):
                draw = seed, start, rows
                found.append(RowsOfPartition(partition, slice(0, size), draw))
            else:
                low, high = max(rows.start - start, 0), min(rows.stop - start, size)
                if low < high:
                    found.append(RowsOfPartition(partition, slice(low, high)))
            start += size
        self.partitions = tuple(found)

    def labelled(self, n_jobs=None):
        """Return self: its labels are known."""
        return self

    def _needing(self, context=True, columns=None):
        """Return the same rounds, of which less is read."""
        return RowsOfLog(self._lazy._needing(context, columns), *self._about)

    def _tasks(self, n_tasks):
        """Return the partitions as one task: runs are what is done at a time."""
        return [self.partitions]

    def sample(self, n, random_state=None, n_jobs=None):
        """Raise: no model is fitted to a part of the log."""
        raise ValueError(
            "repeated runs on lazy logs fit no reward model. Fit one to earlier "
            "rounds: FrozenEstimator(ActionRewardModel(model).fit(logs)). Or pass "
            "a number, the name of a column, or None, the mean reward."
        )

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Lazy logs whose partitions are parts of logs in memory: no files are needed."""

from itertools import pairwise

import numpy as np


class Part:
    def __init__(self, logs, number, start, source="log"):
        self.logs, self.start, self.source = logs, start, source
        self.name, self.key = f"{source}, part {number}", (source, number)
        self.n_rounds = len(logs)

    def read(self):
        return self.logs if len(self.logs) else None


def read_parts(parts):
    return ((part, part.read()) for part in parts)


class Parts:
    """The parts of `logs` before, between and after `cuts`."""

    frame = None

    def __init__(self, logs, cuts=(), counted=True, source="log"):
        bounds = [0, *cuts, len(logs)]
        self.logs, self.counted, self.source = logs, counted, source
        pairs = enumerate(pairwise(bounds))
        self.partitions = tuple(
            Part(logs[low:high], k, low, source) for k, (low, high) in pairs
        )
        self.n_rounds = len(logs) if counted else None
        self._log_type, self._origin = type(logs), logs.row_id.origin
        self.columns = dict.fromkeys(logs.columns)
        self.roles = {} if logs.group is None else {"group": ("group",)}
        self.asked = []

    def _needing(self, context=True, columns=None):
        self.asked.append((context, columns))
        return self

    def labelled(self, n_jobs=None):
        return self

    def _tasks(self, n_tasks):
        found = np.array_split(np.arange(len(self.partitions)), n_tasks)
        return [tuple(self.partitions[i] for i in some) for some in found if some.size]

    def read(self):
        return read_parts(self.partitions)

    def sample(self, n, random_state=None, n_jobs=None):
        if n >= len(self.logs):
            return self.logs
        rows = np.random.RandomState(random_state).choice(len(self.logs), n, False)
        return self.logs[np.sort(rows)]

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Lazy logs without files: parts of logs in memory, or parts that are made anew."""

import numpy as np

from skope_ope.logs import BanditLogs


class Part:
    """A part with a name, and rounds when it is read."""

    def __init__(self, name, make):
        self.name, self.read = name, make

    def logs(self, reader):
        return self.read()


class Parts:
    """What lazy logs are to a walk."""

    frame, _log_type = None, BanditLogs

    def __init__(self, partitions, columns=("pi", "q_hat")):
        self.partitions = tuple(partitions)
        self.columns = dict.fromkeys(columns)

    def labelled(self, n_jobs=None):
        return self

    def _needing(self, context=True, columns=None):
        return self


class Slice:
    """Rounds of some logs, None where there are none."""

    def __init__(self, logs, low, high):
        self.logs, self.low, self.high = logs, low, high

    def __call__(self):
        return self.logs[self.low : self.high] if self.low < self.high else None


def cut(logs, rng, n_parts=None):
    """Cut logs at random rows, the same one twice sometimes: a part without rounds."""
    n_parts = int(rng.integers(1, 8)) if n_parts is None else n_parts
    cuts = np.sort(rng.integers(0, len(logs) + 1, n_parts - 1)).tolist()
    bounds = [0, *cuts, len(logs)]
    return Parts(
        Part(f"part {i}", Slice(logs, *bounds[i : i + 2])) for i in range(n_parts)
    )

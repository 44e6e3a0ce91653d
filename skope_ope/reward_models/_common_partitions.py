# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Rounds of a lazy log that another lazy log holds, too: the same file and row group.

Fitted to a month and asked about one of its days, a model must not predict rounds that
it has seen.
"""

import numpy as np


class CommonPartitions:
    """Where the rounds of some lazy logs lie in others."""

    def __init__(self, lazy, known):
        self.origin = lazy._origin
        starts = {part.key: part.start for part in known.partitions}
        common = [part.key in starts for part in lazy.partitions]
        self.n_common = sum(common)
        if not self.n_common:
            return
        ends = []
        for part, is_common in zip(lazy.partitions, common, strict=True):
            there = starts.get(part.key)
            if part.start is None or (is_common and there is None):
                raise ValueError(
                    f"{lazy.partitions[common.index(True)].name} was also in the logs "
                    "of fit, but the numbers of its rounds are unknown before the "
                    "files are read. So they cannot be predicted out of fold. Evaluate "
                    "on the logs of fit, on other files, or on parquet files."
                )
            ends.append((part.start, there if is_common else -1))
        self._starts, self._there = np.array(ends).T

    def positions(self, logs):
        """Return the position in the known logs of every row of logs; -1: none."""
        position = logs.row_id.position
        if logs._origin != self.origin or not self.n_common:
            return np.full(len(position), -1)
        part = np.searchsorted(self._starts, position, side="right") - 1
        there = self._there[part]
        return np.where(there < 0, -1, there + position - self._starts[part])

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Which rows these are: of files, from any scan, and of logs, wherever joined."""

from hashlib import blake2b

import numpy as np


class FileRows:
    """Turns positions into numbers that are the same in every scan, and when joined."""

    # A group has the rows from its start on: a part of a file, or logs of one origin.

    def __init__(self, starts, groups):
        self.starts = np.array(starts, dtype=np.int64)
        self.groups = np.array(groups, dtype=np.int64)

    @classmethod
    def of_partitions(cls, partitions):
        """Return those of a scan."""
        starts = [one.start for one in partitions]
        return cls(starts, [_word(one.key) for one in partitions])

    @classmethod
    def of_logs(cls, logs):
        """Return those of any logs, whose origin tells its rows where no file does."""
        return logs._files or cls([0], [_word(logs._origin)])

    def places(self, position):
        """Return the place of the group of every row, and the rows before it there."""
        # of those that start at one row the last has rows
        at = np.searchsorted(self.starts, position, side="right") - 1
        return at, position - self.starts[at]

    def numbers(self, position):
        """Return the numbers of the rows at these positions."""
        at, within = self.places(position)
        return self.groups[at] + within

    def shares(self, other):
        """Tell whether both have rows of one group."""
        return bool(np.isin(self.groups, other.groups).any())


def _word(key):
    digest = blake2b(repr(key).encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 2

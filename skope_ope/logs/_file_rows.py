# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Which rows of files these are, from any scan."""

from hashlib import blake2b

import numpy as np


class FileRows:
    """Turns positions in a scan into numbers that are the same in every scan."""

    def __init__(self, partitions):
        self._starts = np.array([one.start for one in partitions], dtype=np.int64)
        self.groups = np.array([_word(one.key) for one in partitions], dtype=np.int64)

    def numbers(self, position):
        """Return the numbers of the rows at these positions of the scan."""
        # of those that start at one row the last has rows
        at = np.searchsorted(self._starts, position, side="right") - 1
        return self.groups[at] + (position - self._starts[at])


def _word(key):
    digest = blake2b(repr(key).encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 2

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Small partitions that are worked on together: every log costs, however short."""

import numpy as np

from skope_ope.logs._part_columns import logs_of_table
from skope_ope.logs._partitions import SMALL, Partition, PartReader


class JoinedParts:
    """Partitions that follow each other, read as one.

    Parameters
    ----------
    parts : sequence of Partition
        At least one.
    """

    def __init__(self, parts):
        self.parts = tuple(parts)

    @property
    def name(self):
        """What messages call them."""
        first, last = self.parts[0].name, self.parts[-1].name
        return first if len(self.parts) == 1 else f"{first} to {last}"


def read_joined(partitions):
    """Read partitions in turn, small ones together.

    Parameters
    ----------
    partitions : sequence of Partition
        Of one lazy log, in its order.

    Yields
    ------
    joined : JoinedParts
        One for every partition: itself, or those that were read before it, and itself.
    logs : BanditLogs, SlateLogs or None
        Their rounds; `None` where there are none, or where they come with a later one.
    """
    held, size = [], 0
    with PartReader() as reader:
        if not all(isinstance(part, Partition) for part in partitions):
            for part in partitions:  # rows in memory, or some rows of a partition
                yield JoinedParts([part]), part.logs(reader)
            return
        sizes = [part.part.n_rounds for part in partitions]
        for part, later in zip(partitions, [*sizes[1:], SMALL], strict=True):
            held.append((part, *part.kept(reader)))
            size += len(held[-1][1])
            joined = JoinedParts(part for part, *_ in held)
            if size < SMALL and later < SMALL:
                yield joined, None
                continue
            found, held, size = held, [], 0
            logs = _logs(found)
            del found
            yield joined, logs
            del logs  # before the next is read


def _logs(held):
    """Return the rounds of some partitions that were read."""
    some = [(part, table, rows) for part, table, rows in held if len(table)]
    if len(some) < 2:
        return some[0][0].logs_of(*some[0][1:]) if some else None
    import pyarrow

    parts, tables, rows = zip(*some, strict=True)
    start, position = parts[0].start, None
    ends = [part.start + part.part.n_rounds for part in parts[:-1]]
    if parts[0].reading.conditions or ends != [part.start for part in parts[1:]]:
        start = 0
        position = [p.position(r) for p, r in zip(parts, rows, strict=True)]
        position = np.concatenate(position)
    try:
        table = pyarrow.concat_tables(tables)
        return logs_of_table(parts[0].reading, table, start, position)
    except (ValueError, TypeError):
        for part, table, row in some:
            part.logs_of(table, row)  # raises with the name of the partition
        raise

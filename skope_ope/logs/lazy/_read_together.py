# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Small partitions that follow each other, read as one: sums cost something each."""

from dataclasses import replace
from itertools import groupby

from skope_ope.logs.lazy._part_columns import logs_of_table
from skope_ope.logs.lazy._partitions import STRETCH, PartReader


def read_together(partitions):
    """Read partitions in turn, small ones that follow each other as one."""
    with PartReader() as reader:
        for some in _runs(partitions):
            joined = _joined(some, reader) if len(some) > 1 else None
            if joined is None:
                for one in some:
                    yield (one,), one.logs(reader)
            else:
                yield some, joined


def _runs(partitions):
    """Yield tuples of partitions that make no more than the rounds of a large one."""
    run, size = [], 0
    for one in partitions:
        n = one.n_rounds
        known = n is not None and one.start is not None
        follows = run and known and one.start == run[0].start + size
        if run and not (follows and size + n <= STRETCH):
            yield tuple(run)
            run, size = [], 0
        run.append(one)
        size = size + n if known else STRETCH
    if run:
        yield tuple(run)


def _joined(some, reader):
    """Return the rounds of several partitions, None where one of them is at fault."""
    import pyarrow

    try:
        tables = [one.kept(reader)[0] for one in _decoded_at_once(some)]
        table = pyarrow.concat_tables(tables)
        first = some[0]
        if not table:
            return None
        return logs_of_table(first.reading, table, first.start, partitions=some)
    except Exception:  # read one by one, it is told with its place
        return None


def _decoded_at_once(some):
    """Yield partitions in which whole row groups of a file are one: copies cost."""
    for file, found in groupby(some, lambda one: one.part.file_of_whole):
        if file is None:
            yield from found
        else:
            first, *others = found
            part = first.part.with_others([one.part for one in others])
            yield replace(first, part=part)

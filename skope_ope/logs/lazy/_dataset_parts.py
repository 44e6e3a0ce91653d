# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Partitions of a Dataset of pyarrow."""

import os
from dataclasses import dataclass, replace

from skope_ope.logs.lazy._log_files import LogFile, refuse_twice
from skope_ope.logs.lazy._parquet_parts import Scanned, scan_parquet, stretches


@dataclass(frozen=True)
class FragmentPart:
    """Where the rows of a partition lie in a file of a Dataset."""

    fragment: object  # the file
    schema: object  # of the whole Dataset
    key: str  # see `ParquetPart`
    name: str  # see `ParquetPart`
    rows: tuple  # which rows of the file
    of: tuple  # rows of the file, and 1
    constants: dict  # values of the columns that the partitioning tells
    file_of_whole = None  # files are read one by one

    @property
    def n_rounds(self):
        """Number of rows."""
        return self.rows[1] - self.rows[0]

    @property
    def first_row(self):
        """Rows of the file before them."""
        return self.rows[0]

    @property
    def place(self):
        """What tells this part from all others."""
        return self.key, "file", self.rows[0]

    def __str__(self):
        if self.rows == (0, self.of[0]):
            return self.name
        return f"{self.name}, rows {self.rows[0]:,} to {self.rows[1] - 1:,}"

    def where(self, row):
        """Return what messages call a row of the part."""
        return f"row {self.first_row + row}"

    def up_to(self, n_rows):
        """Return the part of the first rows of this one, at most so many."""
        low, high = self.rows
        return replace(self, rows=(low, min(low + n_rows, high)))

    def opened(self, reading):
        """Return the file, which opens itself."""
        return self.fragment

    def batches(self, file, names, reading, n_rows):
        """Yield the rows of the whole file in record batches."""
        yield from file.to_batches(
            schema=self.schema,
            columns=names,
            batch_size=n_rows,
            batch_readahead=1,
            fragment_readahead=1,
            use_threads=False,
        )


def scan_dataset(dataset):
    """Return what a Dataset of pyarrow holds."""
    from pyarrow import ArrowException
    from pyarrow import dataset as datasets

    try:
        fragments = list(dataset.get_fragments())
    except (ArrowException, ValueError) as error:
        raise ValueError(
            f"the files of the Dataset cannot be listed: {error}. Scan the Dataset "
            "itself, and filter its rows: scan_logs(dataset, ...).filter(expression)."
        ) from error
    if not fragments:
        raise ValueError("the Dataset has no file.")
    in_memory = [one for one in fragments if not hasattr(one, "path")]
    if in_memory:
        raise TypeError(
            "the Dataset is in memory already: BanditLogs.from_frame takes "
            "dataset.to_table()."
        )
    files = [_file(fragment) for fragment in fragments]
    refuse_twice(files)
    schema = dataset.schema
    said = [datasets.get_partition_keys(one.partition_expression) for one in fragments]
    types = {name: schema.field(name).type for name in said[0]}
    if all(isinstance(one, datasets.ParquetFileFragment) for one in fragments):
        groups = [[group.id for group in one.row_groups] for one in fragments]
        scanned = scan_parquet(files, said, groups)
        return Scanned(scanned.parts, [("the Dataset", schema)], types)
    parts = []
    for fragment, file, constants in zip(fragments, files, said, strict=True):
        n_rows = fragment.count_rows()
        parts += [
            FragmentPart(
                fragment, schema, file.key, file.name, rows, (n_rows, 1), constants
            )
            for rows in stretches(n_rows)
        ]
    return Scanned(parts, [("the Dataset", schema)], types)


def _file(fragment):
    from pyarrow.fs import LocalFileSystem

    path, system = fragment.path, fragment.filesystem
    if isinstance(system, LocalFileSystem):
        key = os.path.realpath(path)
        return LogFile(path, key, os.path.basename(path), {})
    return LogFile(path, f"{system.type_name}://{path}", path, {}, system)

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What the footers of parquet files say: row groups, and types of columns."""

from concurrent.futures import ThreadPoolExecutor
from copy import copy
from hashlib import sha256
from itertools import pairwise
from types import MappingProxyType

from skope_ope._meant import meant
from skope_ope.logs._contexts import COLUMNS_LISTED
from skope_ope.logs.lazy._column_types import common_type, label_kind
from skope_ope.logs.lazy._log_files import folder_columns, import_parquet
from skope_ope.logs.lazy._partitions import STRETCH, ParquetPart

READERS = 8  # threads that read footers, most of whose time is spent waiting


class Scanned:
    """Files of a log, of which no row has been read."""

    def __init__(self, parts, schemas, constants):
        self.parts = tuple(parts)
        self._schemas, self._constants = schemas, constants
        self._kept = None  # all

    frame = None
    passed = MappingProxyType({})  # files that were passed over, and why

    def origin(self):
        """Token of the files and their rows, the same in all processes."""
        places = [(*part.place, part.n_rounds) for part in self.parts]
        return sha256(repr(places).encode()).hexdigest()[:40]

    def places(self):
        """Return index, rows before it and part of every part that is kept."""
        start, found = 0, []
        for index, part in enumerate(self.parts):
            if self._kept is None or self._kept[index]:
                found.append((index, start, part))
            start += part.n_rounds
        return found

    def only(self, keeps):
        """Return the parts whose folders tell what is to be kept."""
        out = copy(self)
        told = {}
        for part in self.parts:
            key = tuple(part.constants.items())
            if key not in told:
                told[key] = keeps(part.constants)
        kept = [told[tuple(part.constants.items())] for part in self.parts]
        mine = kept if self._kept is None else self._kept
        out._kept = [a and b for a, b in zip(kept, mine, strict=True)]
        return out

    @property
    def folder_columns(self):
        """Names of the columns that folders tell."""
        return list(self._constants)

    def one_row(self, said):
        """Return a table with one row of the columns that folders tell."""
        import pyarrow

        return pyarrow.table(
            {
                name: pyarrow.array([said[name]], t)
                for name, t in self._constants.items()
            }
        )

    def empty_table(self):
        """Return a table of all columns without rows."""
        import pyarrow

        schema = self._schemas[0][1]
        fields = [f for f in schema if f.name not in self._constants]
        fields += [pyarrow.field(name, t) for name, t in self._constants.items()]
        return pyarrow.schema(fields).empty_table()

    @property
    def columns(self):
        """Names of all columns."""
        stored = [n for n in self._schemas[0][1].names if n not in self._constants]
        return [*stored, *self._constants]

    def label_kind(self, name, types):
        """Return the kind of the labels in a column, whose type is among these."""
        return label_kind(types.get(name))

    def types(self, roles):
        """Return the type that every column has in all files."""
        types = dict(self._constants)
        for name, role in roles.items():
            if name in types:
                continue
            found = [(file, self._type(file, s, name)) for file, s in self._schemas]
            types[name] = common_type(name, role, found)
        return {name: types[name] for name in roles}

    def _type(self, file, schema, name):
        places = schema.get_all_field_indices(name)
        if len(places) == 1:
            return schema.field(places[0]).type
        if places:
            raise ValueError(f"{file} has {len(places)} columns called {name!r}.")
        first = self._schemas[0][0]
        has = ", ".join(map(repr, schema.names[:COLUMNS_LISTED]))
        if file == first:
            hint = meant(name, schema.names)
            raise ValueError(f"column {name!r} is not in {file}; it has {has}.{hint}")
        raise ValueError(
            f"{file} has no column {name!r}, which {first} has; it has {has}. Scan "
            "only files that have the same columns."
        )


def scan_parquet(files, constants=None, row_groups=None):
    """Return what the footers of parquet files say."""
    import_parquet()
    constants = folder_columns(files) if constants is None else constants
    with ThreadPoolExecutor(READERS) as threads:
        footers = list(threads.map(_footer, files))
    parts, schemas, first = [], [], None
    for number, (file, (metadata, sizes), said) in enumerate(
        zip(files, footers, constants, strict=True)
    ):
        if first is None or not metadata.schema.equals(first):
            first = metadata.schema if first is None else first
            schema = metadata.schema.to_arrow_schema()
            if not any(schema.equals(other) for _, other in schemas):
                schemas.append((file.name, schema))
        chosen = range(len(sizes)) if row_groups is None else row_groups[number]
        for row_group in chosen:
            size = sizes[row_group]
            parts += [
                ParquetPart(
                    file.path,
                    file.key,
                    file.name,
                    row_group,
                    rows,
                    (size, len(sizes)),
                    said,
                    file.file_system,
                )
                for rows in stretches(size)
            ]
    return Scanned(parts, schemas, constant_types(constants))


def _footer(file):
    from pyarrow.parquet import read_metadata

    try:
        metadata = read_metadata(file.path, filesystem=file.file_system)
    except Exception as error:  # pyarrow raises many kinds where bytes are wrong
        raise ValueError(f"{file.path} cannot be read as parquet: {error}") from error
    sizes = [
        metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)
    ]
    return metadata, sizes


def stretches(n_rows):
    """Return the first and the last row plus one of every partition of a row group."""
    n_parts = max(round(n_rows / STRETCH), 1)
    bounds = [n_rows * k // n_parts for k in range(n_parts + 1)]
    return list(pairwise(bounds))


def constant_types(constants):
    """Return the types of the columns that the names of folders tell."""
    import pyarrow

    return {
        name: pyarrow.int64()
        if all(isinstance(said[name], (int, type(None))) for said in constants)
        else pyarrow.string()
        for name in constants[0]
    }

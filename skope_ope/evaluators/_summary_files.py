# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Files of summaries: a header and arrays, in numpy's or Arrow's format, no pickle."""

import io
import json
import os
import zlib
from pathlib import Path
from uuid import uuid4

import numpy as np

SUFFIXES = (".npz", ".arrow")
KIND = "skope_ope summary"


def check_suffix(path):
    """Return how the file is written, ".npz" or ".arrow"; raise for another ending."""
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(
            f"a summary is kept in a file that ends with .npz or .arrow, got {path!s}."
        )
    return suffix


def write_file(path, header, tables):
    """Write a header and arrays, so that the file is whole whenever it is there.

    Parameters
    ----------
    path : str or path
        With one of the known endings.
    header : dict
        As JSON takes it.
    tables : dict of ndarray
        By name; none of objects.
    """
    path, suffix = Path(path), check_suffix(path)
    for name, array in tables.items():
        if np.asarray(array).dtype.kind == "O":
            raise TypeError(f"{name} holds objects, which no file without code does.")
    text = json.dumps({"kind": KIND, **header}, default=_plain)
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"there is no folder {path.parent!s} for the summary {path.name}. Make it "
            "first."
        )
    beside = path.with_name(f".{path.name}.{uuid4().hex[:8]}")
    try:
        WRITERS[suffix](beside, text, tables)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def read_file(path, version):
    """Return the header and the arrays of a file.

    Parameters
    ----------
    path : str or path
        The file.
    version : int
        The format that is understood.
    """
    path, suffix = Path(path), check_suffix(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path!s}.")
    try:
        text, tables = READERS[suffix](path)
        header = json.loads(text)
        known = header.get("kind") == KIND
    except ImportError:
        raise
    except Exception as error:  # whatever a reader makes of bytes that are not its own
        raise ValueError(
            f"{path!s} is damaged, or no file of ValueSummary.save ({error}). "
            "Summarize the parts again, or restore the file."
        ) from error
    if not known:
        raise ValueError(f"{path!s} is no file of ValueSummary.save.")
    found = header.get("format")
    if found != version:
        raise ValueError(
            f"{path!s} has format {found}, and this version of skope_ope reads "
            f"{version}: load it with the version that wrote it, or summarize the "
            "parts again."
        )
    return header, tables


def _write_npz(path, text, tables):
    with path.open("wb") as file:  # numpy would add an ending to a name
        np.savez_compressed(file, **{"summary": np.array(text)}, **tables)


def _read_npz(path):
    with path.open("rb") as opened:
        if opened.read(2) != b"PK":  # numpy would take it for a pickle, and say so
            raise ValueError("it does not begin as an npz file does")
        opened.seek(0)
        with np.load(opened, allow_pickle=False) as file:
            tables = {name: file[name] for name in file.files}
    return str(tables.pop("summary")), tables


def _write_arrow(path, text, tables):
    pa = _pyarrow()
    names = list(tables)
    arrays = [_bytes_of(np.asarray(tables[name])) for name in names]
    schema = pa.schema([("name", pa.string()), ("array", pa.large_binary())])
    checksum = str(_checksum(text, names, arrays))  # other formats have their own
    schema = schema.with_metadata({"header": text, "checksum": checksum})
    table = pa.Table.from_arrays(
        [pa.array(names, pa.string()), pa.array(arrays, pa.large_binary())],
        schema=schema,
    )
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with (
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_file(sink, schema, options=options) as file,
    ):
        file.write_table(table)


def _read_arrow(path):
    pa = _pyarrow()
    with pa.OSFile(str(path)) as source, pa.ipc.open_file(source) as file:
        table = file.read_all()
    table.validate(full=True)  # a wrong offset would end the process
    names, arrays = (table.column(k).to_pylist() for k in ("name", "array"))
    metadata = table.schema.metadata
    text = metadata[b"header"].decode()
    if int(metadata[b"checksum"]) != _checksum(text, names, arrays):
        raise ValueError("its checksum is wrong")
    tables = {n: _array_of(a) for n, a in zip(names, arrays, strict=True)}
    return text, tables


WRITERS = {".npz": _write_npz, ".arrow": _write_arrow}
READERS = {".npz": _read_npz, ".arrow": _read_arrow}


def _bytes_of(array):
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _array_of(content):
    return np.load(io.BytesIO(content), allow_pickle=False)


def _checksum(text, names, arrays):
    """Return a number that changes with any byte of a file."""
    found = zlib.crc32(text.encode())
    for name, array in zip(names, arrays, strict=True):
        found = zlib.crc32(array, zlib.crc32(name.encode(), found))
    return found


def _plain(value):
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be written.")


def _pyarrow():
    try:
        import pyarrow as pa
        import pyarrow.ipc
    except ImportError as error:
        raise ImportError(
            "a file that ends with .arrow needs pyarrow: pip install "
            "'skope-ope[frames]'; one that ends with .npz does not."
        ) from error
    return pa

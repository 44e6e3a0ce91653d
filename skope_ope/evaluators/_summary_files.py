# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Files of summaries: a header and arrays, in numpy's or Arrow's format, no pickle."""

import io
import json
import os
from pathlib import Path
from uuid import uuid4
from zipfile import ZipFile

import numpy as np

from skope_ope.logs._labels import STORED_KINDS
from skope_ope.logs._text_files import check_unpacked_size, read_members

SUFFIXES = (".npz", ".arrow")
KIND = "skope_ope summary"
METADATA = "summary"  # of an Arrow file, by this name: an npz file


def check_suffix(path):
    """Return how the file is written, ".npz" or ".arrow"; raise for another ending."""
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(
            f"a summary is kept in a file that ends with .npz or .arrow, got {path!s}."
        )
    return suffix


def write_file(path, header, tables):
    """Write a header and arrays, so that the file is whole whenever it is there."""
    path, suffix = Path(path), check_suffix(path)
    for name, array in tables.items():
        if np.asarray(array).dtype.kind == "O":
            raise TypeError(f"{name} holds objects, which no file without code does.")
    known = {"kind": KIND, "arrays": list(tables)}
    text = json.dumps({**known, **header}, default=_plain)
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"there is no folder {path.parent!s} for the summary {path.name}. Make it "
            "first."
        )
    packed = io.BytesIO()
    np.savez_compressed(packed, summary=np.array(text), **tables)
    with ZipFile(packed) as opened:
        check_unpacked_size(opened)  # what is written can be read
    beside = path.with_name(f".{path.name}.{uuid4().hex[:8]}")
    try:
        WRITERS[suffix](beside, packed.getvalue())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def read_file(path, version):
    """Return the header and the arrays of a file."""
    path, suffix = Path(path), check_suffix(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path!s}.")
    try:
        members = read_members(io.BytesIO(READERS[suffix](path)))
        tables = {
            name.removesuffix(".npy"): _array_of(members.pop(name))
            for name in list(members)
        }
        header = json.loads(str(tables.pop("summary")))
        known = header.get("kind") == KIND
    except ImportError:
        raise
    except Exception as error:  # whatever a reader makes of bytes that are not its own
        raise damaged(path, error) from error
    if not known:
        raise ValueError(f"{path!s} is no file of ValueSummary.save.")
    found = header.get("format")
    if found != version:
        raise ValueError(
            f"{path!s} has format {found}, and this version of skope_ope reads "
            f"{version}: load it with the version that wrote it, or summarize the "
            "parts again."
        )
    if header.pop("arrays", None) != list(tables):
        raise damaged(path, "it holds other arrays than it names")
    return header, tables


def damaged(path, why):
    """Return the error about a file that cannot be read."""
    return ValueError(
        f"{path!s} is damaged, or no file of ValueSummary.save ({why}). Summarize the "
        "parts again, or restore the file."
    )


def _write_arrow(path, packed):
    pa = _pyarrow()
    schema = pa.schema([]).with_metadata({METADATA: packed})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, schema):
        pass  # of columns Arrow would unpack whatever a file says


def _read_arrow(path):
    stream = _pyarrow().ipc.open_stream(path.read_bytes())
    return stream.schema.metadata[METADATA.encode()]


WRITERS = {".npz": Path.write_bytes, ".arrow": _write_arrow}
READERS = {".npz": Path.read_bytes, ".arrow": _read_arrow}


def _array_of(content):
    """Return an array of numbers or texts, no larger than the bytes that hold it."""
    # An empty one may name any number of rows: who takes it compares them with others.
    array = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
    dtype = array.dtype
    kinds = {dtype[name].kind for name in dtype.names or ()} or {dtype.kind}
    if not kinds.issubset(STORED_KINDS) or array.size > len(content):
        raise ValueError(f"an array of shape {array.shape} holds {dtype}")
    return array


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

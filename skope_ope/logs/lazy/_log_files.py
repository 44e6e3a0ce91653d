# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The files of a lazy log: paths, folders, globs, stores, and what folders tell."""

import glob
import os
import posixpath
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from urllib.parse import unquote

from skope_ope._texts import meant

FORMATS = {"parquet": (".parquet", ".pq", ".parq"), "csv": (".csv",)}
COMPRESSED = (".gz", ".zip", ".bz2", ".xz", ".zst")
JSON_LINES = (
    "JSON lines are read into memory: read_jsonl(path, ...). For logs that are larger, "
    "write them as parquet."
)
ABSENT = "__HIVE_DEFAULT_PARTITION__"  # what Hive writes in place of a missing value


@dataclass(frozen=True)
class LogFile:
    """A file of a log."""

    path: str  # path in its file system
    key: str  # the same whatever the spelling of the path
    name: str  # what messages call it: the end of the path
    folders: dict  # what the folders ``key=value`` on its path say, as texts
    file_system: object = None  # A file system of pyarrow; `None`: that of the machine


def find_files(source, format=None):
    """Return the files of a log, in the order of their names."""
    if format == "jsonl":
        raise ValueError(f"format='jsonl' cannot be scanned. {JSON_LINES}")
    if format not in (None, *FORMATS):
        hint = meant(format, FORMATS)
        raise ValueError(
            f"format must be one of {list(FORMATS)}, got {format!r}.{hint}"
        )
    files, passed = [], {}
    for one in source:
        if not isinstance(one, (str, os.PathLike)):
            raise TypeError(
                f"a list of files must hold paths, got {type(one).__name__} ({one!r})."
            )
        files += _expand(os.fspath(one), format, passed)
    if not files:
        raise ValueError("the list of files is empty.")
    refuse_twice(files)
    format = format or _common_format(files)
    for file in files:
        lower = file.path.lower()
        inner = unpacked(lower)
        if inner != lower and (format == "csv" or inner.endswith(_endings(None))):
            raise ValueError(
                f"{file.path} is compressed, so it cannot be read in parts. Decompress "
                "it, or write the log as parquet, which compresses each part."
            )
    return files, format, passed


def _expand(path, format, passed):
    """Return the files of a path, folder or glob."""
    if "://" in path:
        return _remote(path, format, passed)
    path = os.path.expanduser(path)
    if os.path.isdir(path):
        found = _files_below(path, format, passed)
        if not found:
            ends, others = ", ".join(_endings(None)), named_over(passed)
            raise ValueError(
                f"the folder {path} holds no log file ({ends}), nor do its folders."
                + (f" Passed over: {others}." if others else "")
            )
        return [_local(one, os.path.relpath(one, path)) for one in found]
    if os.path.exists(path):
        return [_local(path, os.path.basename(path))]
    if not glob.has_magic(path):
        raise FileNotFoundError(f"there is no file or folder {path}.")
    found = sorted(glob.glob(path, recursive=True))
    _check_readable(os.path.dirname(path))
    if not found:
        raise FileNotFoundError(
            f"no file matches {path}. The folder it is looked up from is {os.getcwd()}."
        )
    files = []
    for one in found:
        inner = _files_below(one, format, passed) if os.path.isdir(one) else [one]
        files += [_local(file, file) for file in inner]
    if not files:
        raise ValueError(f"what matches {path} are folders without a log file.")
    return files


def import_parquet():
    """Raise where pyarrow is missing."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "parquet files need pyarrow: pip install 'skope-ope[lazy]'."
        ) from error


def _remote(uri, format, passed):
    """Return the files of a URI."""
    import_parquet()
    if uri.startswith("file://"):
        return _expand(unquote(uri.removeprefix("file://")), format, passed)
    system, paths, options = remote_paths(uri, partial(why_not, format), passed)
    scheme = uri.partition("://")[0]
    return [
        LogFile(path, f"{scheme}://{path}{options}", path, folders_of(path), system)
        for path in paths
    ]


def _endings(format):
    return FORMATS[format] if format else sum(FORMATS.values(), ())


def _files_below(folder, format, passed):
    found = []
    for root, folders, names in os.walk(folder, onerror=_unreadable):
        for name in sorted(folders):
            path, why = os.path.join(root, name), hidden(name)
            if why is None and os.path.islink(path):
                why = "a link to a folder: list it, too"
            if why is not None:
                folders.remove(name)
                passed[path] = why
        for name in names:
            path, why = os.path.join(root, name), why_not(format, name)
            if why is None:
                found.append(path)
            else:
                passed[path] = why
    return sorted(found)


def _check_readable(pattern):
    """Raise where a folder that a glob looks into cannot be read: it says nothing."""
    while glob.has_magic(pattern):
        for folder in filter(os.path.isdir, glob.glob(pattern, recursive=True)):
            next(os.walk(folder, onerror=_unreadable))
        pattern = os.path.dirname(pattern)


def _unreadable(error):
    raise type(error)(
        f"{error.filename} cannot be read ({error.strerror}), and its rounds would be "
        "missing. Make it readable, or list the files to scan."
    ) from error


def why_not(format, path):
    """Return why a file below a folder does not belong to its log; None if it does."""
    whys = filter(None, map(hidden, path.split("/")))
    if unpacked(path.lower()).endswith(_endings(format)):
        return next(whys, None)
    return next(whys, "no ending of a log file")


def hidden(name):
    """Return why other readers skip a name, too; None if they do not."""
    return "begins with _ or a dot" if name.startswith((".", "_")) else None


def named_over(passed, shown=4):
    """Return what was passed over and why, in one line."""
    names = [f"{os.path.basename(path)} ({why})" for path, why in passed.items()]
    more = f", and {len(names) - shown:,} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more


def unpacked(name):
    """Return the name that a compressed file would have without; others as is."""
    # It belongs to the log of its folder, so it must not be passed over in silence.
    base, end = os.path.splitext(name)
    return base if end in COMPRESSED else name


def _local(path, name):
    key = os.path.realpath(path)
    return LogFile(os.fspath(path), key, name.replace(os.sep, "/"), folders_of(path))


def folders_of(path):
    """Return what the folders ``key=value`` of a path say."""
    said = {}
    for folder in path.replace(os.sep, "/").split("/")[:-1]:
        key, is_said, value = folder.partition("=")
        if is_said and key:
            said[key] = unquote(value)
    return said


def refuse_twice(files):
    """Raise where two of the files are one."""
    seen = {}
    for file in files:
        if file.key in seen:
            other = seen[file.key]
            spelled = "" if other == file.path else f" (also as {other})"
            raise ValueError(
                f"{file.path} is listed twice{spelled}: its rounds would count twice. "
                "List every file once."
            )
        seen[file.key] = file.path


def _common_format(files):
    kinds = {}
    for file in files:
        lower = unpacked(file.path.partition("?")[0].lower())  # of a web address
        for kind, ends in FORMATS.items():
            if lower.endswith(ends):
                kinds.setdefault(kind, file)
                break
        else:
            if lower.endswith((".jsonl", ".ndjson")):
                raise ValueError(f"{file.path} cannot be scanned. {JSON_LINES}")
            kinds.setdefault("parquet", file)
    if len(kinds) > 1:
        paths = " and ".join(file.path for file in kinds.values())
        raise ValueError(f"the files have several formats ({paths}). Scan them apart.")
    return next(iter(kinds))


def folder_columns(files):
    """Return the columns that folders tell, a dict by file with values of one type."""
    shared = set.intersection(*(set(file.folders) for file in files))
    names = [name for name in files[0].folders if name in shared]
    whole = {
        name: all(_is_whole(file.folders[name]) for file in files) for name in names
    }

    def value(name, text):
        if text == ABSENT:
            return None
        return int(text) if whole[name] else text

    return [{name: value(name, file.folders[name]) for name in names} for file in files]


def _is_whole(text):
    digits = text.removeprefix("-")
    plain = digits.isascii() and digits.isdigit() and len(digits) < 19
    return text == ABSENT or (plain and (digits == "0" or digits[0] != "0"))


PACKAGES = {
    "s3": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "hdfs": "Hadoop's libhdfs for pyarrow, and the variables HADOOP_HOME and CLASSPATH",
    "abfs": "adlfs",
    "abfss": "adlfs",
    "az": "adlfs",
    "hf": "huggingface_hub",
    "http": "fsspec with aiohttp",
    "https": "fsspec with aiohttp",
}
URI_OPTIONS = re.compile(r"\?\w+=[^*?\[]*(?<!parquet)(?<!csv)$")  # other ? are globs
PATIENCE = 60  # seconds; pyarrow would try a Google store for 15 minutes


def remote_paths(uri, why_not, passed):
    """Return the file system and the paths of the files of a URI."""
    from pyarrow import fs

    found = URI_OPTIONS.search(uri)
    options = found[0] if found else ""
    uri = uri.removesuffix(options)
    base, is_glob = uri, any(mark in uri for mark in "*?[")
    while any(mark in base for mark in "*?["):
        base = posixpath.dirname(base)
    system, path = file_system(base + options)
    try:
        info = system.get_file_info(path)
        if info.type == fs.FileType.NotFound:
            raise FileNotFoundError(f"there is no file or folder {base}.")
        if info.is_file:
            return system, [path], options
        found = system.get_file_info(fs.FileSelector(path, recursive=True))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise OSError(f"{uri} cannot be reached: {error}") from error
    paths = [one.path for one in found if one.is_file]
    root = path.rstrip("/")
    inside = {one: one[len(root) :].strip("/") for one in paths}
    if is_glob:
        pattern = uri[len(base) :].strip("/")
        paths = [p for p in paths if _matches(inside[p], pattern)]
    else:
        whys = {path: why_not(inside[path]) for path in paths}
        passed |= {path: why for path, why in whys.items() if why is not None}
        paths = [path for path in paths if whys[path] is None]
    if not paths:
        raise FileNotFoundError(f"{uri} holds no log file.")
    return system, sorted(paths), options


def _matches(path, pattern):
    """Tell whether a path, or a folder above it, matches a glob."""
    parts, wanted = path.split("/"), pattern.split("/")
    if "**" in wanted:
        return fnmatchcase(path, pattern.replace("**/", "*"))
    return len(parts) >= len(wanted) and all(map(fnmatchcase, parts, wanted))


def file_system(uri):
    """Return the file system of a URI, and the path in it."""
    from pyarrow import ArrowException, fs

    scheme = uri.partition("://")[0]
    limit = f"retry_limit_seconds={PATIENCE}" if scheme in ("gs", "gcs") else ""
    if limit:
        limit = ("&" if URI_OPTIONS.search(uri) else "?") + limit
    try:
        return fs.FileSystem.from_uri(uri + limit)
    except (ArrowException, RuntimeError, OSError, ImportError) as error:
        own = error
    try:
        from fsspec.core import url_to_fs

        system, path = url_to_fs(uri)
    except (ImportError, ValueError, OSError) as error:
        if isinstance(own, OSError) and scheme != "hdfs":  # that lacks its library
            raise OSError(f"{uri} cannot be reached: {_first_line(own)}") from own
        needs = PACKAGES.get(scheme, "a package that gives fsspec this scheme")
        raise ImportError(
            f"{uri} cannot be opened: pyarrow says {_first_line(own)!r}, fsspec says "
            f"{_first_line(error)!r}. {scheme}:// needs {needs}."
        ) from error
    return fs.PyFileSystem(fs.FSSpecHandler(system)), path


def _first_line(error):
    return (str(error).strip() or type(error).__name__).splitlines()[0]

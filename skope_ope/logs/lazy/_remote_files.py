# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Files that lie in stores: s3://, gs://, hdfs:// and what fsspec knows."""

import posixpath
import re
from fnmatch import fnmatchcase

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
OPTIONS = re.compile(r"\?\w+=[^*?\[]*(?<!parquet)(?<!csv)$")  # other ? are globs
PATIENCE = 60  # seconds; pyarrow would try a Google store for 15 minutes


def remote_paths(uri, why_not, passed):
    """Return the file system and the paths of the files of a URI."""
    from pyarrow import fs

    found = OPTIONS.search(uri)
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
        limit = ("&" if OPTIONS.search(uri) else "?") + limit
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

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Writing a page: all of it or nothing."""

import os
import secrets
from contextlib import suppress
from pathlib import Path


def checked_path(path):
    """Return where a page shall be written, or raise if that is not possible."""
    # Nothing is left behind, and nothing that exists is changed. A link stays a link:
    # the file that it leads to is written.
    if path is None:
        return None
    if not isinstance(path, (str, os.PathLike)) or not str(path):
        raise TypeError(
            "path must be the name of a file, as 'report.html', or None to write "
            f"nothing, got {path!r}."
        )
    target = Path(path).resolve()
    if target.is_dir():
        raise IsADirectoryError(
            f"path {str(path)!r} is a folder: name a file in it, as "
            f"{os.path.join(path, 'report.html')!r}."
        )
    if target.exists() and not (target.is_file() and os.access(target, os.W_OK)):
        raise PermissionError(
            f"path {str(path)!r} is write-protected or no ordinary file. Choose "
            "another name."
        )
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"the folder of path {str(path)!r} does not exist: make "
            f"{str(target.parent)!r} first, or choose another."
        )
    try:
        trial = _beside(target)
        os.close(_created(trial))
        trial.unlink()
    except OSError as error:
        raise PermissionError(
            f"path {str(path)!r} cannot be written: {error.strerror}. Choose a folder "
            "in which you may make files."
        ) from error
    return target


def write_whole(target, text):
    """Write a text as UTF-8: who looks sees the old file or all of the new one."""
    beside = _beside(target)
    try:
        with open(_created(beside), "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            beside.chmod(target.stat().st_mode & 0o7777)
        os.replace(beside, target)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise


def _beside(target):
    """Return the name of a file in the same folder that nobody else has."""
    return target.with_name(f".skope-ope-{secrets.token_hex(8)}.tmp")


def _created(path):
    """Make a file with the permissions that new files have, and open it."""
    return os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)

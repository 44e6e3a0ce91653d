# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Members of zip files, whose sizes are checked before anything is unpacked."""

from zipfile import ZipFile

MOST_UNPACKED = 2**30  # bytes: a few kB of zip may hold any number of them


def check_unpacked_size(opened):
    """Raise where the members of an opened zip file say that they have more bytes."""
    n_bytes = sum(one.file_size for one in opened.infolist())
    if n_bytes > MOST_UNPACKED:
        raise ValueError(
            f"it has {n_bytes:,} bytes, and at most {MOST_UNPACKED:,} are unpacked"
        )


def read_members(file):
    """Return the bytes of the members of a zip by name, at most `MOST_UNPACKED`."""
    with ZipFile(file) as opened:
        check_unpacked_size(opened)
        found = {}
        for one in opened.infolist():
            with opened.open(one) as member:  # no more than it says, where that lies
                found[one.filename] = member.read(one.file_size)
    return found

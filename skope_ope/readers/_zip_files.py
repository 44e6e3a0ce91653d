# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Members of zip files, whose sizes are checked before anything is unpacked."""

from zipfile import ZipFile

MOST_BYTES = 2**30  # bytes that a file may unpack to: a few kB of zip may be any number


def check_unpacked_size(opened):
    """Raise where the members of an opened zip file say that they have more bytes."""
    n_bytes = sum(one.file_size for one in opened.infolist())
    if n_bytes > MOST_BYTES:
        raise ValueError(
            f"it has {n_bytes:,} bytes, and at most {MOST_BYTES:,} are unpacked"
        )


def read_members(file):
    """Return the bytes of the members of a zip file by name, `MOST_BYTES` at most."""
    with ZipFile(file) as opened:
        check_unpacked_size(opened)
        found = {}
        for one in opened.infolist():
            with opened.open(one) as member:  # no more than it says, where that lies
                found[one.filename] = member.read(one.file_size)
    return found

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Members of zip files, whose sizes are checked before anything is unpacked."""

from zipfile import ZipFile

MOST = 2**30  # bytes that a file may unpack to: a few kB of zip may be any number


def read_members(file):
    """Yield the name and the bytes of each member of a zip file.

    Parameters
    ----------
    file : path or file object
        The zip file.

    Raises
    ------
    ValueError
        If the members have more than `MOST` bytes, before the first is read.
    """
    with ZipFile(file) as opened:
        members = opened.infolist()
        check_size(sum(one.file_size for one in members))
        for one in members:
            with opened.open(one) as member:  # a size that is too small bounds, too
                yield one.filename, member.read(one.file_size)


def check_size(n_bytes):
    """Raise where a file says that it unpacks to more than `MOST` bytes."""
    if n_bytes > MOST:
        raise ValueError(
            f"it says that it unpacks to {n_bytes:,} bytes, and at most {MOST:,} are "
            "read"
        )

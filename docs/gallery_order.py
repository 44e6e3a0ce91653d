# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The order of the examples of a folder."""

from pathlib import Path


class ByHeader:
    """Sort examples as the header of their folder links them, others by name.

    Parameters
    ----------
    folder : str
        Folder of the examples.
    """

    def __init__(self, folder):
        self.header = (Path(folder) / "GALLERY_HEADER.rst").read_text()

    def __call__(self, name):
        """Return what to sort the name of a file by."""
        place = self.header.find(f"_{name}>")
        return place if place >= 0 else len(self.header), name

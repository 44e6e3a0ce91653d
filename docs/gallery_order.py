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
        # sphinx-gallery also makes one without a folder, to see that it can
        self.path = Path(folder) / "GALLERY_HEADER.rst"

    def __call__(self, name):
        """Return what to sort the name of a file by."""
        header = self.path.read_text()
        place = header.find(f"_{name}>")
        return place if place >= 0 else len(header), name

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Frames of the libraries that are taken, each where it is installed."""

import pytest

LIBRARIES = ["pandas", "polars", "pyarrow"]
every_library = pytest.mark.parametrize("library", LIBRARIES)


def frame_of(library, columns):
    """A frame of pandas or polars, or a table of pyarrow, of named columns."""
    module = pytest.importorskip(library)
    return (module.table if library == "pyarrow" else module.DataFrame)(columns)

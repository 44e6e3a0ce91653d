# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pytest

from skope_ope.readers import read_vw


@pytest.fixture
def read(tmp_path):
    """`read_vw` of a file that holds a text."""

    def read(text, **options):
        path = tmp_path / "log.vw"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_vw(path, **options)

    return read

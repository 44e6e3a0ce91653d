# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pytest

KINDS = {
    "pandas": ("pandas", lambda lib, data: lib.DataFrame(data)),
    "nullable": ("pandas", lambda lib, data: lib.DataFrame(data).convert_dtypes()),
    "polars": ("polars", lambda lib, data: lib.DataFrame(data)),
    "pyarrow": ("pyarrow", lambda lib, data: lib.table(data)),
}


@pytest.fixture(params=KINDS)
def make_frame(request):
    """Function that makes a frame of one library from a dict of lists."""
    library, make = KINDS[request.param]
    module = pytest.importorskip(library)
    return lambda data: make(module, data)

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pytest


def pytest_collection_modifyitems(items):
    """Everything here starts workers or clusters."""
    for item in items:
        if "tests/engines/" in item.path.as_posix():
            item.add_marker(pytest.mark.engines)

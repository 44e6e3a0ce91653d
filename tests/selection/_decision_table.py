# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The table of the guide, as its pages are made from it."""

import importlib.util

from tests.packaging._tree import ROOT


def decision_table():
    path = ROOT / "docs" / "_decision.py"
    spec = importlib.util.spec_from_file_location("_decision", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TABLE = decision_table()

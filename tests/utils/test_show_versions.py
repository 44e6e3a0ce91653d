# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import platform
import sys
from importlib.metadata import Distribution, PackageNotFoundError

import numpy as np

import skope_ope
from skope_ope.utils import show_versions
from tests.packaging._tree import pyproject


def test_versions_of_what_is_installed(capsys):
    show_versions()
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert f"numpy: {np.__version__}" in lines
    assert f"skope-ope: {skope_ope.__version__}" in lines
    assert f"machine: {platform.platform()}" in lines
    assert any(one.startswith(f"python: {platform.python_version()}") for one in lines)
    needed = pyproject()["project"]["dependencies"]
    named = {line.split(":")[0] for line in lines}
    assert {name.split(">")[0] for name in needed} <= named


def test_what_is_missing_is_said(capsys, monkeypatch):
    def no_version(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(Distribution, "from_name", no_version)
    show_versions()
    output = capsys.readouterr().out
    assert "pandas: None" in output
    # run from a work tree, the package knows its own version
    assert f"skope-ope: {skope_ope.__version__}" in output


def test_nothing_is_imported_for_it(capsys, monkeypatch):
    show_versions()
    expected = capsys.readouterr().out
    for name in ("matplotlib", "pandas", "polars", "pyarrow", "skops"):
        monkeypatch.setitem(sys.modules, name, None)  # importing it would raise
    show_versions()
    assert capsys.readouterr().out == expected

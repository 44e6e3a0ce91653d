# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import platform
import sys
from importlib.metadata import PackageNotFoundError

import numpy as np

import skope_ope
from skope_ope.utils import _show_versions, show_versions
from tests.packaging._tree import pyproject


def test_versions_of_what_is_installed(capsys):
    show_versions()
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert f"numpy: {np.__version__}" in lines
    assert f"skope-ope: {skope_ope.__version__}" in lines
    assert f"machine: {platform.platform()}" in lines
    assert any(
        line.startswith(f"python: {platform.python_version()}") for line in lines
    )


def test_what_is_missing_is_said(capsys, monkeypatch):
    def no_version(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(_show_versions, "version", no_version)
    show_versions()
    output = capsys.readouterr().out
    assert "pandas: None" in output
    # run from a work tree, the package knows its own version
    assert f"skope-ope: {skope_ope.__version__}" in output


def test_all_dependencies_are_named():
    needed = pyproject()["project"]["dependencies"]
    assert {name.split(">")[0] for name in needed} <= set(_show_versions.SHOWN_PACKAGES)


def test_nothing_is_imported_for_it(capsys, monkeypatch):
    show_versions()
    expected = capsys.readouterr().out
    for name in ("matplotlib", "pandas", "polars", "pyarrow", "skops"):
        monkeypatch.setitem(sys.modules, name, None)  # importing it would raise
    show_versions()
    assert capsys.readouterr().out == expected

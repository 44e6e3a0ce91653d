# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What `utils` lists: classes, and versions of what is installed."""

import platform
import sys
from importlib.metadata import Distribution, PackageNotFoundError

import numpy as np

import skope_ope
from skope_ope import DoublyRobust, UniformPolicy
from skope_ope.base import BaseEvaluator, BasePolicy, BaseSlatePolicy, StaticEvaluator
from skope_ope.utils import (
    all_evaluators,
    all_policies,
    all_slate_policies,
    show_versions,
)
from tests.packaging._tree import public_objects, pyproject

# -- classes --------------------------------------------------------------------------
LISTS = (all_evaluators, all_policies, all_slate_policies)


def test_every_evaluator_and_policy_of_the_package_is_found():
    bases = (BaseEvaluator, BasePolicy, BaseSlatePolicy)
    for listed, base in zip(LISTS, bases, strict=True):
        public = {
            name
            for name in skope_ope.__all__
            if isinstance(getattr(skope_ope, name), type)
            and issubclass(getattr(skope_ope, name), base)
        }
        found = dict(listed())
        assert public <= set(found)
        assert all(name == cls.__name__ for name, cls in found.items())


def test_lists_are_sorted_and_hold_public_classes_only():
    public = {one for _, one in public_objects().values()}
    for listed in LISTS:
        names = [name for name, _ in listed()]
        assert names == sorted(set(names))
        assert not [name for name in names if name.startswith("Base")]
        assert "StaticEvaluator" not in names
        assert {cls for _, cls in listed()} <= public


def test_evaluators_are_no_policies_and_only_ours():
    evaluators, policies = dict(all_evaluators()), dict(all_policies())
    assert evaluators["DoublyRobust"] is DoublyRobust
    assert policies["UniformPolicy"] is UniformPolicy
    assert not set(evaluators) & set(policies)

    class Mine(StaticEvaluator):
        pass

    assert Mine not in dict(all_evaluators()).values()


# -- versions -------------------------------------------------------------------------
def test_versions_of_what_is_installed(capsys, monkeypatch):
    show_versions()
    expected = capsys.readouterr().out
    lines = [line.strip() for line in expected.splitlines()]
    assert f"numpy: {np.__version__}" in lines
    assert f"skope-ope: {skope_ope.__version__}" in lines
    assert f"machine: {platform.platform()}" in lines
    assert any(one.startswith(f"python: {platform.python_version()}") for one in lines)
    needed = pyproject()["project"]["dependencies"]
    named = {line.split(":")[0] for line in lines}
    assert {name.split(">")[0] for name in needed} <= named
    for name in ("matplotlib", "pandas", "polars", "pyarrow", "skops"):
        monkeypatch.setitem(sys.modules, name, None)  # importing it would raise
    show_versions()
    assert capsys.readouterr().out == expected

    def no_version(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(Distribution, "from_name", no_version)
    show_versions()
    output = capsys.readouterr().out
    assert "pandas: None" in output
    # run from a work tree, the package knows its own version
    assert f"skope-ope: {skope_ope.__version__}" in output

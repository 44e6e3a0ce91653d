# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The tutorials name files and objects that exist."""

import ast
import re

import pytest

import skope_ope
from skope_ope import base
from skope_ope.evaluators import multi_logger, scavenging, sequential, slate, static
from tests.packaging._tree import ROOT

TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.rst"))
INCLUDE = re.compile(r"literalinclude:: (\S+)\n((?:   :.*\n)*)")
NAMED = re.compile(r"``((?:skope_ope|docs|tests)/[\w./]+\.(?:py|rst))``")


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_what_a_tutorial_shows_exists(path):
    for name, options in INCLUDE.findall(path.read_text()):
        source = (path.parent / name).resolve().read_text()
        objects = {getattr(node, "name", None) for node in ast.parse(source).body}
        assert set(re.findall(r":pyobject: (\w+)", options)) <= objects, name
        for text in re.findall(r":(?:start-at|end-before): (.+)", options):
            assert text in source, name


def test_a_new_evaluator_touches_files_that_are_there():
    """The files of `DRos`, put in the place of the tutorial's `PowerIPS`."""
    text = (ROOT / "docs" / "tutorials" / "add_an_evaluator.rst").read_text()
    text = text[text.index("Bring it into the package") :]
    names = [name for name in NAMED.findall(text) if "ISSUE" not in name]
    assert len(names) == 8
    for name in names:
        path = ROOT / name.replace("power_ips", "dros")
        assert "DRos" in path.read_text(), name


@pytest.mark.parametrize(
    "family",
    [static, sequential, scavenging, multi_logger, slate],
    ids=lambda family: family.__name__.rpartition(".")[2],
)
def test_what_a_family_lists_is_public_and_in_the_guide(family):
    guide = "".join(path.read_text() for path in (ROOT / "docs/guide").glob("*.rst"))
    for name in family.__all__:
        one = getattr(family, name)
        if not isinstance(one, type) or not issubclass(one, base.BaseEvaluator):
            continue
        if name in base.__all__:
            continue
        assert name in skope_ope.__all__, f"{name} is not in skope_ope/__init__.py"
        assert f":class:`{name}`" in guide, f"{name} stands on no page of the guide"

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The figure of the folders, the page around it, and the files of the glossary."""

import ast
import importlib.util
import re
from xml.etree import ElementTree

import pytest

from tests.packaging._tree import PACKAGE, ROOT
from tests.packaging.test_imports import FLOW, ROOMS

DOCS = ROOT / "docs"
PAGE = (DOCS / "tutorials" / "how_the_package_is_built.rst").read_text()


def script(name):
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MAP = script("_package_map")
GLOSSARY = script("_glossary")
FOLDERS = [name for name in FLOW if (PACKAGE / name / "__init__.py").is_file()]


# -- the picture of the package -------------------------------------------------------
def test_the_figure_shows_all_folders_in_the_order_of_imports():
    assert MAP.folders() == FOLDERS
    assert set(MAP.FOLDERS) == set(FOLDERS)
    texts = [one.text for one in ElementTree.fromstring(MAP.draw()).iter() if one.text]
    titles = [text.split("/ ")[0] for text in texts if "/   " in text]
    assert titles == FOLDERS
    inside = ", ".join(texts)
    for rooms in ROOMS.values():
        shown = [inside.find(room) for room in rooms if room]
        assert -1 not in shown


def test_the_list_of_the_page_has_the_same_order_and_rooms():
    text = MAP.listed()
    assert re.findall(r"^``(\w+)/``$", text, re.M) == FOLDERS
    orders = re.findall(r"Inside, in this order: (.+)\.$", text, re.M)
    named = [re.findall(r"``(\w+)``", order) for order in orders]
    assert named == [
        [room for room in ROOMS[name] if room] for name in FOLDERS if name in ROOMS
    ]


def test_folders_that_the_figure_and_the_page_name_exist():
    for _, _, places in MAP.STEPS:
        for place in re.findall(r"[a-z_]+/?[a-z_]*", places):
            assert (PACKAGE / place).is_dir(), place
    for name in re.findall(r"``([a-z_]+(?:/[a-z_]+)*)/?``", PAGE):
        roots = (ROOT / name, PACKAGE / name, PACKAGE / "evaluators" / name)
        assert any(path.is_dir() for path in roots), name


def test_the_page_is_short_and_includes_what_is_made_from_the_order(tmp_path):
    assert len(PAGE.split()) <= 900
    [figure] = re.findall(r"image:: /generated/(\S+)", PAGE)
    [included] = re.findall(r"include:: /generated/(\S+)", PAGE)
    MAP.write(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {figure, included}
    assert "tests/packaging/test_imports.py" in PAGE
    assert "tutorials/how_the_package_is_built" in (DOCS / "index.rst").read_text()


# -- the glossary: term, class, file --------------------------------------------------
def entries():
    """Return the first term of every entry."""
    text = (DOCS / "glossary.rst").read_text()
    return re.findall(r"(?<=\n\n)   ([^\s:.].*)\n(?=   )", text)


def test_every_entry_of_the_glossary_has_a_class_and_a_file():
    assert sorted(entries()) == sorted(GLOSSARY.TERMS)


@pytest.mark.parametrize("name", sorted(set(GLOSSARY.TERMS.values())))
def test_the_file_of_a_term_defines_its_class(name):
    _, file = GLOSSARY.place_of(name)
    text = (ROOT / file).read_text()
    defined = {getattr(node, "name", None) for node in ast.walk(ast.parse(text))}
    assert name.rpartition(".")[2] in defined


@pytest.mark.parametrize(
    "name",
    [
        "absolute continuity",
        "attention decay coefficient",
        "balance heuristic",
        "idempotent self-evaluation",
        "linearity assumption",
        "progressive validation",
        "revealed randomness",
    ],
)
def test_the_name_that_a_paper_gives_stands_where_its_thing_is_described(name):
    described = GLOSSARY.attrgetter(GLOSSARY.TERMS[name])(GLOSSARY.skope_ope).__doc__
    words = " ".join(described.lower().replace("-", " ").split())
    assert name.replace("-", " ") in words


def test_the_page_of_the_glossary_includes_the_table(tmp_path):
    GLOSSARY.write_table(tmp_path)
    [path] = tmp_path.iterdir()
    page = (DOCS / "glossary.rst").read_text()
    assert f"include:: generated/{path.name}" in page
    assert path.read_text().count("   * - ") == 1 + len(GLOSSARY.TERMS)
    before = path.stat().st_mtime_ns
    GLOSSARY.write_table(tmp_path)  # unchanged files are not read anew by sphinx
    assert path.stat().st_mtime_ns == before

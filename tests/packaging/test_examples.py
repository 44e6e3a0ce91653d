# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import ast
import re

import pytest

from tests.packaging._tree import ROOT

EXAMPLES = ROOT / "examples"
FOLDERS = sorted(path for path in EXAMPLES.iterdir() if path.is_dir())
SCRIPTS = sorted(EXAMPLES.rglob("*.py"))
IDS = [path.relative_to(EXAMPLES).as_posix() for path in SCRIPTS]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_folder_has_a_header(folder):
    if folder.name.startswith((".", "_")):
        return
    assert folder.name.split("_")[0].isdigit()
    assert (folder / "GALLERY_HEADER.rst").exists()


@pytest.mark.parametrize("path", SCRIPTS, ids=IDS)
def test_every_script_opens_with_a_title(path):
    """sphinx-gallery takes the title of the page from the module docstring."""
    docstring = ast.get_docstring(ast.parse(path.read_text()))
    assert docstring is not None
    lines = docstring.splitlines()
    title = lines[1] if set(lines[0]) <= set("=-") else lines[0]
    assert title.strip()


@pytest.mark.parametrize("path", SCRIPTS, ids=IDS)
def test_every_script_uses_public_names_only(path):
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(alias.name for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            if "skope_ope" in names[0]:
                private = [part for part in name.split(".") if part.startswith("_")]
                assert private == [], f"{path}:{node.lineno}"


PLOTS = [path for path in SCRIPTS if path.name.startswith("plot_")]
HEADER = (EXAMPLES / "3_families" / "GALLERY_HEADER.rst").read_text()


def families():
    """Return the scripts that the header of the families lists, by family."""
    found, family = {}, None
    for text in re.findall(
        r"^\*\*.+\*\*|<sphx_glr_auto_examples_\w+\.py>", HEADER, re.M
    ):
        if text.startswith("*"):
            family = found.setdefault(text, [])
        else:
            family.append(text.removeprefix("<sphx_glr_auto_examples_").rstrip(">"))
    return found


def label_of(path):
    return path.relative_to(EXAMPLES).as_posix().replace("/", "_")


def test_every_family_has_three_examples():
    listed = families()
    assert len(listed) == 7
    assert [name for name, scripts in listed.items() if len(scripts) < 3] == []


def test_every_example_of_the_families_is_listed_once():
    listed = [name for scripts in families().values() for name in scripts]
    assert len(set(listed)) == len(listed)
    own = {label_of(path) for path in PLOTS if path.parent.name == "3_families"}
    assert own <= set(listed) <= {label_of(path) for path in PLOTS}


def calls(tree, name):
    """Return the calls of a method or a function of that name."""
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and getattr(node.func, "attr", getattr(node.func, "id", None)) == name
    ]


@pytest.mark.parametrize("path", PLOTS, ids=label_of)
def test_the_last_figure_is_the_thumbnail(path):
    text = path.read_text()
    assert "\n# sphinx_gallery_thumbnail_number = -1\n" in text
    tree = ast.parse(text)
    drawn = [call for name in ("subplots", "plot") for call in calls(tree, name)]
    assert drawn, "no figure"


@pytest.mark.parametrize("path", PLOTS, ids=label_of)
def test_legends_stand_beside_the_data(path):
    for call in calls(ast.parse(path.read_text()), "legend"):
        given = {one.arg: ast.unparse(one.value) for one in call.keywords}
        outside = "outside" in given.get("loc", "")
        assert outside or "bbox_to_anchor" in given, f"line {call.lineno}"
        assert "constrained" in path.read_text(), "the legend is cut off"

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import ast
import re

import pytest

from tests.packaging._tree import ROOT

EXAMPLES = ROOT / "examples"
FOLDERS = [path for path in EXAMPLES.glob("[!._]*") if path.is_dir()]
SCRIPTS = sorted(EXAMPLES.rglob("*.py"))
IDS = [path.relative_to(EXAMPLES).as_posix() for path in SCRIPTS]


def test_every_folder_has_a_header():
    for folder in FOLDERS:
        assert folder.name.split("_")[0].isdigit()
        assert (folder / "GALLERY_HEADER.rst").exists()


@pytest.mark.parametrize("path", SCRIPTS, ids=IDS)
def test_every_script_opens_with_a_title_and_uses_public_names_only(path):
    tree = ast.parse(path.read_text())
    lines = ast.get_docstring(tree).splitlines()  # the gallery takes the title from it
    title = lines[1] if set(lines[0]) <= set("=-") else lines[0]
    assert title.strip()
    for node in ast.walk(tree):
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


def test_families_have_three_examples_each_listed_once():
    listed = families()
    assert len(listed) == 7
    assert [name for name, scripts in listed.items() if len(scripts) < 3] == []
    listed = [name for scripts in families().values() for name in scripts]
    assert len(set(listed)) == len(listed)
    own = {label_of(path) for path in PLOTS if path.parent.name == "3_families"}
    assert own <= set(listed) <= {label_of(path) for path in PLOTS}


def calls(tree, name):
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and getattr(node.func, "attr", getattr(node.func, "id", None)) == name
    ]


@pytest.mark.parametrize("path", PLOTS, ids=label_of)
def test_the_last_figure_is_the_thumbnail_with_its_legend_beside(path):
    text = path.read_text()
    assert "\n# sphinx_gallery_thumbnail_number = -1\n" in text
    tree = ast.parse(text)
    drawn = [call for name in ("subplots", "plot") for call in calls(tree, name)]
    assert drawn, "no figure"
    for call in calls(tree, "legend"):
        given = {one.arg: ast.unparse(one.value) for one in call.keywords}
        outside = "outside" in given.get("loc", "")
        assert outside or "bbox_to_anchor" in given, f"line {call.lineno}"
        assert "constrained" in text, "the legend is cut off"

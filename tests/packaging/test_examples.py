# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import ast

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

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The whole analysis of a shop runs in a real kernel, and its outputs are looked at."""

import base64
import json
import re
import sys
import tempfile
from pathlib import Path

import pytest

from skope_ope import BanditLogs
from tests.packaging._tree import ROOT

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
for needed in ("ipykernel", "pandas", "matplotlib", "sphinx_gallery"):
    pytest.importorskip(needed)
pytestmark = pytest.mark.frames

SCRIPT = ROOT / "examples" / "1_first_steps" / "plot_shop_analysis.py"
ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}")
CARD = BanditLogs([[0]], [0], [1.0])._repr_html_().split(">")[0]
OF_OTHERS = "sk-container", 'class="dataframe"'  # scikit-learn, pandas
LABEL = "coupon if age < 45"


def notebook_of(script):
    """Return the notebook that the gallery offers for a script."""
    from sphinx_gallery.gen_gallery import DEFAULT_GALLERY_CONF
    from sphinx_gallery.notebook import jupyter_notebook
    from sphinx_gallery.py_source_parser import split_code_and_text_blocks

    _, blocks = split_code_and_text_blocks(str(script))
    made = jupyter_notebook(blocks, dict(DEFAULT_GALLERY_CONF), str(script.parent))
    return nbformat.reads(json.dumps(made), as_version=4)


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    """Return the code cells of the notebook with their outputs."""
    folder = tmp_path_factory.mktemp("notebook")
    notebook = notebook_of(SCRIPT)
    client = nbclient.NotebookClient(
        notebook,
        timeout=300,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.setenv("IPYTHONDIR", str(folder / "ipython"))
        client.execute()
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


@pytest.fixture(scope="module")
def outputs(cells):
    return [output for cell in cells for output in cell.outputs]


def texts_of(outputs):
    """Yield all that can be read: printed lines, texts and HTML."""
    for output in outputs:
        yield output.get("text", "")
        for kind, content in output.get("data", {}).items():
            if kind.startswith("text/"):
                yield content


def html_of(outputs):
    return [
        one.data["text/html"] for one in outputs if "text/html" in one.get("data", {})
    ]


def test_nothing_fails_and_nothing_warns(cells, outputs):
    assert all(cell.execution_count for cell in cells)
    assert [one for one in outputs if one.output_type == "error"] == []
    assert [one.text for one in outputs if one.get("name") == "stderr"] == []


def test_results_are_cards_with_escaped_labels_and_no_local_path(outputs):
    paths = {str(ROOT), str(Path.home()), sys.prefix, tempfile.gettempdir(), "file:"}
    for text in texts_of(outputs):
        assert ADDRESS.search(text) is None, text
        assert [path for path in paths if path in text] == []
    pages = html_of(outputs)
    ours = [page for page in pages if page.startswith(CARD)]
    others = [page for page in pages if any(one in page for one in OF_OTHERS)]
    assert len(ours) + len(others) == len(pages)
    assert len(ours) >= 6  # logs, two audits, suggestion, table, verdict, comparison
    assert [page for page in ours if "<script" in page or "src=" in page] == []
    named = [page for page in ours if "coupon if age" in page]
    assert len(named) == 2  # values and comparison
    for page in named:
        assert LABEL not in page
        assert LABEL.replace("<", "&lt;") in page


def test_every_figure_is_shown_below_the_cell_that_draws_it(cells):
    drawn = [cell for cell in cells if ".plot(" in cell.source]
    assert len(drawn) == 5
    for cell in cells:
        pictures = [
            base64.b64decode(output.data["image/png"])
            for output in cell.outputs
            if "image/png" in output.get("data", {})
        ]
        assert len(pictures) == (cell in drawn), cell.source
        for picture in pictures:
            assert picture.startswith(b"\x89PNG") and len(picture) > 5000


def test_texts_have_no_roles_that_a_notebook_cannot_read():
    for cell in notebook_of(SCRIPT).cells:
        if cell.cell_type == "markdown":
            assert re.search(r":\w+:`", cell.source) is None, cell.source

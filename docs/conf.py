# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Configuration of the site: sphinx-build -W docs docs/_build/html."""

import os
import re
import sys
from pathlib import Path

from sphinx.ext.autosummary import Autosummary

FOLDER = Path(__file__).parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parent)]

import _decision  # noqa: E402
import _glossary  # noqa: E402
import _package_map  # noqa: E402
import api_reference  # noqa: E402

import skope_ope  # noqa: E402

project = "skope_ope"
author = "the skope_ope developers"
copyright = "2026, the skope_ope developers"
version = release = skope_ope.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",  # MathJax itself, so that no other host is asked
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "_templates", "changes/*.*.rst"]
default_role = "py:obj"  # a link where there is such a name, else code

# -- theme ---------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_title = f"skope_ope {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_sidebars = {"which_evaluator": []}  # it has no pages below it
html_theme_options = {
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": False,
}

# -- formulas ------------------------------------------------------------------

# The menu would load parts of MathJax that are left out, see `thin_mathjax`.
mathjax3_config = {"options": {"enableMenu": False}}
MATHJAX_PARTS = ("tex-chtml.js", "output/chtml/fonts", "input/tex/extensions")

# -- API -----------------------------------------------------------------------

autosummary_generate = True
# Audit and audit are one file where file names have no case.
autosummary_filename_map = {"skope_ope.audit": "skope_ope.audit_function"}
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

# Methods that scikit-learn makes are documented there.
FROM_SKLEARN = ("get_metadata_routing", "set_output")

# Links into other projects need their inventories, which need a network: asked for
# by SKOPE_OPE_DOCS_INTERSPHINX=1, so that the site also builds without one.
intersphinx_mapping = {}
if os.environ.get("SKOPE_OPE_DOCS_INTERSPHINX") == "1":
    intersphinx_mapping = {
        "python": ("https://docs.python.org/3", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "sklearn": ("https://scikit-learn.org/stable", None),
    }

# -- landing page --------------------------------------------------------------

GENERATED = FOLDER / "generated"
SHOP_PICTURE = (
    "auto_examples/1_first_steps/images/sphx_glr_plot_shop_in_ten_lines_001.png"
)
# Prompts and outputs of examples are not copied.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def write_landing_picture(app):
    """Write what shows the picture of the gallery, where examples have run."""
    text = ""
    if (FOLDER / SHOP_PICTURE).exists():
        text = (
            f".. image:: /{SHOP_PICTURE}\n"
            "   :alt: The gain of the new rule with its interval, right of zero.\n"
            "   :width: 42rem\n"
        )
    (GENERATED / "landing_picture.inc").write_text(text, encoding="utf-8")


# -- gallery -------------------------------------------------------------------

sphinx_gallery_conf = {
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["auto_examples"],
    "backreferences_dir": "generated/backreferences",
    "doc_module": ("skope_ope",),
    "reference_url": {"skope_ope": None},
    # scripts named plot_* run at their default size; benchmarks are shown, not run
    "filename_pattern": r"(?<!5_benchmarks)[/\\]plot_",
    # of a name or, in older releases of sphinx-gallery, of a path
    "ignore_pattern": r"(^|[/\\])_",
    "within_subsection_order": "gallery_order.ByHeader",
    "parallel": True,  # as many examples at a time as sphinx has jobs: -j
    "reset_modules": ("matplotlib", "one_job.one_job", "one_job.short_warnings"),
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,  # these pages load scripts of other hosts
    "remove_config_comments": True,
    # No repr of a figure or of its parts: it has an address.
    "capture_repr": ("_repr_html_",),
    "plot_gallery": "True",
}
os.environ.setdefault("OMP_NUM_THREADS", "1")


def skip_member(app, what, name, obj, skip, options):
    """Leave out what scikit-learn adds to every estimator."""
    made = name.startswith("set_") and name.endswith("_request")
    return True if made or name in FROM_SKLEARN else None


class Summary(Autosummary):
    """Tables of names without the citations of the first sentences."""

    def get_items(self, names):
        return [
            (name, signature, re.sub(r"\s*\[[^\]]+\]_", "", summary), real_name)
            for name, signature, summary, real_name in super().get_items(names)
        ]


HOMES = {
    name.rpartition(".")[2]: f"skope_ope.{name}"
    for section in api_reference.API_REFERENCE.values()
    for name in section["objects"]
}


def find_home(app, env, node, contnode):
    """Resolve a public name, or a member of it, without the folder that it is in."""
    name, dot, member = node.get("reftarget", "").partition(".")
    if node.get("refdomain") != "py" or name not in HOMES:
        return None
    return env.get_domain("py").resolve_xref(
        env,
        node["refdoc"],
        app.builder,
        node["reftype"],
        HOMES[name] + dot + member,
        node,
        contnode,
    )


def thin_mathjax(app, exception):
    """Leave out the nine tenths of MathJax that no page loads: 24 MB are copied."""
    folder = Path(app.outdir) / "_static" / "mathjax"
    for path in folder.rglob("*"):
        part = path.relative_to(folder).as_posix()
        if path.is_file() and not part.startswith(MATHJAX_PARTS):
            path.unlink()


def setup(app):
    app.add_directive("autosummary", Summary, override=True)
    api_reference.write_pages(FOLDER / "api")
    _decision.write_tables(GENERATED)
    _glossary.write_table(GENERATED)
    _package_map.write(GENERATED)
    # after the gallery, whose picture it shows
    app.connect("builder-inited", write_landing_picture, priority=900)
    app.connect("autodoc-skip-member", skip_member)
    app.connect("missing-reference", find_home)
    # It copies files and does no more, and does not say that it may run in parallel.
    offline = app.extensions["sphinx-mathjax-offline"]
    offline.parallel_read_safe = offline.parallel_write_safe = True
    app.connect("build-finished", thin_mathjax, priority=900)  # after the copy

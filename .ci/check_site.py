# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What must hold for the built site, beside that it is built without warnings.

python .ci/check_site.py docs/_build/html
"""

import argparse
import re
from html import unescape
from pathlib import Path

# Elements that a browser loads without being asked to. Links are not loaded.
LOADED = re.compile(
    r"<(?:script|img|iframe|source|video|audio|embed)\b[^>]*\bsrc=[\"']((?:https?:)?//[^\"']+)"
    r"|<link\b(?=[^>]*\brel=[\"'](?:stylesheet|preload|icon|shortcut icon))[^>]*"
    r"\bhref=[\"']((?:https?:)?//[^\"']+)"
)
IN_STYLES = re.compile(r"(?:url\(|@import )\s*[\"']?((?:https?:)?//[^\"')\s]+)")
OUTPUT = re.compile(r'<div class="sphx-glr-script-out[^>]*>(.*?)</div>', re.DOTALL)
ADDRESS = re.compile(r"\bat 0x[0-9a-f]+\b")
LOCAL_PATH = re.compile(
    r"(?<![\w./:-])/(?:home|root|tmp|usr|var|work|Users|private)/\S+"
)
RUNNING_TIME = re.compile(
    r"running time of the script:</strong> \((\d+) minutes ([\d.]+) seconds\)"
)
N_SHOWN = 12  # of the slowest examples
SEARCHED = ("interval", "no propensity", "A/B test", "pip install")


def other_hosts(folder):
    """Yield pages and styles that load something from another host."""
    for path in sorted(folder.rglob("*.html")):
        for found in LOADED.finditer(path.read_text()):
            yield f"{path.relative_to(folder)}: loads {found[1] or found[2]}"
    for path in sorted(folder.rglob("*.css")):
        for found in IN_STYLES.finditer(path.read_text()):
            yield f"{path.relative_to(folder)}: loads {found[1]}"


def outputs(folder):
    """Yield outputs of examples that hold an address or a path of this machine."""
    for path in sorted((folder / "auto_examples").rglob("*.html")):
        for block in OUTPUT.findall(path.read_text()):
            text = unescape(re.sub(r"<[^>]+>", "", block))
            for found in (*ADDRESS.finditer(text), *LOCAL_PATH.finditer(text)):
                yield f"{path.relative_to(folder)}: the output holds {found[0]!r}"


def examples(folder):
    """Yield examples without a figure, and helper modules that have a page."""
    for path in sorted((folder / "auto_examples").rglob("*.html")):
        name = path.relative_to(folder)
        if path.stem.startswith("_"):
            yield f"{name}: a helper module is shown"
        if path.stem.startswith("plot_"):
            figure = f"sphx_glr_{path.stem}_001."
            if not any((folder / "_images").glob(f"{figure}*")):
                yield f"{name}: no figure, so the thumbnail is the default one"


def formulas(folder):
    """Yield pages with formulas and without what draws them."""
    mathjax = folder / "_static" / "mathjax"
    for path in sorted(folder.rglob("*.html")):
        text = path.read_text()
        if 'class="math' not in text:
            continue
        if "_static/mathjax/tex-chtml.js" not in text:
            yield f"{path.relative_to(folder)}: formulas without MathJax"
        if not (mathjax / "tex-chtml.js").exists() or not any(mathjax.rglob("*.woff")):
            yield f"{path.relative_to(folder)}: MathJax or its fonts were not copied"


def search(folder):
    """Yield phrases that the search does not find, as it needs all words on a page."""
    pages = [
        re.sub(r"<[^>]+>", " ", path.read_text()) for path in folder.rglob("*.html")
    ]
    for phrase in SEARCHED:
        if not any(phrase.lower() in " ".join(page.split()).lower() for page in pages):
            yield f"no page holds {phrase!r}"
    if not (folder / "searchindex.js").exists():
        yield "there is no index for the search"


def faults(folder):
    """Return what is wrong with a built site, a sentence each."""
    return [
        fault
        for check in (other_hosts, outputs, examples, formulas, search)
        for fault in check(folder)
    ]


def seconds_by_example(folder):
    """Return how long each example took to run, the slowest first."""
    taken = {}
    for path in (folder / "auto_examples").rglob("plot_*.html"):
        if found := RUNNING_TIME.search(path.read_text()):
            taken[path.stem] = 60 * int(found[1]) + float(found[2])
    return dict(sorted(taken.items(), key=lambda item: -item[1]))


def main():
    """Print the faults of a site, and fail if there are any; print slow examples."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="what sphinx has built")
    args = parser.parse_args()
    found = faults(args.folder)
    print(*found, sep="\n")
    if found:
        raise SystemExit(1)
    taken = seconds_by_example(args.folder)
    total = sum(taken.values())
    print(f"site: nothing to object to; {len(taken)} examples, {total:.0f} s")
    for name, seconds in list(taken.items())[:N_SHOWN]:
        print(f"{seconds:7.1f} s  {name}")


if __name__ == "__main__":
    main()

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The figure and the list of folders of "How the package is built".

The order is that of `FLOW` and `ROOMS`, which a test of imports asserts. Here stands
what each folder is for.
"""

from pathlib import Path
from textwrap import wrap
from xml.sax.saxutils import escape

from tests.packaging.test_imports import FLOW, ROOMS

# A folder, the question that it answers, and a sentence.
FOLDERS = {
    "logs": (
        "What was logged?",
        "Containers of rounds, frames and files turned into them, the checks of a log.",
    ),
    "readers": ("Where do logs come from?", "Files of other tools, turned into logs."),
    "propensities": (
        "With what probability?",
        "Steps that estimate or clip propensities: logs in, logs out.",
    ),
    "policies": (
        "What do we evaluate?",
        "Rules that give actions or slates a probability, also rules that learn.",
    ),
    "reward_models": (
        "What do we predict?",
        "Rewards of every action, predicted by models that have not seen the round.",
    ),
    "intervals": (
        "How sure are we?",
        "Functions of numbers that give limits. They know no logs and no policies.",
    ),
    "evaluators": (
        "How do we evaluate?",
        "Formulas of rounds, their sums, and values with intervals.",
    ),
    "audit": (
        "Can the log answer?",
        "Findings about a log and a policy, and the verdict on a value.",
    ),
    "selection": (
        "Which one?",
        "Comparison of policies, searches over settings, the suggested evaluator.",
    ),
    "learning": ("What to deploy?", "Policies that are learned from logs."),
    "displays": ("What do we show?", "Numbers of a picture, and a method that draws."),
    "reports": ("What do we tell others?", "One page from question to decision."),
    "datasets": ("Where to practise?", "Logs whose true values are known."),
    "utils": ("Is my class right?", "Checks for evaluators and policies of yours."),
}
# How a value comes about, and the folders that do it.
STEPS = (
    ("log", "rounds: context, action, reward, propensity", "logs, readers"),
    (
        "blocks of rounds",
        "policy and model are asked once per block",
        "policies, reward_models",
    ),
    ("terms", "the formula of an evaluator, per round", "evaluators/static"),
    ("joint sums", "of terms and their products, with extremes", "evaluators/core"),
    ("value", "a function of the sums, with its gradient", "evaluators/core"),
    ("interval", "a function of the same sums", "intervals, evaluators/core"),
    ("verdict", "trustworthy, caution, not supported", "audit"),
    ("decision", "a gain, a table, a picture, a page", "selection, displays, reports"),
)
STYLE = """
    text { font: 12px sans-serif; fill: #222; }
    .title { font-weight: bold; font-size: 13px; }
    .head { font-weight: bold; font-size: 14px; }
    .note { font-style: italic; fill: #555; }
    .folder { fill: #f4f6f8; stroke: #5b6b7b; }
    .step { fill: #fdf0d5; stroke: #b9770e; }
    .flow { fill: none; stroke: #333; stroke-width: 1.5; marker-end: url(#head); }
"""
HEAD = (
    '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" '
    'markerHeight="8" orient="auto"><path d="M0 0 L10 5 L0 10 z" fill="#333"/></marker>'
    "</defs>"
)
TOP = 44  # of the boxes, in pixels


def folders():
    """Return the folders in the order of the imports."""
    return [name for name in FLOW if name in FOLDERS]


def rooms_of(folder):
    """Return the folders inside a folder, in the order of the imports."""
    return [name for name in ROOMS.get(folder, ()) if name]


def _box(kind, x, y, width, lines):
    """Return a box with a title, and lines of text."""
    title, *others = map(escape, lines)
    height = 20 + 15 * len(others)
    return [
        f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" '
        'rx="4"/>',
        f'<text class="title" x="{x + 10}" y="{y + 15}">{title}</text>',
        *(
            f'<text x="{x + 10}" y="{y + 30 + 15 * k}">{line}</text>'
            for k, line in enumerate(others)
        ),
    ], height


def draw():
    """Return the figure: folders on the left, the way of a value on the right."""
    parts, y = [], TOP
    for name in folders():
        inside = wrap(", ".join(rooms_of(name)), 50)
        box, height = _box(
            "folder", 16, y, 350, [f"{name}/   {FOLDERS[name][0]}", *inside]
        )
        parts += box
        if y > TOP:
            parts.append(f'<path class="flow" d="M190 {y - 13} V{y - 1}"/>')
        y += height + 14
    height, pitch, end = y, (y - TOP - 14) / len(STEPS), TOP
    for k, (name, text, where) in enumerate(STEPS):
        at = round(TOP + k * pitch)
        if k:
            parts.append(f'<path class="flow" d="M602 {end} V{at - 1}"/>')
        box, tall = _box("step", 420, at, 364, [name, text, f"in {where}"])
        parts += box
        end = at + tall
    text = "\n".join(parts)
    return f"""<svg xmlns="http://www.w3.org/2000/svg" role="img"
 viewBox="0 0 800 {height}"
 aria-label="The folders in the order of their imports, and how a value comes about.">
<style>{STYLE}</style>
{HEAD}
<rect width="800" height="{height}" fill="#fff"/>
<text class="head" x="16" y="26">Folders: each imports from those above</text>
<text class="head" x="420" y="26">How a value comes about</text>
{text}
</svg>
"""


def listed():
    """Return the folders as a list of definitions, in the order of the imports."""
    lines = []
    for name in folders():
        question, sentence = FOLDERS[name]
        inside = ", ".join(f"``{room}``" for room in rooms_of(name))
        lines += [f"``{name}/``", f"   {question} {sentence}"]
        lines += [f"   Inside, in this order: {inside}."] if inside else []
    return "\n".join(lines) + "\n"


def write(folder):
    """Write what the page includes."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("package_map.svg", draw()), ("folders.inc", listed())):
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Pages, docstrings and messages use plain words.

The phrases were all written once, and readers stumbled over them. A page of the guide
opens with its question and soon shows an example.

python .ci/check_words.py
"""

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GUIDE = sorted((ROOT / "docs" / "guide").glob("*.rst"))
QUESTIONS = [path for path in GUIDE if path.stem != "index"]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.rst"))]
MADE = {"_build", "api", "auto_examples", "generated"}  # from docs/ and examples/
PAGES = [page for page in PAGES if not MADE & set(page.relative_to(ROOT).parts)]
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))
EXAMPLES += sorted((ROOT / "examples").rglob("*.rst"))
# Each pattern with what to write in its place.
PHRASES = {
    r"decisions were logged by one policy": "you logged decisions",
    r"one page per folder": "each page answers one question",
    r"value of any number of policies": "fit once, evaluate many policies",
    r"holds the T that was reached": "says how many rounds were accepted",
    r"exactly the law that": "distributed as in",
    r"what was learned on the way": "all stages of the policy",
    r"what it said on the way": "the estimate after each round",
    r"on the way\b(?! (?:to|from)\b)": "name the step, the round or the time",
    r"(?<!the\s)less the logger": "gain over the logger",
    r"bears? on\b": "say what the rounds do not hold",
    r"luck(?:y|ily)?\b|unlucky": "chance, or random numbers",
    r"in default of": "used if none is given",
    r"would have moved the value by": "changed the value by",
    r"are welcome": "may be used",
    r"holds? for the best": "predicts to be best",
    r"good bargain": "usually more accurate",
    r"of their own\b": "separate, or name whose",
    r"at hand\b": "these rows, or available",
    r"stands? for itself": "is clear",
    r"what of (?:it|them) holds": "what holds",
    r"held out of the fits": "split for cross-fitting",
    r"what becomes of": "what happens to",
    r"by halves\b": "whole, or with a weight",
    r"who(?:so)?ever\b": "you, or name who",
    r"whichever\b": "any, or the one with ...",
    r"led astray": "misled, or say what is wrong",
    r"(?:stands?|fitted|given|shown) in (?:its|their) place": "instead",
    r"(?:is|are) behind by": "is worse by",
    r"the price of looking": "the cost of looking",
    r"trusts the model where": "uses only the model if",
    r"nothing of it adds up": "it has no sums over parts",
    r"stayed behind": "is not kept",
    r"State a number": "pass a number",
    r"time runs backwards": "the timestamps decrease",
    r"in every life\b|lives of a policy|A life of": "history, or trajectory",
    r"what (?:it|they) would bring": "its rewards, or their rewards",
    r"(?:is|are) wanted among": "one of these must be",
    r"means nothing there": "is not used",
    r"came out empty": "is empty",
    r"might stand for it": "name what is used in its place",
    r"far above theirs": "far above the others",
    r"told by one label": "needs one label",
    r"earlier ones tell": "computed from earlier rounds",
    r"nothing that tells": "cannot tell apart",
    r"tells no spread": "its variance is unknown",
    r"entries a round": "entries per round",
    r"carry theirs": "name their column",
    r"no bound covers": "has no bound",
    r"not of the same estimates": "name what differs",
    r"in two ways before": "different when asked twice",
}
PATTERNS = {  # a line may end within a phrase
    re.compile(rf"\b(?:{old})".replace(" ", r"\s+"), re.I): better
    for old, better in PHRASES.items()
}


def strings(tree):
    """Yield docstrings and messages of a module; the values in an f-string are "{}"."""
    inside = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [
                part.value if isinstance(part, ast.Constant) else "{}"
                for part in node.values
            ]
            inside.update(map(id, node.values))
            yield node.lineno, "".join(parts)
        elif isinstance(node, ast.Constant) and id(node) not in inside:
            yield node.lineno, str(node.value)


def found(text):
    """Yield phrases of a text with their place, whatever the breaks of its lines."""
    for pattern, better in PATTERNS.items():
        for match in pattern.finditer(text):
            line = text[: match.start()].count("\n") + 1
            yield line, f"{' '.join(match[0].split())!r}: {better}"


def first_paragraph(text):
    """Return the paragraph after a page's title."""
    below = re.split(r"^={4,}$", text, maxsplit=1, flags=re.M)[1]
    blocks = [one.strip() for one in re.split(r"\n\s*\n", below)]
    return next(one for one in blocks if one and not one.startswith(".. "))


def lines_to_an_example(text):
    """Return how many lines below its title a page has code, or infinity."""
    lines = re.split(r"^={4,}$", text, maxsplit=1, flags=re.M)[1].splitlines()
    for count, line in enumerate(lines):
        code = re.match(r">>> |\.\. (?:code-block|literalinclude|plot)::", line)
        if code or (line.endswith("::") and not line.startswith("..")):
            return count
    return float("inf")


def complaints():
    """Yield what is to be mended in pages, examples, docstrings and messages."""
    for path in PAGES:
        for line, what in found(path.read_text()):
            yield f"{path.relative_to(ROOT)}:{line} {what}"
    for path in EXAMPLES:
        for line, what in found(re.sub(r"^ *# ?", "", path.read_text(), flags=re.M)):
            yield f"{path.relative_to(ROOT)}:{line} {what}"
    for path in sorted((ROOT / "skope_ope").rglob("*.py")):
        for start, text in strings(ast.parse(path.read_text())):
            for line, what in found(text):
                yield f"{path.relative_to(ROOT)}:{start + line - 1} {what}"
    for path in QUESTIONS:
        if "?" not in first_paragraph(path.read_text()):
            yield f"{path.relative_to(ROOT)}: it does not begin with its question"
        if lines_to_an_example(path.read_text()) > 40:
            yield f"{path.relative_to(ROOT)}: no example in the first 40 lines"


if __name__ == "__main__":
    sys.exit("\n".join(complaints()) or 0)

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""How large the package is, and how far a call travels through its files.

python .ci/measure_house.py --most-files 310 --most-lines 48000

- Code lines are lines without docstrings, comments and blanks.
- A trip is one call: the files of the package that it enters, and its moves, which are
  calls into another file and returns from it. What is imported or computed once was
  there before, from a first call with other logs.
- The protocol of the evaluators are the members that at least two of them define,
  beside fit, evaluate, score, what scikit-learn asks for, and dunder methods. It is
  also printed name by name: of the families of one template, and of the others.
"""

import argparse
import ast
import io
import sys
import tempfile
import tokenize
import warnings
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FORMAL = ["COMMENT", "NL", "NEWLINE", "INDENT", "DEDENT", "ENDMARKER"]
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
GIVEN = {"fit", "evaluate", "score", "_parameter_constraints"}
# The families of one template, and the one class of another folder that follows it.
TEMPLATE = "static", "multi_logger", "adaptive_logger", "ExplorationScavenging"


def code_lines(text):
    """Return how many lines of a source hold code."""
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if tokenize.tok_name[token.type] not in FORMAL:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            first = node.body[0]
            lines.difference_update(range(first.lineno, first.end_lineno + 1))
    return len(lines)


def functions(node):
    """Return the functions and classes that a module or a class defines."""
    return {one.name for one in node.body if isinstance(one, DOCUMENTED)}


def assigned(node):
    """Return the names that a module or a class assigns to."""
    lines = [one for one in node.body if isinstance(one, ast.Assign | ast.AnnAssign)]
    targets = [getattr(one, "targets", None) or [one.target] for one in lines]
    parts = [part for some in targets for one in some for part in ast.walk(one)]
    return {part.id for part in parts if isinstance(part, ast.Name)}


def is_dunder(name):
    return name.startswith("__") and name.endswith("__")


def in_several(found):
    """Return the names, but for dunders, that are in at least two of the sets."""
    counts = Counter(name for names in found for name in names)
    return {name for name, n in counts.items() if n > 1 and not is_dunder(name)}


def evaluators(trees):
    """Return (folder, class) of what is below BaseEvaluator, by the names of bases."""
    classes = [
        (folder, node)
        for folder, tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    ]
    found, names = [], {"BaseEvaluator"}
    while True:
        more = [
            one
            for one in classes
            if one not in found
            and any(ast.unparse(base).split(".")[-1] in names for base in one[1].bases)
        ]
        if not more:
            return found
        found += more
        names.update(one.name for _, one in more)


def protocol_of(classes):
    """Return the public and the private members that two or more classes define."""
    members = (functions(one) | assigned(one) for one in classes)
    protocol = in_several(members) - GIVEN
    private = {name for name in protocol if name.startswith("_")}
    return sorted(protocol - private), sorted(private)


def package_trees(root=ROOT):
    """Return (folder, tree) of every module of the package."""
    paths = sorted((root / "skope_ope").rglob("*.py"))
    return [(path.parent.name, ast.parse(path.read_text())) for path in paths]


def protocols(root=ROOT):
    """Return the protocol of the families of one template, and that of the others."""
    template, others = [], []
    for folder, node in evaluators(package_trees(root)):
        follows = folder in TEMPLATE or node.name in TEMPLATE
        (template if follows else others).append(node)
    return {
        ", ".join(TEMPLATE): protocol_of(template),
        "other evaluators": protocol_of(others),
    }


def is_inside(tree):
    """Return whether a module imports a private module of the package."""
    named = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            named += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            named += [f"{node.module}.{alias.name}" for alias in node.names]
    parts = [name.split(".") for name in named if name.startswith("skope_ope.")]
    return any(
        part.startswith("_") and not is_dunder(part) for one in parts for part in one
    )


def sizes(root=ROOT):
    """Return the counts of a tree with the folders skope_ope and tests."""
    texts = [path.read_text() for path in sorted((root / "skope_ope").rglob("*.py"))]
    tests = [path.read_text() for path in sorted((root / "tests").rglob("*.py"))]
    found = package_trees(root)
    trees = [tree for _, tree in found]
    public, private = protocol_of(node for _, node in evaluators(found))
    return {
        "files": len(texts),
        "code lines": sum(map(code_lines, texts)),
        "statements": sum(
            isinstance(node, ast.stmt) for tree in trees for node in ast.walk(tree)
        ),
        "functions and classes of two files": len(in_several(map(functions, trees))),
        "constants of two files": len(in_several(map(assigned, trees))),
        "public members of the protocol": len(public),
        "private members of the protocol": len(private),
        "test files": len(tests),
        "test files that import private modules": sum(
            is_inside(ast.parse(text)) for text in tests
        ),
        "lines of tests": sum(text.count("\n") for text in tests),
    }


def trip(call, package=ROOT / "skope_ope"):
    """Return how many files of the package a call enters, and how often it moves."""
    files, moves = set(), 0

    def follow(frame, event, _):
        nonlocal moves
        if event in ("call", "return") and frame.f_code.co_filename.startswith(
            f"{package}/"
        ):
            before = frame.f_back
            while before and not before.f_code.co_filename.startswith(f"{package}/"):
                before = before.f_back
            files.add(frame.f_code.co_filename)
            if before and before.f_code.co_filename != frame.f_code.co_filename:
                moves += 1

    sys.setprofile(follow)
    try:
        call()
    finally:
        sys.setprofile(None)
    return len(files), moves


def trips():
    """Return files and moves of the calls that most people make."""
    from skope_ope import DoublyRobust, audit, evaluate, report, scan_logs
    from skope_ope.datasets import make_bandit_logs

    def calls(seed, folder):
        logs, policy, _ = make_bandit_logs(2000, random_state=seed, return_truth=True)
        fitted = DoublyRobust(reward_model=0.5).fit(logs)
        path = Path(folder) / f"{seed}.parquet"
        logs.to_frame().to_parquet(path)
        columns = {name: name for name in ("action", "reward", "propensity")}
        columns["context"] = [f"context_{k}" for k in range(logs.shape[1])]
        return {
            "DoublyRobust(number).score": lambda: fitted.score(policy),
            "evaluate": lambda: evaluate(policy, logs),
            "evaluate(scan_logs)": lambda: evaluate(policy, scan_logs(path, **columns)),
            "audit": lambda: audit(policy, logs),
            "report": lambda: report({"new": policy}, logs, path.with_suffix(".html")),
        }

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in calls(0, folder).values():
            call()
        return {name: trip(call) for name, call in calls(1, folder).items()}


def main(argv=None):
    """Print the numbers; fail where a limit is given and exceeded."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--most-files", type=int, default=sys.maxsize)
    parser.add_argument("--most-lines", type=int, default=sys.maxsize)
    args = parser.parse_args(argv)
    found = sizes()
    for name, number in found.items():
        print(f"{name:42} {number:7,}")
    for name, (files, moves) in trips().items():
        print(f"{name:42} {files:7,} files {moves:7,} moves")
    for whose, kinds in protocols().items():
        for kind, names in zip(("public", "private"), kinds, strict=True):
            print(f"{len(names)} {kind} members of {whose}: {', '.join(names)}")
    for what, most in (("files", args.most_files), ("code lines", args.most_lines)):
        if found[what] > most:
            raise SystemExit(f"{found[what]:,} {what}, more than {most:,}")


if __name__ == "__main__":
    main()

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What holds for all examples: assertions are tested, every family is shown."""

import ast
import importlib
import inspect
from functools import cache
from pathlib import Path

import pytest

from tests.examples._assertions import EXAMPLES

SCRIPTS = sorted(EXAMPLES.rglob("*.py"))
FAMILIES = "static", "sequential", "scavenging", "multi_logger", "slate"
N_EXAMPLES = 3  # of each family


@cache
def tree_of(path):
    return ast.parse(path.read_text())


def assertions_of(path):
    return [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.Assert)]


def names_in(tree):
    """Return all names and texts of a script: `evaluate` takes names of evaluators."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.alias):
            yield node.name
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def helpers_of(path):
    """Return the modules beside a script that it imports."""
    imported = {
        node.module
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ImportFrom)
    }
    beside = (path.with_name(f"{name}.py") for name in imported if name)
    return [other for other in beside if other in SCRIPTS]


@cache
def uses(path):
    """Return the names in a script and in what it imports from its folder."""
    return {
        name for one in (path, *helpers_of(path)) for name in names_in(tree_of(one))
    }


def test_every_assertion_is_seen_to_fail_by_a_test():
    """Of scripts, benchmarks, and of the modules that they import."""
    here = Path(__file__).parent
    missing = [
        f"tests/examples/test_{path.stem.lstrip('_')}.py"
        for path in SCRIPTS
        if assertions_of(path)
        and not (here / f"test_{path.stem.lstrip('_')}.py").exists()
    ]
    assert not missing, "examples assert and no test breaks them: " + ", ".join(missing)


def test_every_test_of_an_example_names_it():
    """A script that was renamed takes its test along."""
    for path in Path(__file__).parent.glob("test_plot_*.py"):
        [script] = EXAMPLES.rglob(f"{path.stem.removeprefix('test_')}.py")
        assert f"{script.parent.name}/{script.name}" in path.read_text(), path.name


def depends_on_the_run(test):
    """Whether an expression holds a name, so that its value is not written in it."""
    return any(isinstance(node, ast.Name) for node in ast.walk(test))


@pytest.mark.parametrize(
    "text, depends",
    [("True", False), ("1 < 2, 'why'", False), ("x < 2", True), ("f(2)", True)],
)
def test_constants_are_known(text, depends):
    assert depends_on_the_run(ast.parse(text, mode="eval").body) is depends


def test_no_assertion_is_a_constant():
    constant = [
        f"{path.relative_to(EXAMPLES).as_posix()}:{node.lineno}"
        for path in SCRIPTS
        for node in assertions_of(path)
        if not depends_on_the_run(node.test)
    ]
    assert constant == []


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_is_in_three_examples(family):
    module = importlib.import_module(f"skope_ope.evaluators.{family}")
    evaluators = {
        name for name in module.__all__ if inspect.isclass(getattr(module, name))
    }
    found = [
        path.name
        for path in SCRIPTS
        if path.name.startswith("plot_") and evaluators & uses(path)
    ]
    assert len(found) >= N_EXAMPLES, f"{family}: {', '.join(found)}"

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What holds for all examples: assertions are tested, every family is shown."""

import ast
import importlib
import inspect
import re
import runpy
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from tests.examples import _assertions as frame
from tests.examples import _benchmarks, _families, _first_steps, _papers, _tuning
from tests.examples._assertions import EXAMPLES
from tests.examples._papers import SIZES_IGNORED
from tests.packaging._tree import ROOT

SCRIPTS = sorted(EXAMPLES.rglob("*.py"))
FAMILIES = "static", "sequential", "scavenging", "multi_logger", "slate"
N_EXAMPLES = 3  # of each family
TABLE = {
    f"{folder}/{name}.py": row
    for folder, rows in (
        ("1_first_steps", _first_steps.ROWS),
        ("2_tuning", _tuning.ROWS),
        ("3_families", _families.ROWS),
        ("4_papers", _papers.ROWS),
        ("5_benchmarks", _benchmarks.ROWS),
    )
    for name, row in rows.items()
}


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
    nodes = [one for one in ast.walk(tree_of(path)) if isinstance(one, ast.ImportFrom)]
    imported = {node.module for node in nodes}
    beside = (path.with_name(f"{name}.py") for name in imported if name)
    return [other for other in beside if other in SCRIPTS]


@cache
def uses(path):
    """Return the names in a script and in what it imports from its folder."""
    return {
        name for one in (path, *helpers_of(path)) for name in names_in(tree_of(one))
    }


def test_every_script_that_asserts_has_a_row():
    """Benchmarks and the modules that scripts import included."""
    asserting = [path for path in SCRIPTS if assertions_of(path)]
    names = [path.relative_to(EXAMPLES).as_posix() for path in asserting]
    assert sorted(names) == sorted(TABLE)


def test_the_gallery_runs_the_scripts_whose_row_has_no_arguments():
    conf = (ROOT / "docs" / "conf.py").read_text()
    pattern = re.search(r'"filename_pattern": r"(.*)"', conf)[1]
    assert not re.search(pattern, "examples/5_benchmarks/bench_static.py")
    left = [name for name, row in TABLE.items() if not row.args]
    assert [name for name in left if not re.search(pattern, f"examples/{name}")] == []


@pytest.mark.theory
@pytest.mark.parametrize("script", TABLE)
def test_every_assertion_can_fail(script):
    frame.check_every_assertion_can_fail(script, *TABLE[script])


@pytest.mark.theory
@pytest.mark.parametrize("pooling", SIZES_IGNORED)
def test_dropping_logs_sees_sizes_that_are_ignored(pooling):
    script = "4_papers/plot_when_does_dropping_logs_help.py"
    _, failed, _ = frame.failures(
        script, TABLE[script].args.split(), SIZES_IGNORED[pooling]
    )
    assert failed


def test_rcv1_is_cut_as_in_the_paper(monkeypatch):
    """Four topics at the top of 103, documents with at least one of them."""
    names = np.array(["C15", "MCAT", "CCAT", "E11", "GCAT", "ECAT"])
    target = np.zeros((60, 6))
    target[np.arange(60), np.arange(60) % 6] = 1
    target[1, 2] = 1  # MCAT and CCAT
    fetched = SimpleNamespace(
        data=sparse.csr_matrix(np.arange(60.0)[:, None]),
        target=sparse.csr_matrix(target),
        target_names=names,
    )
    monkeypatch.setattr("sklearn.datasets.fetch_rcv1", lambda: fetched)
    trials = runpy.run_path(EXAMPLES / "4_papers" / "_trials.py")

    X, labels = trials["load"]("rcv1")
    row = X.toarray().ravel().astype(int)
    assert sorted(row) == [k for k in range(60) if k % 6 not in (0, 3)]
    order = ["CCAT", "ECAT", "GCAT", "MCAT"]
    expected = target[:, [list(names).index(name) for name in order]]
    np.testing.assert_array_equal(labels, expected[row])
    assert labels[row == 1].sum() == 2

    some = trials["_rcv1"](n_rows=10)
    assert some[0].shape == (10, 1) and some[1].shape == (10, 4)


def test_readme_lists_every_benchmark_once():
    readme = (ROOT / "README.md").read_text()
    listed = re.findall(r"^\d+\. `(bench_\w+)`: ", readme, re.M)
    scripts = sorted(path.stem for path in EXAMPLES.glob("5_benchmarks/bench_*.py"))
    assert sorted(listed) == scripts


def depends_on_the_run(test):
    """Whether an expression holds a name, so that its value is not written in it."""
    return any(isinstance(node, ast.Name) for node in ast.walk(test))


def test_no_assertion_is_a_constant():
    cases = {"True": False, "1 < 2, 'why'": False, "x < 2": True, "f(2)": True}
    for text, depends in cases.items():
        assert depends_on_the_run(ast.parse(text, mode="eval").body) is depends
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
    names = {one for one in module.__all__ if inspect.isclass(getattr(module, one))}
    plots = [path for path in SCRIPTS if path.name.startswith("plot_")]
    found = [path.name for path in plots if names & uses(path)]
    assert len(found) >= N_EXAMPLES, f"{family}: {', '.join(found)}"

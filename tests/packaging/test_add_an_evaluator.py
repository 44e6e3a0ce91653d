# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The page about evaluators is enough: one is added to a copy of the package by it."""

import filecmp
import os
import re
import shutil
import subprocess
import sys
from itertools import takewhile

import pytest

from tests.packaging._tree import ROOT

PAGE = ROOT / "docs" / "tutorials" / "add_an_evaluator.rst"
FOLDERS = "skope_ope", "tests", "docs"
OWN = "skope_ope/evaluators/static/_overlap_ips.py"
FAMILY = "skope_ope/evaluators/static/__init__.py"
API = "docs/api_reference.py"

HEADER = '''# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Rewards by how much policy and logger overlap."""
'''
DOCSTRING = '''    """IPS whose rounds count by the overlap of policy and logger.

    Examples
    --------
    >>> from skope_ope.datasets import make_bandit_logs
    >>> from skope_ope.evaluators import OverlapIPS
    >>> logs, policy, _ = make_bandit_logs(2000, random_state=0, return_truth=True)
    >>> 0 < OverlapIPS().fit(logs).score(policy) < 1
    True
    """
'''
USED = """
import sys
from pathlib import Path

import numpy as np

import skope_ope
from skope_ope import UniformPolicy, evaluate, scan_logs, summarize
from skope_ope.datasets import make_bandit_logs
from skope_ope.evaluators import OverlapIPS
from skope_ope.utils import all_evaluators
from skope_ope.utils.estimator_checks import check_evaluator

copy, files = map(Path, sys.argv[1:])
assert Path(skope_ope.__file__).is_relative_to(copy)
assert dict(all_evaluators())["OverlapIPS"] is OverlapIPS
logs = make_bandit_logs(600, random_state=0)
logs = logs.replace(logging_proba=None)  # as the file, which has no such columns
value = evaluate(UniformPolicy(), logs, evaluators=["OverlapIPS"])["OverlapIPS"]
rows = np.arange(600), logs.action_index
w = 1 / logs.n_actions / logs.propensity
h = w / (1 + w)
assert abs(value.value - (h @ logs.reward) / h.sum()) < 1e-12
logs.to_frame().to_csv(files / "log.csv", index=False)
roles = {name: name for name in ("action", "reward", "propensity")}
roles["context"] = [f"context_{k}" for k in range(logs.n_features)]
lazy = scan_logs(files, **roles)
read = evaluate(UniformPolicy(), lazy, evaluators=["OverlapIPS"])["OverlapIPS"]
assert abs(read.value - value.value) < 1e-12
assert np.allclose(read.confidence_interval()[:2], value.confidence_interval()[:2])
assert all(one["status"] != "failed" for one in check_evaluator(OverlapIPS()))
"""
# What counts evaluators: these fail where a file is forgotten.
COUNTED = """
tests/packaging/test_api_reference.py
tests/packaging/test_pages.py::test_what_a_family_lists_is_public_and_in_the_guide
tests/packaging/test_docstrings.py
tests/packaging/test_signatures.py
tests/packaging/test_imports.py
tests/test_common.py::test_every_class_is_checked
tests/test_common.py::test_contract_of_evaluators
tests/test_common.py::test_scikit_learns_contract
tests/utils/test_discovery.py
tests/judge/test_judge.py::test_the_default_worlds_hold_everything
tests/evaluators/test_evaluate.py
tests/evaluators/test_recommended.py
tests/learning/test_logs_policy.py
tests/test_expectations.py
tests/test_bad_input.py
skope_ope/evaluators/static/_overlap_ips.py
"""


def class_of_the_page():
    """The lines of `OverlapIPS`, as the page shows them, with its imports."""
    lines = re.findall(r"^(?:>>>|\.\.\.) ?(.*)$", PAGE.read_text(), re.MULTILINE)
    start = lines.index("class OverlapIPS(StaticEvaluator):")
    body = list(takewhile(lambda one: one[:1] in ("", " "), lines[start + 1 :]))
    inside = [one for one in lines if one.startswith("from skope_ope.evaluators.")]
    assert len(body) == 11  # with two blank ones: ten lines and the first
    code = "\n".join(body[1:])  # its docstring is longer in the package
    head = "\n".join([*inside, "", "", lines[start]])
    return f"{HEADER}\n{head}\n{DOCSTRING}{code}\n"


def insert(path, before, line):
    text = path.read_text()
    assert text.count(before) == 1
    path.write_text(text.replace(before, f"{line}\n{before}"))


@pytest.fixture
def copy(tmp_path):
    """A copy of the package, its tests and pages, with one evaluator more."""
    junk = shutil.ignore_patterns("__pycache__", "_build", "auto_examples", "generated")
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, tmp_path / "copy" / folder, ignore=junk)
    copy = tmp_path / "copy"
    (copy / OWN).write_text(class_of_the_page())
    insert(
        copy / FAMILY,
        "from skope_ope.evaluators.static._sndr import SNDR",
        "from skope_ope.evaluators.static._overlap_ips import OverlapIPS",
    )
    insert(copy / FAMILY, '    "LogSmoothing",\n]', '    "OverlapIPS",')
    insert(copy / API, '            "SNIPS",', '            "evaluators.OverlapIPS",')
    return copy


def run(copy, *args):
    env = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, *args], cwd=copy, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def differing(compared, folder):
    """Paths of files that one of two folders has alone, or that differ."""
    found = [*compared.left_only, *compared.right_only, *compared.diff_files]
    out = {f"{folder}/{name}" for name in found}
    for name, below in compared.subdirs.items():
        out |= differing(below, f"{folder}/{name}")
    return out


@pytest.mark.frames
def test_three_files_add_an_evaluator(copy, tmp_path):
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    (files := tmp_path / "files").mkdir()
    (script := tmp_path / "used.py").write_text(USED)
    run(copy, script, copy, files)
    junk = ["__pycache__", "_build", "auto_examples", "generated"]
    found = set()
    for folder in FOLDERS:
        compared = filecmp.dircmp(ROOT / folder, copy / folder, ignore=junk)
        found |= differing(compared, folder)
    assert found == {OWN, FAMILY, API}


@pytest.mark.thorough
@pytest.mark.frames
def test_no_other_test_asks_for_a_fourth_file(copy):
    for package in ("pandas", "polars", "pyarrow"):  # some of these tests read files
        pytest.importorskip(package)
    for name in ("README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, copy / name)
    shutil.copytree(ROOT / "examples", copy / "examples")
    shutil.copytree(ROOT / ".ci", copy / ".ci")
    run(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", *COUNTED.split())

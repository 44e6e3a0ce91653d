# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import json
import re
import textwrap
import warnings
from functools import partial

import numpy as np
import pytest
from sklearn import ensemble
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge

import skope_ope
from skope_ope.__main__ import main
from skope_ope.datasets import make_bandit_logs
from skope_ope.exceptions import FewEventsWarning, OPEWarning
from tests._faults import FAULTS
from tests.packaging._tree import ROOT

FIRST_TABLE = ["IPS", "SNIPS", "DoublyRobust", "SNDR"]
README = (ROOT / "README.md").read_text()
TEST_COMMAND = (
    'python3 -m venv .venv && .venv/bin/pip install -q -e ".[test]" '
    "&& .venv/bin/python -m pytest -n 2"
)


def test_ci_runs_exactly_the_test_command_of_the_readme():
    """The script cuts the command out of the README, between marker and fence."""
    block = README.split("<!-- test command -->")[1].split("```")[1]
    assert block.removeprefix("bash").strip() == TEST_COMMAND
    assert README.count(TEST_COMMAND) == 1
    script = (ROOT / ".ci" / "run").read_text()
    assert "/<!-- test command -->/,/^```$/p' README.md | grep 'pytest')" in script
    assert 'bash -euo pipefail -c "$test_command"' in script


def test_it_opens_as_the_landing_page_does():
    """The same claim on both, and how long each of the two commands takes."""
    claim = "You logged what your system decided and what came of it."
    landing = (ROOT / "docs" / "index.rst").read_text()
    paragraph = " ".join(landing[landing.index(claim) :].split("\n\n")[0].split())
    opening, commands = README.split("## Two commands")
    assert " ".join(opening.split()).endswith(paragraph)
    commands = commands.split("\n## ")[0]
    first, second = commands.split(TEST_COMMAND)
    assert "takes about three seconds" in first and "<!-- demo -->" in first
    assert re.search(r"takes about \w+ minutes on two cores", second)


def test_links_lead_to_files_and_names_are_those_of_the_package():
    links = re.findall(r"\]\(([^)]+)\)", README)
    needed = {"start/shop", "which_evaluator", "glossary"}
    assert {f"docs/{name}.rst" for name in needed} < set(links)
    assert [link for link in links if not (ROOT / link).exists()] == []
    guide = (ROOT / "docs" / "guide" / "audit.rst").read_text()
    assert f"We planted {len(FAULTS)} faults" in README
    assert f"The {len(FAULTS)} planted faults below" in guide
    table = README.split("## Five papers")[1].split("\n\n")[1]
    for name in set(re.findall(r"`([A-Z][A-Za-z]+)", table)):
        assert hasattr(skope_ope, name)


@pytest.mark.frames
def test_python_start_runs(capsys, monkeypatch, tmp_path):
    """The block under "More from Python", on a made frame with its column names."""
    pandas = pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)  # it writes a page
    rng = np.random.RandomState(0)
    n_rounds = 600
    proba = np.array([0.5, 0.3, 0.2])
    codes = rng.choice(3, size=n_rounds, p=proba)
    age = rng.uniform(18, 80, n_rounds)
    frame = pandas.DataFrame(
        {
            "item": np.array(["book", "film", "song"])[codes],
            "click": (rng.uniform(size=n_rounds) < 0.2 + 0.2 * (age > 40)).astype(int),
            "p": proba[codes],
            "age": age / 80,
            "hour": rng.randint(24, size=n_rounds) / 24,
        }
    )
    quick = partial(HistGradientBoostingRegressor, max_iter=10)
    monkeypatch.setattr(ensemble, "HistGradientBoostingRegressor", quick)
    _, _, start, search = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    names = {"frame": frame}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FewEventsWarning)  # of a frame this small
        exec(compile(start, "README.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "<h2>" in (tmp_path / "report.html").read_text(encoding="utf-8")
    table = names["table"]
    assert list(table) == ["IPS", "SNIPS", "DoublyRobust", "SNDR"]
    for name in table:  # as the comment beside the call says
        assert re.search(rf"# the first table: .*{name}", README)
    assert table.recommended == "DoublyRobust"
    assert names["value"] is table["DoublyRobust"]
    score = float(printed.splitlines()[-1])  # the evaluator by itself says the same
    assert score == pytest.approx(names["value"].value, rel=1e-12)
    names["HistGradientBoostingRegressor"] = Ridge  # quicker, and searches fit often
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)  # 60 held-out rounds say little
        exec(compile(search, "README.md", "exec"), names)


def test_users_are_split_and_not_rows():
    """The lines under "Users come back?"."""
    _, users, _, _ = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    logs, _, _ = make_bandit_logs(60, random_state=0, return_truth=True)
    names = {"logs": logs.replace(group=np.arange(60) % 13)}
    exec(compile(users, "README.md", "exec"), names)
    train, test = names["train"], names["test"]
    assert len(train) + len(test) == 60
    assert not set(train.group) & set(test.group)


def shown_tables():
    """Return the lines of the demo as the README and the shell page show them."""
    fence = README.split("<!-- demo -->")[1].split("```")[1].removeprefix("text")
    page = (ROOT / "docs" / "guide" / "shell.rst").read_text()
    block = page.split("   $ skope-ope demo\n")[1].split("\n\n")[0]
    return {"readme": fence.strip("\n"), "shell": textwrap.dedent(block)}


@pytest.mark.parametrize("place", ["readme", "shell"])
def test_the_table_of_the_demo_is_what_it_prints(place, capsys):
    """Names and marks to the letter, numbers up to other versions of scikit-learn."""
    header, *shown = shown_tables()[place].splitlines()
    shown = [row for row in shown if row != "..."]
    assert main(["demo"]) == 0
    out = capsys.readouterr().out.splitlines()
    titles = header.split()
    assert any(row.split()[: len(titles)] == titles for row in out)
    rows = {row.split("  ")[0]: row for row in out}
    names = [row.split("  ")[0] for row in shown]
    assert "DoublyRobust" in names and names[-1] == "true value"
    if place == "readme":
        assert names[:4] == FIRST_TABLE
    for row in shown:
        cells = re.split(r"  +", row)
        printed = re.split(r"  +", rows[cells[0]])
        for cell, there in zip(cells, printed, strict=False):
            if re.fullmatch(r"[-+]?[0-9.]+", cell):
                assert float(there) == pytest.approx(float(cell), abs=0.03)
            else:
                assert there == cell


def test_what_the_readme_says_of_the_demo(capsys):
    assert main(["demo", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    by_name = {record["evaluator"]: record for record in report["values"]}
    assert [n for n, one in by_name.items() if one["recommended"]] == ["DoublyRobust"]
    assert not any(by_name[name]["leaves_bias_out"] for name in FIRST_TABLE)
    assert by_name["DoublyRobust"]["covers"]
    for name in ("DirectMethod", "DRos"):  # "as these two do"
        assert by_name[name]["leaves_bias_out"] and not by_name[name]["covers"]


def test_the_citation_is_of_this_version():
    entry = README.split("```bibtex")[1].split("```")[0]
    assert f"version = {{{skope_ope.__version__}}}" in entry
    assert "doi" not in entry
    years = re.findall(r"\((\d{4})\)", README.split("```bibtex")[1])
    papers = (ROOT / "docs" / "guide" / "papers.rst").read_text()
    assert years == sorted(re.findall(r"^\w.*\((\d{4})\)\n---", papers, re.M))

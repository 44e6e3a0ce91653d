# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

"""The page that `skope-ope evaluate --report` writes."""

import shlex
from html import unescape

import pytest

from skope_ope import UniformPolicy, report
from tests.shell.conftest import COLUMNS, main

NEW = "new=columns:pi_book,pi_film,pi_song"
TWO = ("--policy", NEW, "--policy", "even=uniform")


def test_the_page_says_what_the_call_from_python_says(clicks, record, tmp_path):
    _, logs, pi = clicks
    path = tmp_path / "a report.html"
    told = record(*TWO, "--report", path)
    logs = logs.replace(logging_proba=None)
    found = report({"new": pi, "even": UniformPolicy()}, logs)
    assert told["page"] == str(path)
    names = ("decision", "choice", "sentence")
    decision = {name: getattr(found, name) for name in names}
    assert told["decision"] == decision | {"verdict": found.verdicts["new"].to_dict()}
    page = path.read_text(encoding="utf-8")
    assert f"<h2>{found.headline}</h2>" in page
    assert "uniform over the actions" in page
    command = unescape(page.partition("<pre><code>")[2].partition("</code>")[0])
    words = ["skope-ope", "evaluate", str(clicks[0]), *COLUMNS, *TWO]
    assert shlex.split(command) == [*words, "--report", str(path), "--json"]


def test_the_command_of_the_page_writes_it_again(clicks, told, capsys, tmp_path):
    path = tmp_path / "a report.html"
    told(*TWO, "--report", path)
    page = path.read_text(encoding="utf-8")
    path.unlink()
    command = unescape(page.partition("<pre><code>")[2].partition("</code>")[0])
    assert main(shlex.split(command)[1:]) == 0
    assert path.read_text(encoding="utf-8") == page


def test_the_text_says_what_the_page_recommends(told, tmp_path):
    _, out = told(*TWO, "--report", tmp_path / "a.html")
    assert "Deploy new. On these 600 logged rounds" in " ".join(out.split())
    assert "a.html." in out


def test_one_policy_has_a_page(told, tmp_path):
    path = tmp_path / "a.html"
    for policy in ("uniform", "columns:pi_logged"):
        assert told("--policy", policy, "--report", path)[0] == 0
        assert "Is policy better than the system that made the log?" in path.read_text()
        path.unlink()


def test_a_path_that_cannot_be_written_stops_before_the_log_is_read(capsys, tmp_path):
    for name, told in (("none/a.html", "does not exist"), (".", "is a folder")):
        words = [*COLUMNS, *TWO, "--report", str(tmp_path / name)]
        assert main(["evaluate", str(tmp_path / "missing.csv"), *words]) == 2
        assert told in capsys.readouterr().err
        assert list(tmp_path.iterdir()) == []


def test_what_is_read_is_never_replaced(clicks, refused, tmp_path, monkeypatch):
    table, link = tmp_path / "table.csv", tmp_path / "link.html"
    table.write_text("book,film,song\n1,0,0\n")
    link.symlink_to(clicks[0])
    monkeypatch.chdir(clicks[0].parent)
    for path in (clicks[0], clicks[0].name, link, table):
        words = ("--policy", f"new=table:{table}", "--report", path)
        assert "would replace this input file" in refused(*words)
    words = ("--policy-table", table, "--report", table)
    assert "would replace this input file" in refused(*words)
    assert clicks[0].read_text().startswith("x0,")
    assert table.read_text().startswith("book")


def test_the_page_and_the_gate_rest_on_the_same_audit(refused, tmp_path):
    path = tmp_path / "a.html"
    assert "Leave out one of the two" in refused(*TWO, "--no-audit", "--report", path)
    assert not path.exists()


@pytest.fixture
def leaking(clicks, tmp_path):
    """The file with a column that was written after the reward."""
    lines = clicks[0].read_text().splitlines()
    at = lines[0].split(",").index("click")
    lines = [f"{one},{one.split(',')[at]}" for one in lines]
    path = tmp_path / "leaking.csv"
    path.write_text("\n".join([lines[0][: -len("click")] + "later", *lines[1:], ""]))
    return path


def test_the_text_does_not_say_deploy_where_the_page_does_not(leaking, capsys):
    words = ["evaluate", str(leaking), *COLUMNS, "--context", "x*,later", *TWO]
    assert main([*words]) == 0
    assert "Deploy new" in capsys.readouterr().out  # by the gains alone
    path = leaking.with_name("a.html")
    words += ["--report", str(path)]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "Deploy" not in out and "No decision yet: correct the log first" in out
    assert "later" in path.read_text()  # the name of the column
    assert main([*words, "--accept", "reward_leak,propensity_misfit,action_leak"]) == 0
    assert "Deploy new" in capsys.readouterr().out

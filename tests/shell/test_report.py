# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

"""The page that `skope-ope evaluate --report` writes."""

import shlex
from html import unescape

import pytest

from skope_ope import UniformPolicy, report
from tests.shell.conftest import COLUMNS

NEW = "new=columns:pi_book,pi_film,pi_song"
TWO = ("--policy", NEW, "--policy", "even=uniform")


def test_the_page_says_what_the_call_from_python_says(clicks, record, tmp_path):
    _, logs, pi = clicks
    path = tmp_path / "report.html"
    told = record(*TWO, "--report", path)["page"]
    logs = logs.replace(logging_proba=None)
    found = report({"new": pi, "even": UniformPolicy()}, logs)
    assert told == {
        "path": str(path),
        "decision": found.decision,
        "choice": found.choice,
        "sentence": found.sentence,
    }
    page = path.read_text(encoding="utf-8")
    assert f"<h2>{found.headline}</h2>" in page
    assert "uniform over the actions" in page


def test_the_page_holds_the_command_that_repeats_it(clicks, record, tmp_path):
    path = tmp_path / "a report.html"
    record(*TWO, "--report", path)
    page = path.read_text(encoding="utf-8")
    command = unescape(page.partition("<pre><code>")[2].partition("</code>")[0])
    words = ["skope-ope", "evaluate", str(clicks[0]), *COLUMNS, *TWO]
    assert shlex.split(command) == [*words, "--report", str(path), "--json"]


def test_the_text_says_what_the_page_recommends(told, tmp_path):
    _, out = told(*TWO, "--report", tmp_path / "a.html")
    assert "a.html: Deploy new" in " ".join(out.split())


def test_one_policy_has_a_page(told, tmp_path):
    told("--policy", "uniform", "--report", tmp_path / "a.html")
    assert "Is policy better than the logger?" in (tmp_path / "a.html").read_text()


def test_a_policy_of_which_the_logged_action_is_known_has_a_page(told, tmp_path):
    code, _ = told("--policy", "columns:pi_logged", "--report", tmp_path / "a.html")
    assert code == 0 and (tmp_path / "a.html").exists()


@pytest.mark.parametrize("name", ["none/a.html", "."])
def test_a_path_that_cannot_be_written_stops_before_the_log_is_read(
    refused, tmp_path, name, monkeypatch
):
    def read(*args, **kwargs):
        raise AssertionError("read")

    monkeypatch.setattr("skope_ope._shell._evaluate.read_source", read)
    err = refused(*TWO, "--report", tmp_path / name)
    assert "does not exist" in err or "is a folder" in err
    assert list(tmp_path.iterdir()) == []

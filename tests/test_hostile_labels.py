# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

"""Labels and names of columns that a file may hold reach nobody's terminal raw."""

import csv
import json
import warnings
from html.parser import HTMLParser
from unicodedata import category

import numpy as np
import pytest

from skope_ope import (
    BanditLogs,
    MultiLoggerIPS,
    UniformPolicy,
    audit,
    compare_policies,
    evaluate,
)
from skope_ope.__main__ import main
from skope_ope.evaluators import logger_overlap

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e<script>alert('1')</script>&\x7f"
SHOWN = r"\x1b]0;owned\x07\x1b[2J"
N = 400
HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # a terminal obeys them, or cannot write them


def columns_of(n_rounds=N):
    """A log whose labels and names are hostile, and whose second logger lies."""
    rng = np.random.RandomState(0)
    codes = rng.randint(2, size=n_rounds)
    return {
        f"x{EVIL}": rng.standard_normal(n_rounds).round(3),
        f"city{EVIL}": np.array([f"Rome{EVIL}", "Oslo"])[rng.randint(2, size=n_rounds)],
        f"item{EVIL}": np.array([f"a{EVIL}", "b"])[codes],
        "click": rng.randint(2, size=n_rounds),
        f"p{EVIL}": np.full(n_rounds, 0.5),
        "server": np.array([f"old{EVIL}", "new"])[rng.randint(2, size=n_rounds)],
        f"pi{EVIL}": np.full(n_rounds, 0.5),
    }


@pytest.fixture(scope="module")
def logs():
    columns = columns_of()
    context = np.column_stack([columns[f"x{EVIL}"], columns[f"x{EVIL}"]])
    return BanditLogs(
        context,
        columns[f"item{EVIL}"],
        columns["click"],
        logger=columns["server"],
        logger_proba=np.tile([0.5, 0.05], (N, 1)),
        group=[f"user {i // 4}{EVIL}" for i in range(N)],
    ).with_columns(**{f"pi{EVIL}": columns[f"pi{EVIL}"]})


def is_harmless(text, lines=True):
    """Tell whether nothing in a text but the end of a line is hidden."""
    return not any(
        category(char) in HIDDEN and not (lines and char == "\n") for char in text
    )


class Tags(HTMLParser):
    """Collects the tags of a page."""

    def __init__(self, page):
        super().__init__()
        self.found = set()
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.add(tag)


@pytest.fixture(scope="module")
def shown(logs):
    """All that is shown of such logs, with the warnings."""
    policies = {f"new{EVIL}": UniformPolicy(), "same": np.full((N, 2), 0.5)}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        table = evaluate(policies, logs)
        value = MultiLoggerIPS(pooling="balanced").fit(logs).evaluate(UniformPolicy())
        things = [
            logs,
            table,
            value,
            value.diagnostics,
            table[f"new{EVIL}", "IPS"].by("action"),
            logger_overlap(UniformPolicy(), logs),
            compare_policies(policies, logs),
            audit(logs),
            audit(UniformPolicy(), logs),
        ]
        texts = [str(thing) for thing in things]
        pages = [one._repr_html_() for one in things if hasattr(one, "_repr_html_")]
    return texts, pages, [str(warning.message) for warning in caught]


def test_texts_and_warnings_are_harmless(shown):
    texts, _, told = shown
    assert all(map(is_harmless, (*texts, *told)))
    assert sum(SHOWN in text for text in texts) >= 4  # and they are told
    assert told


def test_pages_have_no_markup_of_labels(shown):
    _, pages, _ = shown
    assert len(pages) >= 7
    for page in pages:
        assert is_harmless(page)
        assert "script" not in Tags(page).found
    assert sum("&lt;script&gt;" in page for page in pages) >= 4


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("evil") / "log.csv"
    columns = columns_of()
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*(c.tolist() for c in columns.values()), strict=True))
    return path


COLUMNS = (f"--action=item{EVIL}", "--reward=click", f"--propensity=p{EVIL}")
CONTEXT = (f'--exclude=server,"pi{EVIL}"',)
LOGGER = ("--logger", "server")


@pytest.mark.few_cases
@pytest.mark.parametrize("command", ["evaluate", "audit"])
@pytest.mark.parametrize("policy", [f"always:a{EVIL}", "greedy"])
def test_the_command_line_is_harmless(path, capsys, command, policy):
    words = [command, str(path), *COLUMNS, *CONTEXT, *LOGGER, "--policy", policy]
    assert main([*words, "--progress"]) in (0, 1)
    out, err = capsys.readouterr()
    assert is_harmless(out)
    assert is_harmless(err)
    assert SHOWN in out
    assert main([*words, "--json"]) in (0, 1)
    out, err = capsys.readouterr()
    assert is_harmless(out)
    assert json.loads(out)["arguments"]["policy"] == policy  # programs get it all


@pytest.mark.parametrize(
    "words",
    [
        ["--action", f"no{EVIL}"],
        ["--context", f'"x{EVIL}",nope'],
        ["--context", EVIL],
        ["--context", "*"],
        ["--policy", f"always:c{EVIL}"],
        ["--policy", f"file{EVIL}"],
        ["--policy", "uniform", "--reward-model", EVIL],
        ["--policy", "uniform", "--level", EVIL],
        ["--policy-columns", ",".join([f'"pi{EVIL}"'] * 3)],
        ["--reward", f"item{EVIL}"],
        [f"--{EVIL}"],
    ],
)
def test_errors_are_harmless(path, capsys, words):
    command = "evaluate"
    assert main([command, str(path), *COLUMNS, *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert is_harmless(err)


def test_a_path_is_harmless_too(capsys):
    assert main(["audit", f"missing{EVIL}.csv", *COLUMNS]) == 2
    assert is_harmless(capsys.readouterr().err)


def test_errors_of_python_are_harmless(logs):
    with pytest.raises(ValueError) as caught:
        evaluate(np.full((N, 3), 1 / 3), logs)
    assert is_harmless(str(caught.value))
    weighted = MultiLoggerIPS(pooling="weighted", divergences={EVIL: 1})
    for build in (
        lambda: BanditLogs(np.zeros((1, 1)), [EVIL], [1], actions=[f"b{EVIL}"]),
        lambda: BanditLogs(np.zeros((1, 1)), [EVIL], [EVIL]),
        lambda: BanditLogs(np.zeros((2, 1)), [EVIL, "b"], [1, 0], actions=[EVIL] * 2),
        lambda: evaluate(f"pi{EVIL}x", logs),
        lambda: logs.replace(**{EVIL: 1}),
        lambda: weighted.fit(logs).evaluate(UniformPolicy()),
    ):
        with pytest.raises((ValueError, TypeError)) as caught:
            build()
        assert is_harmless(str(caught.value)), caught.value


def test_frames_of_hostile_columns():
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("narwhals")
    frame = pandas.DataFrame(columns_of())
    names = {"action": f"item{EVIL}", "reward": "click", "propensity": f"p{EVIL}"}
    with pytest.raises(ValueError, match="Columns that are not used yet") as caught:
        BanditLogs.from_frame(frame, **names)
    assert is_harmless(str(caught.value))
    frame[f"again{EVIL}"] = frame[f"x{EVIL}"]
    logs = BanditLogs.from_frame(frame, **names, exclude=["server"])
    found = audit(logs)
    assert is_harmless(str(found))
    assert is_harmless(found._repr_html_())
    assert "script" not in Tags(found._repr_html_()).found
    assert json.loads(json.dumps(found.to_dict()))  # unchanged for programs

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

"""What is shown: hints of what was meant, the user's line, and no raw control.

Labels and names of columns that a file may hold reach nobody's terminal raw.
"""

import csv
import json
import pickle
import sys
import warnings
from html.parser import HTMLParser
from unicodedata import category

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

import skope_ope
from skope_ope import (
    IPS,
    SNIPS,
    ActionRewardModel,
    BanditLogs,
    ConstantPolicy,
    DoublyRobust,
    DRns,
    MultiLoggerDR,
    MultiLoggerIPS,
    PolicyScorer,
    PropensityClipper,
    PropensityEstimator,
    SoftmaxPolicy,
    UniformPolicy,
    audit,
    compare_policies,
    evaluate,
)
from skope_ope.__main__ import main
from skope_ope.evaluators import logger_overlap
from skope_ope.exceptions import LowOverlapWarning, OPEWarning
from skope_ope.policies import OnlineClassifierPolicy, action_probabilities


# -- what may have been meant ---------------------------------------------------------
def logs_of(labels):
    return BanditLogs(np.zeros((4, 1)), labels * 2, [1.0, 0, 0, 1], 0.5)


LETTERS = logs_of(["mail", "none"])


def value():
    return DoublyRobust().fit(LETTERS).evaluate(UniformPolicy())


def fitted_elsewhere():
    model = ActionRewardModel(Ridge()).fit(logs_of(["mail", "nonne"]))
    fitted = DoublyRobust(reward_model=FrozenEstimator(model)).fit(LETTERS)
    return fitted.evaluate(UniformPolicy())


def with_offers():
    pandas = pytest.importorskip("pandas")
    offers = pandas.DataFrame({"Mail": [True] * 4, "none": [True] * 4})
    return LETTERS.replace(available=offers)


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (lambda: ConstantPolicy("zzz").fit(LETTERS), None),
        (lambda: ConstantPolicy(1).fit(logs_of(["1", "2"])), "'1'?"),
        (lambda: ConstantPolicy("1").fit(logs_of([1, 2])), "1?"),
        # numbers are not misspelt
        (lambda: ConstantPolicy(11).fit(logs_of([1, 10])), None),
        (lambda: evaluate("x", LETTERS), None),
        (lambda: evaluate("x", LETTERS, evaluators=["SNIPPS"]), "SNIPS?"),
        (lambda: DoublyRobust().fit(LETTERS).score(ConstantPolicy("Mail")), "'mail'"),
        (lambda: ConstantPolicy("Mail").fit(LETTERS), "'mail'"),
        (lambda: action_probabilities(ConstantPolicy("male"), LETTERS), "'mail'"),
        (lambda: BanditLogs([[0]], ["nonee"], [1.0], actions=["a", "none"]), "'none'"),
        (fitted_elsewhere, "'nonne'"),
        (lambda: value().confidence_interval(method="bootstrapp"), "'bootstrap'"),
        (lambda: value().confidence_interval(method="cressie-read"), "'cressie_read'"),
        (lambda: DRns(acceptance="quantil").fit(LETTERS), "'quantile'"),
        (lambda: MultiLoggerDR(pooling="balnced").fit(LETTERS), "'balanced'"),
        (lambda: ActionRewardModel(Ridge(), "onehot").fit(LETTERS), "'one_hot'"),
        (lambda: SoftmaxPolicy(anchor="Logger").fit(LETTERS), "'logger'"),
        (lambda: PropensityEstimator(calibration="sigmod").fit(LETTERS), "'sigmoid'"),
        (lambda: DoublyRobust().set_params(cmx=3), "'cmax'"),
        (lambda: UniformPolicy().set_params(bogus_name=3), None),
        (lambda: compare_policies(UniformPolicy(), LETTERS, baseline="logr"), "'l"),
        (with_offers, "'mail'"),
        (
            lambda: OnlineClassifierPolicy(initial=([[0]], ["Mail"])).reset(LETTERS),
            "'m",
        ),
    ],
)
def test_hints(ask, answer):
    with pytest.raises((ValueError, TypeError)) as info:
        ask()
    _, hint, meant = str(info.value).partition("Did you mean ")
    if answer is None:
        assert not hint
    else:
        assert meant.startswith(answer)


def test_names_of_the_package():
    for name, hint in (("DoubleRobust", "DoublyRobust"), ("dataset", "datasets")):
        with pytest.raises(AttributeError, match=f"Did you mean '{hint}'"):
            getattr(skope_ope, name)
    with pytest.raises(AttributeError, match=r"no attribute '_path_of_nothing'\.$"):
        skope_ope._path_of_nothing  # noqa: B018
    assert not hasattr(skope_ope, "anything")


# -- the line of the user -------------------------------------------------------------
RARE = BanditLogs(
    np.zeros((60, 1)),
    np.arange(60) % 2,
    np.arange(60) % 3 / 2,
    np.where(np.arange(60) == 1, 1e-4, 0.5),
    actions=[0, 1, 2],
)
OFTEN = ConstantPolicy(1).fit(RARE)


def evaluated():
    IPS().fit(RARE).evaluate(OFTEN)


def scored():
    IPS().fit(RARE).score(OFTEN)


def scored_in_a_pipeline():
    make_pipeline(PropensityClipper(1e-6), IPS()).fit(RARE).score(OFTEN)


def scored_by_a_scorer():
    PolicyScorer(SNIPS())(ConstantPolicy(2).fit(RARE), RARE)


@pytest.mark.parametrize(
    "call", [evaluated, scored, scored_in_a_pipeline, scored_by_a_scorer]
)
def test_warnings_point_at_the_line_of_the_user(call):
    with pytest.warns(OPEWarning) as caught:
        call()
    assert {one.filename for one in caught} == {__file__}
    assert {one.lineno for one in caught} == {call.__code__.co_firstlineno + 1}


def test_warnings_can_be_made_errors_and_are_told_once():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(LowOverlapWarning):
            evaluated()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(2):
            evaluated()
    assert [one.category for one in caught].count(LowOverlapWarning) == 1


# -- hidden characters ----------------------------------------------------------------
# Controls, formats, lone surrogates, ends of lines: a terminal obeys them, shows the
# letters around them in another order, or cannot write them.
HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J\x1b]0;title\x07", r"\x1b[2J\x1b]0;title\x07"),
        ("a\r\nb\tc\x00", r"a\r\nb\tc\x00"),
        ("\x7f\x9b31m", r"\x7f\x9b31m"),
        ("user\u202egnp.exe", r"user\u202egnp.exe"),
        ("\u2066\u200b\ufeff\u2028\xad", r"\u2066\u200b\ufeff\u2028\xad"),
        ("\udc80", r"\udc80"),
        ("\U000e0041", r"\U000e0041"),
        (3, "3"),
        # letters of all languages stay
        ("Zürich", "Zürich"),
        ("東京\u3000", "東京\u3000"),
        ("\u0645\u06cc\u200c\u062e\u0648", "\u0645\u06cc\u200c\u062e\u0648"),
        ("👩\u200d💻", "👩\u200d💻"),
        ("<b>&amp;a\xa0b", "<b>&amp;a\xa0b"),
        ("", ""),
    ],
)
def test_hidden_characters_are_told(text, shown):
    assert str(OPEWarning(text)) == shown
    assert str(OPEWarning(shown)) == shown
    again = pickle.loads(pickle.dumps(OPEWarning(text, 0.5)))
    assert (str(again), again.value) == (shown, 0.5)


def test_no_hidden_character_is_passed_over():
    every = map(chr, range(sys.maxunicode + 1))
    hidden = [char for char in every if category(char) in HIDDEN]
    shown = str(OPEWarning("".join(hidden)))
    # joiners shape letters and emoji
    assert {char for char in shown if category(char) in HIDDEN} == set("\u200c\u200d")


EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e<script>alert('1')</script>&\x7f"
SHOWN = r"\x1b]0;owned\x07\x1b[2J"
N = 400


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


def is_harmless(text):
    return not any(category(char) in HIDDEN and char != "\n" for char in text)


class Tags(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.found = set()
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.add(tag)


@pytest.fixture
def shown(logs):
    """All that is shown of such logs, with the warnings."""
    policies = {f"new{EVIL}": UniformPolicy(), "same": np.full((N, 2), 0.5)}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        table = evaluate(policies, logs)
        value = MultiLoggerIPS(pooling="balanced").fit(logs).evaluate(UniformPolicy())
        things = [logs, table, value, value.diagnostics, audit(logs)]
        things += [
            table[f"new{EVIL}", "IPS"].by("action"),
            audit(UniformPolicy(), logs),
        ]
        things += [
            logger_overlap(UniformPolicy(), logs),
            compare_policies(policies, logs),
        ]
        texts = [str(thing) for thing in things]
        pages = [one._repr_html_() for one in things if hasattr(one, "_repr_html_")]
    return texts, pages, [str(warning.message) for warning in caught]


def test_texts_warnings_and_pages_are_harmless(shown):
    texts, pages, told = shown
    assert all(map(is_harmless, (*texts, *told)))
    assert sum(SHOWN in text for text in texts) >= 4  # and they are told
    assert told
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
        rows = zip(*(c.tolist() for c in columns.values()), strict=True)
        csv.writer(file).writerows([columns, *rows])
    return path


COLUMNS = (f"--action=item{EVIL}", "--reward=click", f"--propensity=p{EVIL}")
COLUMNS_OF_ALL = (*COLUMNS, f'--exclude=server,"pi{EVIL}"', "--logger", "server")


@pytest.mark.few_cases
@pytest.mark.parametrize("command", ["evaluate", "audit"])
@pytest.mark.parametrize("policy", [f"always:a{EVIL}", "greedy"])
def test_the_command_line_is_harmless(path, capsys, command, policy):
    words = [command, str(path), *COLUMNS_OF_ALL, "--policy", policy]
    assert main([*words, "--progress"]) in (0, 1)
    out, err = capsys.readouterr()
    assert is_harmless(out + err) and SHOWN in out
    assert main([*words, "--json"]) in (0, 1)
    out, err = capsys.readouterr()
    assert is_harmless(out)
    assert json.loads(out)["arguments"]["policy"] == policy  # programs get it all


def test_errors_are_harmless(path, capsys):
    for words in (
        *(["--action", f"no{EVIL}"], ["--reward", f"item{EVIL}"], [f"--{EVIL}"]),
        *(["--context", one] for one in (f'"x{EVIL}",nope', EVIL, "*")),
        *(["--policy", one] for one in (f"always:c{EVIL}", f"file{EVIL}")),
        *(["--policy", "uniform", one, EVIL] for one in ("--reward-model", "--level")),
        ["--policy-columns", ",".join([f'"pi{EVIL}"'] * 3)],
    ):
        assert main(["evaluate", str(path), *COLUMNS, *words]) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert is_harmless(err)
    # and so is a path
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

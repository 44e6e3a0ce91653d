# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What sentences call an outcome, from the column of a log to decision and page."""

import pickle
import re
import warnings
from html import unescape

import numpy as np
import pytest

from skope_ope import (
    BanditLogs,
    FunctionPolicy,
    SlateLogs,
    compare_policies,
    concat,
    report,
    scan_logs,
    summarize,
)
from skope_ope.__main__ import main
from skope_ope.evaluators import ValueSummary

pd = pytest.importorskip("pandas")
pytestmark = pytest.mark.frames

SYSTEM = "the system that made the log"
N = 4000
RATES = {"better": 0.16, "other": 0.05}


def chance(rng, hit, better, other):
    return (rng.random(N) < np.where(hit, better, other)).astype(float)


def amounts(rng, hit, better, other, error):
    return rng.normal(np.where(hit, better, other), error)


WORLDS = {
    "click": lambda rng, hit: chance(rng, hit, 0.16, 0.05),
    "revenue": lambda rng, hit: amounts(rng, hit, 5.0, 4.0, 1.0),
    "complaint": lambda rng, hit: -chance(rng, hit, 0.02, 0.18),
    "margin": lambda rng, hit: amounts(rng, hit, 0.30, -0.28, 1.0),  # about 0
    "balance": lambda rng, hit: amounts(rng, hit, -0.1, -0.6, 1.0),  # below 0
    "tip": lambda rng, hit: amounts(rng, hit, 0.26, -0.24, 1.0),  # .04, error .016
    "vote": lambda rng, hit: 2 * chance(rng, hit, 0.6, 0.5) - 1,  # .1, error .016
}


def frame_of(outcome, name=None):
    """Rounds of a uniform logger, whose right action depends on x."""
    rng = np.random.default_rng(0)
    x, action = rng.normal(size=N), rng.integers(2, size=N)
    reward = WORLDS[outcome](rng, action == (x > 0))
    item = np.array(["a", "b"])[action]
    return pd.DataFrame({"x": x, "item": item, name or outcome: reward})


def logs_of(outcome, name=None):
    columns = {"action": "item", "reward": name or outcome, "propensity": 0.5}
    return BanditLogs.from_frame(frame_of(outcome, name), **columns, context=["x"])


def towards(sign):
    def rule(X):
        return np.where(sign * np.asarray(X)[:, 0] > 0, "b", "a")

    return FunctionPolicy(rule)


EVEN = FunctionPolicy(lambda X: np.tile([0.45, 0.55], (len(X), 1)))
POLICIES = {"deploy": towards(1), "keep": towards(-1), "undecided": EVEN}


def told(logs, decision):
    """Return what a comparison and a report say where they come to a decision."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        comparison = compare_policies({"new": POLICIES[decision]}, logs)
        found = report({"new": POLICIES[decision]}, logs)
    assert comparison.decision == found.decision == decision
    return comparison, found


# -- the name stands in every sentence that tells an amount ----------------------------
AMOUNT = re.compile(r"\d(?:%| points|(?: '\w+')? per round)")


@pytest.mark.parametrize("decision", POLICIES)
@pytest.mark.parametrize("outcome", ["click", "revenue", "margin", "balance"])
def test_every_sentence_with_an_amount_names_the_outcome(outcome, decision):
    for found in told(logs_of(outcome), decision):
        sentences = re.split(r"(?<=[a-z)%'])\. ", found.sentence)
        with_amounts = [one for one in sentences if AMOUNT.search(one)]
        assert with_amounts
        assert [one for one in with_amounts if f"'{outcome}'" not in one] == []


def test_shares_and_amounts_stand_beside_those_of_the_baseline():
    share = r"'click' in [\d.]+% instead of [\d.]+%"
    amount = r"[\d.]+ instead of [\d.]+ 'revenue' per round"
    for outcome, pattern in (("click", share), ("revenue", amount)):
        for decision in ("deploy", "keep"):
            for found in told(logs_of(outcome), decision):
                assert re.search(pattern, found.sentence)
    comparison, found = told(logs_of("click"), "deploy")
    pair = re.search(share, comparison.sentence)[0]
    assert f"new would have had {pair}, a gain of" in found.sentence
    value, reference = comparison["new"].value, comparison.reference.value
    assert pair == f"'click' in {value:.2%} instead of {reference:.2%}"


def test_a_log_without_names_tells_of_rewards():
    named = logs_of("click")
    for reward in (named.reward, named.reward.tolist(), pd.Series(named.reward)):
        logs = BanditLogs(named.context, named.action, reward, 0.5)
        comparison, found = told(logs, "deploy")
        for one in (comparison, found):
            assert re.search(r"a reward in [\d.]+% instead of", one.sentence)
            assert "'" not in one.sentence


# -- costs, and bases about zero -------------------------------------------------------
COST = r"a cost in 'complaint' of 0\.0\d+ instead of 0\.1?\d+ per round"


@pytest.mark.parametrize("name", ["complaint", "minus_complaint", "-complaint"])
def test_costs_are_told_as_costs(name):
    comparison, found = told(logs_of("complaint", name), "deploy")
    assert re.search(COST + r" \(-0\.0\d+ per round, -", comparison.sentence)
    assert re.search(COST + r", a saving of 0\.0\d+ per round", found.sentence)
    lift = comparison.lifts["new"].value
    assert 0.5 < lift < 1
    assert f"That is {lift:.0%} less 'complaint' than {SYSTEM} (-" in found.sentence
    assert "Would new have had less 'complaint' than" in unescape(found.to_html())
    assert "Costs are negative rewards." in found.to_html()
    comparison, found = told(logs_of("complaint", name), "keep")
    assert re.search(r" \(\+0\.0\d+ per round, \+0", comparison.sentence)
    assert comparison.sentence.endswith("Less 'complaint' counts as better.")
    assert ", an additional cost of 0.0" in found.sentence
    assert re.search(r"That is \d\d% more 'complaint' than", found.sentence)


def test_costs_without_a_name_are_told_as_costs():
    reward = logs_of("complaint").reward
    logs = logs_of("complaint").replace(reward=reward)
    comparison, found = told(logs, "deploy")
    assert re.search(r"with a cost of 0\.0\d+ instead of", comparison.sentence)
    assert re.search(r"That is \d\d% less cost than", found.sentence)


@pytest.mark.parametrize("outcome", ["margin", "balance", "tip", "vote"])
@pytest.mark.parametrize("decision", ["deploy", "keep"])
def test_no_relative_gain_is_told_about_a_base_near_or_below_zero(outcome, decision):
    logs = logs_of(outcome)
    _, found = told(logs, decision)
    if outcome == "tip":  # its interval excludes zero, and not half of the mean
        assert not np.isnan(found.comparison.lifts["new"].value)
    assert "That is" not in found.sentence
    assert f"instead of {logs.reward.mean():.3f}"[:-1] in found.sentence
    gains = re.search(r"<h2>Gains</h2>(.*?)<figcaption>", found.to_html(), re.S)[1]
    assert "%" not in re.sub(r"<svg.*?</svg>", "", gains, flags=re.S)


def test_a_relative_gain_is_told_where_the_base_is_well_above_zero():
    _, found = told(logs_of("revenue"), "keep")
    told_share = f"That is {-found.comparison.lifts['new'].value:.0%} less 'revenue'"
    assert told_share in found.sentence


# -- who made the log ------------------------------------------------------------------
@pytest.mark.parametrize("decision", POLICIES)
def test_a_manager_reads_of_the_system_that_made_the_log(decision):
    comparison, found = told(logs_of("click"), decision)
    for text in (comparison.sentence, found.sentence, found.headline, found.title):
        assert "logger" not in text
    assert SYSTEM in comparison.sentence and SYSTEM in found.title
    page = re.sub(r"<(style|svg|details).*?</\1>", "", found.to_html(), flags=re.S)
    page = page.replace("The logger is the system that made the log.", "")
    assert "logger" not in page
    assert "gain over the logger" in repr(comparison)  # the term of the table


def test_findings_that_say_logger_are_beside_what_that_is():
    logs = logs_of("click").replace(propensity=np.full(N, 0.3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = report({"new": POLICIES["deploy"]}, logs)
    box = re.search(r'<section class="advice.*?</section>', found.to_html(), re.S)[0]
    assert "logger" in " ".join(one.sentence + one.first_step for one in found.alarms)
    assert "The logger is the system that made the log." in box


# -- how the name travels with the log -------------------------------------------------
def test_the_name_is_that_of_the_column_and_stays_with_the_rows():
    logs = logs_of("click")
    parts = [logs, logs[5:], logs[np.arange(9)], logs.with_columns(y=logs.reward)]
    parts += [pickle.loads(pickle.dumps(logs)), concat([logs[:9], logs[9:]])]
    parts += [logs.replace(propensity=np.full(N, 0.5))]
    assert {one.reward_name for one in parts} == {"click"}
    assert logs.summary()["reward"].startswith("click, 0 to 1, mean ")


def test_other_rewards_have_another_name_or_none():
    logs = logs_of("click")
    assert logs.replace(reward=1 - logs.reward).reward_name is None
    named = pd.Series(1 - logs.reward, name="bounce")
    assert logs.replace(reward=named).reward_name == "bounce"
    by_hand = BanditLogs(logs.context, logs.action, named, 0.5)
    assert by_hand.reward_name == "bounce"
    with_others = concat([logs, by_hand])
    assert with_others.reward_name is None


def test_pages_have_the_name_of_the_rewards_of_slots():
    shown = {"page": [1, 1, 2], "place": [1, 2, 1], "film": ["a", "b", "a"]}
    frame = pd.DataFrame(shown | {"click": [0, 1, 0]})
    where = {"round": "page", "slot": "place", "item": "film", "context": []}
    logs = SlateLogs.from_frame(frame, slot_reward="click", **where)
    assert logs[:1].reward_name == "click"


@pytest.fixture
def source(tmp_path):
    """The clicks as a csv file."""
    path = tmp_path / "clicks.csv"
    frame_of("click").assign(p=0.5).to_csv(path, index=False)
    return path


COLUMNS = {"action": "item", "reward": "click", "propensity": "p"}
PAIR = "'click' in 14.6% instead of"


@pytest.mark.parametrize("kind", ["file", "sums", "frame"])
def test_lazy_logs_know_the_name(source, kind, monkeypatch):
    polars = pytest.importorskip("polars")
    pytest.importorskip("pyarrow")
    given = polars.scan_csv(source) if kind == "frame" else source
    lazy = scan_logs(given, **COLUMNS, context=["x"])
    if kind == "sums":
        monkeypatch.setattr("skope_ope.selection._compare_policies.MOST_READ", 100)
    assert kind == "frame" or lazy.head(3).reward_name == "click"
    policy = POLICIES["deploy"]
    policies = {"new": policy} if kind != "frame" else {"new": "x"}
    if kind == "frame":  # a policy as columns: the probability of the logged action
        frame = polars.scan_csv(source)
        agrees = (polars.col("x") > 0) == (polars.col("item") == "b")
        given = frame.with_columns(pi=agrees.cast(polars.Float64))
        lazy = scan_logs(given, **COLUMNS, context=["x"], columns=["pi"])
        policies = {"new": "pi"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = compare_policies(policies, lazy, evaluator="SNIPS")
    assert "'click' in 1" in found.sentence


def test_summaries_and_their_files_know_the_name(source, tmp_path):
    logs = logs_of("click")
    policies = {"new": POLICIES["deploy"]}
    first, rest = (
        summarize(policies, some, evaluators=["SNIPS"])
        for some in (logs[:900], logs[900:])
    )
    first.save(tmp_path / "first.npz")
    total = ValueSummary.load(tmp_path / "first.npz") + rest
    assert total.logged_value()._log.reward_name == "click"


def test_the_shell_names_the_outcome(source, capsys):
    words = ["evaluate", str(source), "--action", "item", "--reward", "click"]
    words += ["--propensity", "p", "--context", "x"]
    words += ["--policy", "old=always:a", "--policy", "new=greedy"]
    path = source.with_name("page.html")
    assert main([*words, "--report", str(path)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "reward click, 0 to 1, mean" in out
    assert f"Gains over the mean click of {SYSTEM}, in pairs" in out
    assert "would have had 'click' in" in out
    assert "would have had 'click' in" in unescape(path.read_text())

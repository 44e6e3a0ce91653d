# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

from itertools import pairwise

import numpy as np
import pytest

from skope_ope import (
    PlackettLuceSlatePolicy,
    PseudoInverse,
    SlateIPS,
    UniformSlatePolicy,
    compare_policies,
    evaluate,
    scan_logs,
    summarize,
)
from skope_ope.evaluators import ValueSummary
from skope_ope.exceptions import PropensityWarning
from skope_ope.logs.sums import _row_sample
from skope_ope.logs.sums._log_sums import LogSums
from tests.logs.checks import test_lost_rows as lost
from tests.logs.checks.test_shared_pages import pages, sampled, short_pages
from tests.logs.checks.test_slate_order import as_sorted, with_slates

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")


def counted(n=900):
    """Pages where the number of candidates is what differs."""
    size, empty = 20 + np.arange(n) % 3 * 10, np.full((n, 4), -1)
    return sampled(UniformSlatePolicy(4), empty, 0, n_candidates=size)


PASSED = pages(900, 40, 4, 8, 10, passed=True)
WRONG_ORDER = as_sorted(PASSED, 0.5)
LOGS = {
    "forgotten": pages(900, 40, 4, 8, 10),
    "passed": PASSED,
    "forgotten by slot": short_pages(900),
    "passed by slot": short_pages(900, passed=True),
    "counted": counted(),
    # samples keep no features of items
    "wrong order": with_slates(WRONG_ORDER, WRONG_ORDER.slate, item_features=None),
    "wrong rows": lost.made(*lost.lose(*lost.pages(900), keep_first=True)),
}


UNIFORM = UniformSlatePolicy(4)
QUICK = "slate_pairs", "slate_order", "lost_rows"


def told(logs, *cuts, target=None, **more):
    """Findings of the log by a value from stretches of rows, the last one first."""
    parts = [logs[a:b] for a, b in pairwise([0, *cuts, len(logs)])] if cuts else [logs]
    return findings(sum(summed(part, target, **more) for part in parts[::-1]))


def summed(logs, target=None, evaluator=None):
    target = target or UniformSlatePolicy(logs.n_slots)
    evaluators = {"PI": evaluator or PseudoInverse()}
    return summarize({"new": target}, logs, evaluators=evaluators)


def findings(total):
    value = total.values()["new", "PI"]
    return {w.name: float(w.value) for w in value.warnings if w.name in QUICK}


@pytest.mark.parametrize("name", LOGS)
def test_parts_keep_the_slates_and_what_pages_offer(name, tmp_path):
    logs = LOGS[name]
    value = PseudoInverse().fit(logs).evaluate(UniformSlatePolicy(4))
    own = {one.name: float(one.value) for one in value.warnings}
    names = {"forgotten": "slate_pairs", "wrong order": "slate_order"}
    names |= {"forgotten by slot": "slate_pairs", "wrong rows": "lost_rows"}
    expected = {one: own[one] for one in [names[name]]} if name in names else {}
    assert told(logs) == told(logs, 100, 101, 500) == pytest.approx(expected)
    summed(logs[:400]).save(tmp_path / "part.npz")
    read = ValueSummary.load(tmp_path / "part.npz") + summed(logs[400:])
    assert findings(read) == pytest.approx(expected)


def test_groups_and_weights_are_kept():
    logs = pages(20, 12, 3, 1, 12)[np.repeat(np.arange(20), 50)]
    assert told(logs, 300)
    assert not told(logs.replace(group=np.repeat(np.arange(20), 50)), 300)
    weight = np.arange(1000) % 4.0
    weighted = logs.with_columns(sample_weight=weight)
    assert told(weighted, 300) == told(weighted) != told(logs)


def test_parts_that_differ_are_not_compared():
    forgotten, target = LOGS["forgotten"], UniformSlatePolicy(4)
    more = with_slates(
        forgotten,
        forgotten.slate,
        n_candidates=41,
        slot_reward=None,
        item_features=None,
    )
    assert told(forgotten)
    for part in (LOGS["passed"], more):
        assert not findings(summed(forgotten, target) + summed(part, target))


def test_fewer_slates_are_kept_where_pages_offer_much(monkeypatch):
    monkeypatch.setattr(_row_sample, "FEWEST_SLATES", 100)
    monkeypatch.setattr(_row_sample, "MOST_BYTES", 200 * 5)  # 40 bits by page
    assert len(LogSums.of(LOGS["forgotten"]).sample) == 900
    assert len(LogSums.of(LOGS["passed"]).sample) == 200
    assert len(LogSums.of(LOGS["passed by slot"]).sample) == 100


@pytest.mark.parametrize("passed", [True, False])
def test_right_parts_are_quiet(passed):
    for seed in range(15):
        logs = short_pages(600, passed=True, seed=seed)
        if not passed:  # nothing to pass: every page offers all candidates
            logs = pages(600, 12, 4, 1, 12, seed)
        assert not told(logs, 200, 300)


@pytest.mark.parametrize("name", LOGS)
def test_of_a_logger_that_is_not_asked_only_lost_rows_are_told(name):
    """Weights of recorded propensities: an order that is wrong is no part of them."""
    logs = LOGS[name]
    logs = logs.replace(propensity=logs.logging_policy.slate_proba(logs, logs.slate))
    names = ["lost_rows"] if name == "wrong rows" else []
    assert [*told(logs, 300, evaluator=SlateIPS())] == names
    found = [one.name for one in SlateIPS().fit(logs).evaluate(UNIFORM).warnings]
    assert [one for one in found if one in QUICK] == names


@pytest.mark.parametrize("logger", [None, PlackettLuceSlatePolicy(np.ones(6), 4)])
def test_lost_rows_of_loggers_that_are_not_uniform(logger):
    """Their slates are kept where slots have rewards, for this test alone."""
    wrong, right = LOGS["wrong rows"], lost.made(*lost.pages(900))
    for logs, names in ((wrong, ["lost_rows"]), (right, [])):
        logs = logs.replace(logging_policy=logger, propensity=1 / 360)
        assert [*told(logs, 300, evaluator=SlateIPS())] == names


# -- decisions ------------------------------------------------------------------------
NEW = PlackettLuceSlatePolicy(np.arange(40) + 1.0, n_slots=4)


def stored(folder, logs):
    """Logs in three parquet files."""
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(logs.slate, columns=list("abcd"))
    frame["query"], frame["clicks"] = logs.context[:, 0], logs.reward
    for k, rows in enumerate(np.array_split(np.arange(len(frame)), 3)):
        frame.iloc[rows].to_parquet(folder / f"{k}.parquet")
    roles = {"slate": list("abcd"), "context": ["query"], "reward": "clicks"}
    logger = UniformSlatePolicy(4)
    return scan_logs(str(folder), **roles, n_candidates=40, logging_policy=logger)


@pytest.mark.frames
def test_no_decision_rests_on_forgotten_candidates_of_lazy_logs(tmp_path):
    lazy = stored(tmp_path, pages(6000, 40, 4, 8, 10))
    table, value, compared = (
        warned(ask)
        for ask in (
            lambda: evaluate(NEW, lazy),
            lambda: PseudoInverse().fit(lazy).evaluate(NEW),
            lambda: compare_policies({"new": NEW}, lazy),
        )
    )
    assert table.reason.startswith("the candidates or the logging policy do not fit")
    assert value.verdict.answer == "not supported"
    assert "slate_pairs" in [one.name for one in value.verdict.reasons]
    assert compared.decision == "undecided"


def warned(ask):
    with pytest.warns(PropensityWarning, match="candidates were not passed"):
        return ask()


@pytest.mark.frames
@pytest.mark.filterwarnings("error::skope_ope.exceptions.PropensityWarning")
def test_right_lazy_logs_lead_to_decisions(tmp_path):
    lazy = stored(tmp_path, pages(6000, 40, 4, 1, 40))
    assert compare_policies({"new": NEW}, lazy).decision == "deploy"


def of_thirds(logs, target):
    """The value from the sums of three parts."""
    thirds = np.array_split(np.arange(len(logs)), 3)
    total = sum(summed(logs[rows], target) for rows in thirds)
    return total.values()["new", "PI"]


def test_sums_of_parts_warn():
    wrong, right = pages(6000, 40, 4, 8, 10), short_pages(6000, passed=True)
    for logs, warns in ((wrong, True), (right, False)):
        told = [type(one) for one in of_thirds(logs, NEW).warnings]
        assert (PropensityWarning in told) == warns
    for name, reason in (("wrong rows", "lost_rows"), ("wrong order", "slate_order")):
        value = of_thirds(LOGS[name], UniformSlatePolicy(4))
        assert value.verdict.answer == "not supported"
        assert reason in [one.name for one in value.verdict.reasons]


@pytest.mark.frames
def test_no_decision_rests_on_lost_rows_of_lazy_logs(tmp_path):
    """The slots have rewards, and the probability of a slate is all that is known."""
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    target = PlackettLuceSlatePolicy(np.arange(6) + 4.0, n_slots=4)
    slate, clicked = lost.lose(*lost.pages(), keep_first=True)
    frame = pd.DataFrame(np.column_stack([slate, clicked]), columns=list("abcdwxyz"))
    frame = frame.astype(dict.fromkeys("abcd", int)).assign(u=0.0, p=1 / 360)
    frame.to_parquet(tmp_path / "0.parquet")
    roles = {"slate": list("abcd"), "context": ["u"], "slot_reward": list("wxyz")}
    lazy = scan_logs(str(tmp_path), **roles, n_candidates=6, propensity="p")
    with pytest.warns(PropensityWarning, match="Rows without a reward"):
        table = evaluate(target, lazy, evaluators={"IPS": SlateIPS()})
    assert table.reason.startswith("rows of pages are missing from the logs")

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

"""Several policies in one call of `skope-ope evaluate`."""

import pickle

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import ShuffleSplit

from skope_ope import (
    BanditLogs,
    ClassifierPolicy,
    LinUCB,
    UniformPolicy,
    compare_policies,
    evaluate,
)
from tests.shell.conftest import CONTEXT

NEW = "new=columns:pi_book,pi_film,pi_song"
TWO = ("--policy", NEW, "--policy", "even=uniform")


def by_row(report):
    """Records by (policy, evaluator)."""
    return {(one["policy"], one["evaluator"]): one for one in report["values"]}


def test_several_policies_have_the_values_of_each(clicks, record):
    _, logs, pi = clicks
    logs = logs.replace(logging_proba=None)
    report = record(*TWO)
    assert report["policies"] == ["new", "even"]
    expected = evaluate({"new": pi, "even": UniformPolicy()}, logs)
    found = by_row(report)
    assert list(found) == list(expected)
    assert report["level_of_each"] == pytest.approx(0.975)
    for key, value in expected.items():
        low, high = value.confidence_interval(0.975)
        assert found[key]["value"] == pytest.approx(value.value, rel=1e-12)
        assert found[key]["low"] == pytest.approx(low, rel=1e-9)
        assert found[key]["high"] == pytest.approx(high, rel=1e-9)
    # one policy has its interval to itself
    alone = by_row(record("--policy", NEW))
    low, _ = expected["new", "IPS"].confidence_interval(0.95)
    assert alone["new", "IPS"]["low"] == pytest.approx(low, rel=1e-9)


def test_gains_and_the_decision_are_those_of_a_comparison(clicks, record):
    _, logs, pi = clicks
    logs = logs.replace(logging_proba=None)
    report = record(*TWO)
    comparison = compare_policies({"new": pi, "even": UniformPolicy()}, logs)
    verdict = report["decision"].pop("verdict")
    assert verdict["answer"] == comparison.differences["new"].verdict.answer
    assert verdict["audited"] is False
    decision = {"decision": "deploy", "choice": "new", "sentence": comparison.sentence}
    assert report["decision"] == decision
    found = by_row(report)
    for row in comparison.to_records():
        gain = found[row["policy"], "DoublyRobust"]["gain"]
        assert gain["value"] == pytest.approx(row["difference"], rel=1e-9)
        assert gain["low"] == pytest.approx(row["difference_low"], rel=1e-6)
        assert gain["high"] == pytest.approx(row["difference_high"], rel=1e-6)
    assert "decision" not in record("--policy", NEW)


def test_text_holds_one_table_by_policy_and_evaluator(told):
    code, text = told(*TWO)
    assert code == 0
    lines = text.splitlines()
    cells = [line.split() for line in lines]
    for policy in ("new", "even"):
        rows = [row for row in cells if row[:2] == [policy, "DoublyRobust"]]
        assert [row[-1] for row in rows] == ["recommended", rows[1][-1]]
        assert len(rows) == 2  # values and gains
    system = "the system that made the log"
    assert f"Gains over the mean click of {system}, in pairs" in lines
    joined = " ".join(text.split())
    assert "policy new probabilities in columns (book: pi_book" in joined
    told = f"Deploy new: by DoublyRobust it is better than {system}, with 'click' in "
    assert told in joined
    assert "Each alone has the level 97.5%" in joined


def test_warnings_name_the_policy(clicks, record, told):
    words = (*TWO, "--evaluators", "DirectMethod,IPS")
    (warning,) = record(*words)["warnings"]
    assert warning["evaluators"] == ["new/DirectMethod", "even/DirectMethod"]
    rows = [line for line in told(*words)[1].splitlines() if "DirectMethod" in line]
    assert [row.endswith("[1]") for row in rows[:2]] == [True, True]


def test_all_are_evaluated_on_the_rounds_that_a_learned_one_has_not_seen(
    clicks, record, tmp_path
):
    _, logs, pi = clicks
    table = tmp_path / "table.csv"
    table.write_text("action,share\nbook,1\nfilm,0\nsong,0\n")
    words = ("--policy", "learned=greedy", *CONTEXT, "--train-share", "0.4")
    words += ("--evaluators", "IPS")
    others = (*TWO, "--policy", f"table=table:{table}", "--policy", "one=always:film")
    report = record(*words, *others)
    assert report["n_rounds"] == 360
    found = {policy: one for (policy, _), one in by_row(report).items()}
    alone, learned = by_row(record(*words))["learned", "IPS"], found["learned"]
    assert learned == alone | {key: learned[key] for key in ("low", "high", "gain")}
    # probabilities of columns belong to these rounds: the weights average to one
    split = ShuffleSplit(1, train_size=0.4, random_state=0)
    test = np.sort(next(split.split(np.arange(600)))[1])
    rest = logs[test]
    expected = evaluate(pi[test], rest, evaluators=["IPS"])["IPS"]
    assert found["new"]["value"] == pytest.approx(expected.value, rel=1e-12)
    book = np.mean((rest.action_index == 0) * rest.reward / rest.propensity)
    assert found["table"]["value"] == pytest.approx(book, rel=1e-12)


def test_policies_of_files_and_of_the_logged_action(clicks, record, tmp_path):
    _, logs, _ = clicks
    labels = np.array(["book", "film", "song"])[logs.action_index]
    rounds = BanditLogs(logs.context, labels, logs.reward, logs.propensity)
    path = tmp_path / "a=b.pkl"
    policy = ClassifierPolicy(LogisticRegression(), epsilon=0.1).fit(rounds)
    path.write_bytes(pickle.dumps(policy))
    words = (*CONTEXT, "--trust", "--policy")
    # a file whose name holds "=" is a file
    assert record(*words, path)["policies"] == ["policy"]
    found = record(*words, f"saved={path}", "--policy", "other=columns:pi_logged")
    # of one the logged action's probability is all that is known
    rows = [f"{policy} {name}" for policy, name in by_row(found)]
    assert rows == ["saved IPS", "saved SNIPS", "other IPS", "other SNIPS"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["uniform", "b=uniform"], "need names, --policy NAME=POLICY, got 'uniform'"),
        (["a=uniform", "a=greedy"], "two policies are called 'a'"),
        (["logger=uniform"], "'logger' means the logger itself"),
        (["<b>a</b>=uniform"], "'<b>a</b>' is no name of a policy. Names begin with"),
        (["a.lower=uniform"], "'a.lower' is no name of a policy"),
        (["3=uniform"], "'3' is no name of a policy"),
        (["=uniform"], "'' is no name of a policy"),
        (["\x1b[2Ja=uniform"], r"'\x1b[2Ja' is no name of a policy"),
        (["a="], "--policy '' is neither a file nor one of uniform, greedy"),
        (["a=unif"], "--policy 'unif' is neither a file nor one of uniform, greedy"),
        (["a=columns:pi_book,p"], "names 2 columns, but there are 3 actions"),
        (["a=columns:pi_song,pi_book,pi_film"], "but the actions are ['book', 'film',"),
        (["a=columns:x\ny"], "--policy columns:... is no list of names"),
        (["a=table:missing.csv"], "missing.csv: no such file"),
    ],
)
def test_names_and_policies_that_are_none(refused, words, message):
    options = [part for word in words for part in ("--policy", word)]
    assert message in refused(*options)


def test_options_that_go_with_one_policy_only(clicks, refused, tmp_path):
    path = tmp_path / "linucb.pkl"
    path.write_bytes(pickle.dumps(LinUCB()))
    columns = ("--policy-columns", "pi_book,pi_film,pi_song")
    learner = ("--policy", f"ucb={path}", "--trust", *CONTEXT)
    for words, message in (
        (columns, "POLICY may be columns:A,B or table:FILE"),
        (("--compare-logs", clicks[0]), "the log of one policy, but 2 are named"),
        (("--policy-table-by", "item"), "--policy-table-by chooses a column"),
        (learner, "learns while it acts must be evaluated alone"),
    ):
        assert message in refused(*TWO, *words)

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Policies that the command line reads from files or learns; see also test_main.py."""

import json
import pickle
import sys

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from skope_ope import ClassifierPolicy, EpsilonGreedy, LinUCB, UniformPolicy
from skope_ope.__main__ import main

ROLES = ["--action", "item", "--reward", "r", "--propensity", "p"]
ROWS = (
    "item,r,p,age,city,kind\na,1,0.5,20,Rome,2\nb,0,0.5,60,Oslo,1\na,1,0.5,40,Rome,2\n"
)
CONTEXT, AGE = ["--context", "age,city"], ["--context", "age"]


@pytest.fixture
def run(tmp_path, capsys):
    """Evaluate a policy on the file; return the IPS value, or the line of the error."""
    (tmp_path / "log.csv").write_text(ROWS)

    def run(*words, policy=None, table=None, log=None, evaluators="IPS"):
        if log is not None:
            (tmp_path / "log.csv").write_text(log)
        words = [*ROLES, "--evaluators", evaluators, *words, "--json"]
        if "--context" not in words:
            words += ["--context", ""]
        if table is not None:
            (tmp_path / "table.csv").write_text(table)
            words += ["--policy-table", str(tmp_path / "table.csv")]
        if policy is not None:
            (tmp_path / "policy.pkl").write_bytes(pickle.dumps(policy))
            words += ["--policy", str(tmp_path / "policy.pkl"), "--trust"]
        code = main(["evaluate", str(tmp_path / "log.csv"), *words])
        out, err = capsys.readouterr()
        return err if code else json.loads(out)["values"][0]["value"]

    return run


# The value of the file: 2 (pi(a) + pi(a)) / 3 of its rows 0 and 2, rewarded both.


def read(run, table, by):
    return run(*([] if by is None else ["--policy-table-by", by]), table=table)


@pytest.mark.parametrize(
    ("table", "by", "shares"),
    [
        ("action,probability,n\nb,0.25,7\na,0.75,8\n", None, (0.75, 0.75)),
        ("action,whatever\na,1\n", None, (1, 1)),
        ("item,alpha,prob_1,prob_2\nb,9,0.5,1\na,8,0.5,0\n", "kind", (0, 0)),
        ("item,Rome,Oslo\na,0.5,1\nb,0.5,0\n", "city", (0.5, 0.5)),
        # rounded probabilities are made to sum to one
        ("item,p\na,0.3333\nb,0.6666\n", None, (1 / 3, 1 / 3)),
        ("item,p\na,0.33\nb,0.66\n", None, (1 / 3, 1 / 3)),
    ],
)
def test_tables(run, table, by, shares):
    assert read(run, table, by) == pytest.approx(2 * sum(shares) / 3, rel=1e-12)


def test_labels_may_be_numbers_in_one_of_the_files(run):
    numbers = ROWS.replace("\na", "\n1").replace("\nb", "\n2")
    found = run(table="item,p\n1,0.5\nx,0.5\n", log=numbers)
    assert "to action 'x', which the log does not have" in found
    assert run(table="item,p\n1,1\nx,0\n", log=numbers) == pytest.approx(4 / 3)


def test_bad_tables(run):
    for table, by, message in (
        ("", None, "is empty"),
        ("item,p\n", None, "is empty"),
        ("item,p\na,1,2\n", None, "line 2: 3 cells under 2 column names"),
        ("item,p\na,0.5\na,0.5\n", None, "an action occurs twice"),
        ("item,p,q\na,1,1\n", None, "'item', 'p', 'q': call the one with the probab"),
        ("item,p\na,x\n", None, "line 2: column 'p' is 'x', expected a probability"),
        ("item,p\na,0_1.0\n", None, "'p' is '0_1.0', expected a probability"),
        ("item,p\na,-1\n", None, "line 2: column 'p' is '-1'"),
        ("item,p\na,0.5\nb,0.4\n", None, "column 'p' sums to 0.9 over the actions"),
        ("item,p\na,0.5\nc,0.5\n", None, "name all actions with --actions"),
        ("item,p_1\na,1\n", "kind", "must be called 2, or end in '_2'"),
        ("item,p_1,p_2,q_2\na,1,1,1\n", "kind", "2 such columns"),
    ):
        assert message in read(run, table, by)


# Saved policies see the columns as they are, not as models that are fitted here.

BY_AGE = ClassifierPolicy(DecisionTreeClassifier()).fit([[30.0], [60.0]], ["a", "b"])


def test_columns_in_their_order(run):
    assert run(*AGE, policy=BY_AGE) == pytest.approx(4 / 3)
    policy = ClassifierPolicy(LogisticRegression()).fit(np.eye(2), ["a", "b"])
    found = run(*AGE, policy=policy)
    assert "on 2 numbers without column names, but 1 are named" in found
    assert "column 'city' holds texts" in run(*CONTEXT, policy=policy)
    # policies that look at nothing need no columns
    policy = UniformPolicy().fit(np.zeros((2, 3)), ["a", "b"])
    assert run(policy=policy) == pytest.approx(2 / 3)
    for thing in (LogisticRegression(), {"p": 1}, LogisticRegression):
        found = run(*AGE, policy=thing)
        assert "policy" in found or "class" in found


@pytest.mark.frames
def test_columns_by_name(run, monkeypatch):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("narwhals")
    frame = pandas.DataFrame({"age": [30, 60]})
    policy = ClassifierPolicy(LogisticRegression()).fit(frame, ["a", "b"])
    assert run(*CONTEXT, policy=policy) == pytest.approx(4 / 3)
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert "needs pandas" in run(policy=policy)


def test_a_policy_that_learns_acts_on_the_columns_as_they_are(run):
    """Who looks at no context needs none of them."""
    rows = ROWS.splitlines()
    log = "\n".join([rows[0], *rows[1:] * 30])
    for policy, context in ((LinUCB(), AGE), (EpsilonGreedy(), CONTEXT)):
        assert run(*context, policy=policy, log=log, evaluators="Replay") > 0.9


# A policy that is learned on a part of the rounds


@pytest.mark.few_cases
@pytest.mark.parametrize("learner", ["logistic", "hist"])
@pytest.mark.parametrize("shift", [0, -1, -5])
def test_the_right_action_is_learned_from_rewards_of_any_sign(run, learner, shift):
    """Action b is right where x > 0, action a elsewhere."""
    rng = np.random.RandomState(0)
    x, action = rng.standard_normal(2000), rng.randint(2, size=2000)
    reward = (action == (x > 0)) + shift
    rows = zip(np.take([*"ab"], action), reward, x, strict=True)
    log = "item,r,p,x\n" + "\n".join(f"{a},{r},0.5,{one}" for a, r, one in rows)
    words = "--policy", "greedy", "--learner", learner, "--context", "x"
    found = run(*words, log=log, evaluators="SNIPS")
    assert found - shift > 0.9


def test_a_few_rounds_cannot_be_divided(run):
    found = run(*AGE, "--policy", "greedy")
    assert "on 3 round(s); at least 4 are needed" in found

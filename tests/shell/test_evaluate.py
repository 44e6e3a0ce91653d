# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

"""Parts of the command line's work that its options reach in one way only."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from skope_ope import BanditLogs
from skope_ope.__main__ import main
from skope_ope._shell._evaluate import logger_records, model_text, start_report
from skope_ope._shell._policies import PolicyAsked
from skope_ope._shell._progress import ProgressLine
from skope_ope._shell._target import extra_column, learned
from skope_ope.readers._table_logs import LogFile


def logs_of(logger=None, n=12):
    rng = np.random.RandomState(0)
    return BanditLogs(
        rng.standard_normal((n, 1)),
        np.arange(n) % 2,
        np.arange(n) % 3 > 0,
        np.full(n, 0.5),
        logger=logger,
    )


def test_loggers_are_listed_where_there_are_a_few():
    assert logger_records(logs_of(), 0.95) == []
    assert logger_records(logs_of(["one"] * 12), 0.95) == []
    assert logger_records(logs_of(np.arange(24), n=24), 0.95) == []
    records = logger_records(logs_of(["a", "b", "b"] * 4), 0.95)
    assert [record["evaluator"] for record in records] == ["logger a", "logger b"]
    assert [record["value"] for record in records] == [0.0, 1.0]


def test_columns_of_logs_that_know_theirs():
    logs = logs_of().with_columns(position=np.arange(12))
    source = LogFile(logs, "open-bandit")
    assert extra_column(source, "position", "label") is logs.columns["position"]
    with pytest.raises(ValueError, match="open-bandit has no column 'x'; it has posit"):
        extra_column(source, "x", "label")


@pytest.mark.parametrize(("policy", "lowest"), [("greedy", 0), ("epsilon-greedy", 0.1)])
def test_only_epsilon_greedy_explores(policy, lowest):
    args = SimpleNamespace(random_state=0, epsilon=0.2, learner="logistic")
    logs = logs_of()
    found, told = learned(
        PolicyAsked("new", policy), args, logs, ProgressLine(None, False)
    )
    assert found.predict_proba(logs.context).min() == pytest.approx(lowest)
    assert ("epsilon 0.2" in told) == (policy == "epsilon-greedy")


def test_models_are_told():
    args = SimpleNamespace(folds=3)
    one = {"DRns": SimpleNamespace(estimator="DRns")}
    assert model_text(args, None, {}) == "mean reward of the action, out of fold"
    assert model_text(args, None, one).startswith("mean reward of the action, out of")
    assert "(DRns: of all actions together)" in model_text(args, None, one)
    assert model_text(args, 0.5, one) == "0.5 everywhere"
    assert model_text(args, args, {}) == (
        "SimpleNamespace for each action, out of fold (3 folds)"
    )


def test_reports_leave_out_what_runs_them():
    args = SimpleNamespace(command="demo", run=print, json=True)
    report = start_report(args, [])
    assert report["arguments"] == {"command": "demo", "json": True}
    assert report["level"] == 0.95


def test_all_probabilities_of_a_trace(tmp_path, capsys):
    path = tmp_path / "trace.jsonl"
    lines = [
        {
            "request": {"tokens": k},
            "route": {"model": "abc"[k % 3], "probs": {"a": 0.2, "b": 0.3, "c": 0.5}},
            "solved": k % 2,
        }
        for k in range(60)
    ]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    def told(*words):
        roles = ("--action", "route.model", "--reward", "solved")
        code = main(["evaluate", str(path), *roles, "--policy", "uniform", *words])
        return code, "".join(capsys.readouterr())

    given = ("route.probs", "route.probs.c,route.probs.b,route.probs.a")
    given += ("c=route.probs.c,b=route.probs.b,a=route.probs.a",)
    answers = {
        told("--logging-proba", proba, "--context", context)
        for proba in given
        for context in ("request", "request.*")
    }
    assert len(answers) == 1
    code, text = answers.pop()
    assert code != 2
    assert "propensity 0.2 to 0.5" in text
    code, text = told("--propensity", "route.probs", "--context", "request")
    assert code == 2
    assert "route.probs is an object of a, b, c: use --logging-proba." in text
    code, text = told("--propensity", "estimate", "--logging-proba", "route.probs")
    assert code == 2
    assert "--propensity estimate and --logging-proba are both given" in text

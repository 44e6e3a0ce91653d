# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""A reward model and folds are checked by all calls, used or not."""

from functools import partial

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge

from skope_ope import (
    UniformPolicy,
    UniformSlatePolicy,
    audit,
    compare_policies,
    evaluate,
    report,
    scan_logs,
    suggest,
    summarize,
)
from skope_ope.datasets import make_adaptive_logs, make_bandit_logs, make_slate_logs

BANDIT = make_bandit_logs(60, random_state=0)
SLATES = make_slate_logs(60, random_state=0)
ONLY_WEIGHTS = (
    partial(evaluate, evaluators=["IPS"]),
    partial(summarize, evaluators=["IPS"]),
)
CALLS = [evaluate, summarize, audit, compare_policies, report, suggest]
WRONG = [
    ({"reward_model": "banana"}, ValueError, "not a column"),
    ({"reward_model": object()}, TypeError, "must be a scikit-learn"),
    ({"reward_model": Ridge}, TypeError, "is the class Ridge"),
    ({"reward_model": np.zeros((3, 2))}, ValueError, "must have shape"),
    ({"reward_model": Ridge(), "cv": "prefit"}, NotFittedError, "not fitted"),
    ({"cv": "prefit"}, ValueError, "needs a fitted reward_model, got None"),
    ({"cv": 1}, ValueError, "at least 2 folds, got 1"),
    ({"cv": "five"}, ValueError, "cv must be 'prefit', a number or folds"),
    ({"cv": 2.5}, TypeError, "cv must be a number of folds, a splitter"),
]


@pytest.mark.parametrize("call", [*CALLS, *ONLY_WEIGHTS])
@pytest.mark.parametrize(("arguments", "error", "words"), WRONG)
def test_the_model_and_the_folds_of_a_call(call, arguments, error, words):
    policies = {"a": UniformPolicy(), "b": 0}
    with pytest.raises(error, match=words):
        call(policies, BANDIT, **arguments)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(("arguments", "error", "words"), WRONG)
def test_the_model_and_the_folds_of_a_call_about_slates(call, arguments, error, words):
    policies = {"a": UniformSlatePolicy(SLATES.n_slots), "b": SLATES.slate}
    wrong_model = not isinstance(
        arguments.get("reward_model"), (Ridge, type, type(None))
    )
    if wrong_model:
        error, words = TypeError, "must be a scikit-learn regressor"
    with pytest.raises(error, match=words):
        call(policies, SLATES, **arguments)


@pytest.mark.parametrize("source", ["array", "column"])
def test_a_policy_of_logged_actions_gets_no_reward_model(source):
    own = BANDIT.propensity
    logs, policy = (
        (BANDIT, own) if source == "array" else (BANDIT.with_columns(p=own), "p")
    )
    table = evaluate(policy, logs)
    assert list(table) == ["IPS", "SNIPS"]
    suggestion = suggest(policy, logs)
    assert type(suggestion.evaluator).__name__ == "SNIPS"
    assert suggestion.evaluator.fit(logs).evaluate(policy).value == table["SNIPS"].value
    learner = make_adaptive_logs(3000, means=(0.6, 0.4), random_state=0)
    assert (
        type(suggest(np.full(3000, 0.5), learner).evaluator).__name__ == "AdaptiveIPS"
    )


def test_an_audit_of_lazy_logs_takes_the_policies_that_evaluate_takes(tmp_path):
    """Few lazy rounds come into memory, but what is refused does not depend on that."""
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(
        {"a": BANDIT.action, "r": BANDIT.reward, "p": BANDIT.propensity}
    )
    frame.to_parquet(tmp_path / "logs.parquet")
    lazy = scan_logs(tmp_path, action="a", reward="r", propensity="p")
    for call in (evaluate, audit):
        with pytest.raises(TypeError, match=r"is an array, and lazy logs .* columns="):
            call(np.full((60, 3), 1 / 3), lazy)
        with pytest.raises(ValueError, match=r"is 'pi', .* scan_logs\(..., columns="):
            call("pi", lazy)

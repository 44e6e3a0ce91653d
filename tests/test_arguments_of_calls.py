# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""A reward model and folds are checked by all calls, used or not."""

from functools import partial

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge
from sklearn.model_selection import GroupKFold, KFold

import skope_ope as ope
from skope_ope.datasets import make_adaptive_logs, make_bandit_logs, make_slate_logs

BANDIT = make_bandit_logs(60, random_state=0)
SLATES = make_slate_logs(60, random_state=0)
ONLY_WEIGHTS = (
    partial(ope.evaluate, evaluators=["IPS"]),
    partial(ope.summarize, evaluators=["IPS"]),
)
CALLS = [
    ope.evaluate,
    ope.summarize,
    ope.audit,
    ope.compare_policies,
    ope.report,
    ope.suggest,
]
WRONG = [
    ({"reward_model": "banana"}, ValueError, "not a column"),
    ({"reward_model": object()}, TypeError, "must be a scikit-learn"),
    ({"reward_model": Ridge}, TypeError, "is the class Ridge"),
    ({"reward_model": np.zeros((3, 2))}, ValueError, "must have shape"),
    ({"reward_model": Ridge(), "cv": "prefit"}, NotFittedError, "not fitted"),
    ({"cv": np.array(3)}, TypeError, "cv must be a number of folds, a splitter"),
    ({"cv": 1}, ValueError, "at least 2 folds, got 1"),
    ({"cv": "five"}, ValueError, "cv must be 'prefit', a number or folds"),
    ({"cv": 2.5}, TypeError, "cv must be a number of folds, a splitter"),
]


@pytest.mark.parametrize("call", [*CALLS, *ONLY_WEIGHTS])
@pytest.mark.parametrize(("arguments", "error", "words"), WRONG)
def test_the_model_and_the_folds_of_a_call(call, arguments, error, words):
    policies = {"a": ope.UniformPolicy(), "b": ope.ConstantPolicy(0)}
    with pytest.raises(error, match=words):
        call(policies, BANDIT, **arguments)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(("arguments", "error", "words"), WRONG)
def test_the_model_and_the_folds_of_a_call_about_slates(call, arguments, error, words):
    policies = {"a": ope.UniformSlatePolicy(SLATES.n_slots), "b": SLATES.slate}
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
    table = ope.evaluate(policy, logs)
    assert list(table) == ["IPS", "SNIPS"]
    suggestion = ope.suggest(policy, logs)
    assert type(suggestion.evaluator).__name__ == "SNIPS"
    assert ope.report(policy, logs).evaluator == "SNIPS"
    gain = ope.compare_policies(policy, logs).differences["the policy"]
    assert gain.value == table["SNIPS"].value - logs.reward.mean()
    assert suggestion.evaluator.fit(logs).evaluate(policy).value == table["SNIPS"].value
    learner = make_adaptive_logs(3000, means=(0.6, 0.4), random_state=0)
    assert (
        type(ope.suggest(np.full(3000, 0.5), learner).evaluator).__name__
        == "AdaptiveIPS"
    )


def test_an_audit_of_lazy_logs_takes_the_policies_that_evaluate_takes(tmp_path):
    """Few lazy rounds come into memory, but what is refused does not depend on that."""
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(
        {"a": BANDIT.action, "r": BANDIT.reward, "p": BANDIT.propensity}
    )
    frame.to_parquet(tmp_path / "logs.parquet")
    lazy = ope.scan_logs(tmp_path, action="a", reward="r", propensity="p")
    for call in (ope.evaluate, ope.audit):
        with pytest.raises(TypeError, match=r"is an array, and lazy logs .* columns="):
            call(np.full((60, 3), 1 / 3), lazy)
        with pytest.raises(ValueError, match=r"is 'pi', .* scan_logs\(..., columns="):
            call("pi", lazy)


GIVEN = [
    {"reward_model": ope.ActionRewardModel(Ridge()).fit(BANDIT), "cv": "prefit"},
    {"reward_model": FrozenEstimator(ope.ActionRewardModel(Ridge()).fit(BANDIT))},
    {"reward_model": Ridge(), "cv": KFold(3)},
    {"reward_model": np.full((60, 3), 0.5)},
    {"reward_model": 0.5, "cv": 3},
]


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
def test_what_was_given_is_used_and_its_code_runs(given):
    policy = ope.UniformPolicy()
    ope.audit(policy, BANDIT, **given)
    expected = ope.evaluate(policy, BANDIT, random_state=0, **given)[
        "DoublyRobust"
    ].value
    suggestion = ope.suggest(policy, BANDIT, **given)
    assert suggestion.evaluator.fit(BANDIT).evaluate(policy).value == expected
    known = {"logs": BANDIT, "policy": policy, **given}
    exec(suggestion.code, known)
    assert known["value"].value == expected


def test_splitters_without_what_they_need():
    for call in (ope.evaluate, ope.suggest):
        with pytest.raises(TypeError, match="cv is the class KFold; make an instance"):
            call(ope.UniformPolicy(), BANDIT, cv=KFold)
    with pytest.raises(ValueError, match=r"GroupKFold needs groups.* with group="):
        ope.evaluate(ope.UniformPolicy(), BANDIT, cv=GroupKFold(3))
    for cv in ([], [([0, 1], [99_999])]):
        with pytest.raises(ValueError, match="cv "):
            ope.suggest(ope.UniformPolicy(), BANDIT, cv=cv)


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
def test_prefit_is_about_the_model_of_the_call_if_there_is_one():
    policy, named = (
        ope.UniformPolicy(),
        {"a": ope.UniformPolicy(), "b": ope.ConstantPolicy(0)},
    )
    own = ope.DoublyRobust(reward_model=FrozenEstimator(Ridge()), cv="prefit")
    own.set_params(reward_model=0.5)
    table = ope.evaluate(policy, BANDIT, evaluators={"own": own}, cv="prefit")
    assert table["own"].value == own.fit(BANDIT).score(policy)
    for call in (ope.evaluate, ope.summarize, ope.compare_policies, ope.report):
        with pytest.raises(ValueError, match="needs a fitted reward_model, got None"):
            call(named, BANDIT, cv="prefit")
    with pytest.raises(ValueError, match="needs a fitted reward_model, got None"):
        ope.suggest(policy, BANDIT, cv="prefit")


@pytest.mark.parametrize("labels", [[True, False], [0.2, 0.5]])
def test_labels_that_could_be_probabilities_are_refused(labels):
    action = np.array(labels)[np.arange(60) % 2]
    logs = ope.BanditLogs(np.zeros((60, 1)), action, np.ones(60), np.full(60, 0.5))
    for call in (ope.evaluate, ope.report, ope.compare_policies):
        with pytest.raises((TypeError, ValueError), match="actions"):
            call(action[::-1], logs)

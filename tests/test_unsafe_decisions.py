# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Logs that cannot know, and the decisions that nobody may take on them."""

import json
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import GridSearchCV

from skope_ope import (
    IPS,
    BanditLogs,
    ClassifierPolicy,
    ConstantPolicy,
    FunctionPolicy,
    PolicyScorer,
    PropensityEstimator,
    audit,
    compare_policies,
    evaluate,
    report,
    scan_logs,
    suggest,
    summarize,
    verdict,
)
from skope_ope.__main__ import main
from skope_ope.exceptions import PropensityWarning

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
CONDITION = "Deploy, if nothing outside the context drove the choices"


def drawn(proba, random):
    return (proba.cumsum(axis=1) > random.random((len(proba), 1))).argmax(axis=1)


def hole(n=5_000, seed=0, sign=1, **more):
    """Finding 1a: in 5% of the contexts the policy does what was hardly ever logged."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(n, 3))
    greedy, rare = (x[:, 0] > 0).astype(int), x[:, 1] > 1.645
    mu = np.full((n, 4), 0.001)
    mu[np.arange(n), greedy] += 0.996
    action = drawn(mu, random)
    mean = np.where(action < 2, 0.3, np.where(rare, 0, 0.6))
    reward = sign * (random.random(n) < mean).astype(float)
    policy = np.where(rare, 2, greedy)
    p = mu[np.arange(n), action]
    logs = BanditLogs(x, action, reward, p, actions=range(4), **more)
    return logs, np.eye(4)[policy], mu


def wrong_estimate(n=3_000, seed=0):
    """Finding 2: the logger looks at |x|, and a logistic regression does not."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(n, 2))
    size = np.abs(x[:, 0])
    action = (random.random(n) < 1 / (1 + np.exp(-1.5 * (size - 0.8)))).astype(int)
    reward = (random.random(n) < 0.2 + 0.25 * (size > 0.8)).astype(float)
    return BanditLogs(x, action, reward)


def rule(n=3_000, seed=0):
    """Finding 2b: a rule decided, and the action does nothing."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(n, 2))
    action = (x[:, 0] > 0).astype(int)
    return BanditLogs(x, action, (random.random(n) < 0.3 + 0.2 * action).astype(float))


def right_estimate(n=3_000, seed=0):
    """A logistic logger, and an action that is better by .2."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(n, 2))
    action = (random.random(n) < 1 / (1 + np.exp(-x[:, 0]))).astype(int)
    return BanditLogs(x, action, (random.random(n) < 0.3 + 0.2 * action).astype(float))


NAMED = ["--action", "action", "--reward", "reward", "--propensity", "p"]


def columns_of(logs):
    return {"action": logs.action, "reward": logs.reward, "p": logs.propensity}


def estimated(logs, *classifier):
    return PropensityEstimator(*classifier).fit_transform(logs)


def seems_better(comparison):
    low, high = comparison.differences["new"].confidence_interval()
    return low > 0 or high < 0


# -- what the log may lack -------------------------------------------------------------
def missing(interval):
    return [one for one in interval.warnings if one.name == "missing_weight"]


@pytest.mark.parametrize("sign", [1, -1], ids=["deploy", "keep"])
def test_a_hole_stops_every_decision_alike(sign):
    logs, policy, _ = hole(sign=sign, reward_range=(min(sign, 0), max(sign, 0)))
    found = compare_policies({"new": policy}, logs)
    assert not seems_better(found)
    assert found.decision == "undecided"
    told = report({"new": policy}, logs)
    assert told.decision == "undecided"
    gain = found.differences["new"]
    low, high = gain.confidence_interval()
    assert missing(gain.confidence_interval())
    assert low < sign * -0.0155 < high
    for value in (gain, pickle.loads(pickle.dumps(gain))):
        assert value.confidence_interval() == pytest.approx((low, high), rel=1e-9)
        [reason] = [r for r in value.verdict.reasons if r.name == "missing_weight"]
        assert reason.severity != "note"
        assert "logging_proba" in reason.text


def test_the_missing_weight_is_that_of_either_policy_unless_shares_are_known():
    logs, policy, _ = hole()
    stay = np.eye(4)[(logs.context[:, 0] > 0).astype(int)]
    found = compare_policies({"new": stay, "old": policy}, logs, baseline="old")
    assert not seems_better(found)
    assert found.decision == "undecided"
    n = 300
    action = (np.arange(n) % 10 < 6).astype(int)  # by chance less than expected
    logs = BanditLogs(np.zeros((n, 1)), action, 1.0 - action, np.full(n, 0.5))
    found = compare_policies({"new": ConstantPolicy(0)}, logs)
    assert found["new"].diagnostics["mean_weight_z"] < -2
    assert found.decision == "deploy"


@pytest.mark.parametrize("evaluator", ["DRns", "RejectionSampling", "SNIPS"])
def test_every_evaluator_of_a_fixed_policy_knows_what_the_log_may_lack(evaluator):
    random, n = np.random.default_rng(0), 20_000
    hidden = random.random(n) < 0.12  # where the logger never takes action 1
    mu = np.tile([0.997 / 3] * 3 + [0.003], (n, 1))
    mu[hidden] = [0.4985, 0, 0.4985, 0.003]
    action = drawn(mu, random)
    reward = (random.random(n) < np.where(action == 1, 0.6, 0.5)) * 1.0
    p = mu[np.arange(n), action]
    logs = BanditLogs(hidden[:, None] * 1.0, action, reward, p)
    found = compare_policies({"new": ConstantPolicy(1)}, logs, evaluator=evaluator)
    assert found.decision == "undecided"
    names = [one.name for one in found.differences["new"].verdict.reasons]
    assert "missing_weight" in names


def test_the_remedy_works():
    logs, policy, mu = hole()
    known = logs.replace(logging_proba=mu)
    found = compare_policies({"new": policy}, known)
    assert not missing(found.differences["new"].confidence_interval())
    for accepted in (["missing_weight"], ("missing_weight", "tail")):
        found = compare_policies({"new": policy}, logs, accepted=accepted)
        assert found.decision == "undecided"  # it is in the interval
    with pytest.raises(TypeError, match="accepted must be a collection"):
        compare_policies({"new": policy}, logs, accepted="missing_weight")


@pytest.mark.frames
def test_files_and_merged_days_say_the_same(tmp_path):
    pd = pytest.importorskip("pandas")
    logs, policy, _ = hole()
    columns = dict(zip("abc", logs.context.T, strict=True)) | columns_of(logs)
    pd.DataFrame(columns).to_parquet(tmp_path / "log.parquet")
    named = {"action": "action", "reward": "reward", "propensity": "p"}
    rule = FunctionPolicy(lambda X: np.where(X["b"] > 1.645, 2, (X["a"] > 0) * 1))
    lazy = scan_logs(tmp_path, **named, context=list("abc"), actions=[0, 1, 2, 3])
    found = compare_policies({"new": rule}, lazy)
    assert not seems_better(found)
    assert found.decision == "undecided"
    halves = [
        summarize({"new": policy[rows]}, logs[rows], evaluators=["IPS", "SNIPS"])
        for rows in (np.arange(2_500), np.arange(2_500, 5_000))
    ]
    total = sum(halves)
    gain = total.values()["new", "IPS"] - total.logged_value()
    assert missing(gain.confidence_interval())
    whole = summarize({"new": policy}, logs, evaluators=["IPS", "SNIPS"])
    whole = whole.values()["new", "IPS"] - whole.logged_value()
    assert_allclose(gain.confidence_interval(), whole.confidence_interval())


REQUIREMENTS = {"policy.gain.upper < 0": False, "policy.upper < logger": False}
REQUIREMENTS |= {"policy.verdict >= caution": True, "policy.lower > 0": True}


@pytest.mark.frames
@pytest.mark.parametrize(("requirement", "holds"), REQUIREMENTS.items())
def test_the_gate_shares_the_rule(tmp_path, capsys, requirement, holds):
    pd = pytest.importorskip("pandas")
    logs, policy, _ = hole(reward_range=(0, 1))
    columns, path = {f"pi{a}": policy[:, a] for a in range(4)}, tmp_path / "log.csv"
    pd.DataFrame(columns_of(logs) | columns).to_csv(path, index=False)
    words = [*NAMED, "--policy-columns", ",".join(columns), "--require", requirement]
    words += ["--json", "--no-audit", "--evaluators", "IPS"]
    code = main(["evaluate", str(path), *words])
    record = json.loads(capsys.readouterr().out)
    [gate] = record["requirements"]
    assert gate["holds"] is holds
    assert code == (0 if holds else 1)


@pytest.mark.frames
def test_the_gate_of_two_policies_shares_the_rule(tmp_path, capsys):
    pd = pytest.importorskip("pandas")
    random, n = np.random.default_rng(0), 6_000
    hidden = random.random(n) < 0.12  # where the logger never takes b
    p_b = np.where(hidden, 0.0, 0.4)
    other = np.where(random.random(n) < 0.5, "a", "c")
    action = np.where(random.random(n) < p_b, "b", other)
    p = np.where(action == "b", p_b, (1 - p_b) / 2)
    reward = (random.random(n) < np.where(action == "b", 0.6, 0.5)).astype(int)
    path = tmp_path / "log.csv"
    frame = pd.DataFrame({"action": action, "reward": reward, "p": p, "x": hidden * 1})
    frame.to_csv(path, index=False)
    words = "--context x --no-audit --policy new=always:b --policy old=always:a"
    words += " --evaluators SNIPS --require"
    words = ["evaluate", str(path), *NAMED, *words.split(), "new > old"]
    assert main(words) == 1
    assert "missing_weight" in capsys.readouterr().out
    assert main([*words, "--accept", "missing_weight"]) == 0


# -- estimated propensities ------------------------------------------------------------
@pytest.mark.parametrize(
    ("world", "name"),
    [(wrong_estimate, "propensity_misfit"), (rule, "propensity_too_large")],
)
def test_wrong_estimates_stop_what_wrong_records_stop(world, name):
    logs, policy = estimated(world()), ConstantPolicy(1)
    with pytest.warns(PropensityWarning, match="Estimate them with a classifier"):
        found = compare_policies({"new": policy}, logs)
    assert found.decision == "undecided"
    told = report({"new": policy}, logs)
    assert told.headline == "No decision yet: correct the log first"
    fault = audit(logs).alarms[0]
    assert (fault.name, fault.severity) == (name, "error")
    assert "HistGradientBoostingClassifier" in fault.text
    value = IPS().fit(logs).evaluate(policy)
    assert verdict(value).answer == "not supported"
    assert verdict(value, audit=audit(policy, logs)).answer == "not supported"
    stop = suggest(policy, logs).stop
    if world is rule:  # what it says of the raw log
        assert stop == suggest(policy, world()).stop
    assert stop is not None
    gone = pickle.loads(pickle.dumps(value)).verdict
    assert "so they were not tested: audit the log" in str(gone.reasons)


def test_the_advice_on_wrong_estimates_works():
    better = HistGradientBoostingClassifier(max_iter=30, max_leaf_nodes=7)
    logs = estimated(wrong_estimate(), better)
    assert audit(logs).ok
    assert compare_policies({"new": ConstantPolicy(1)}, logs).decision == "undecided"
    assert suggest(ConstantPolicy(1), logs).stop is None


@pytest.mark.frames
def test_right_estimates_decide_under_a_condition(tmp_path, capsys):
    pd = pytest.importorskip("pandas")
    logs, policy = estimated(right_estimate()), ConstantPolicy(1)
    found = compare_policies({"new": policy}, logs)
    assert found.decision == "deploy"
    assert found.sentence.startswith(f"{CONDITION}: ")
    told = report({"new": policy}, logs)
    assert (told.decision, told.choice) == ("deploy", "new")
    assert told.sentence.startswith(f"{CONDITION}: new.")
    frame = pd.DataFrame({"x": logs.context[:, 0], "action": logs.action})
    path = tmp_path / "log.csv"
    frame.assign(reward=logs.reward).to_csv(path, index=False)
    words = "--action action --reward reward --context x --propensity estimate"
    words = [*words.split(), "--policy", "new=always:1", "--require"]
    assert main(["evaluate", str(path), *words, "new.gain.lower > 0"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "if nothing outside the context drove the choices" in text


def test_the_mean_weight_of_estimates_is_judged_in_either_direction():
    logs = estimated(right_estimate())
    for factor, size in ((0.8, "small"), (1.2, "large")):
        scaled = np.minimum(logs.propensity * factor, 1.0)
        off = logs._with_estimates(propensity=scaled)
        found = compare_policies({"new": ConstantPolicy(1)}, off)
        alarms = found.differences["new"].verdict.alarms
        alarms = [one for one in alarms if one.name == "mean_weight"]
        [reason] = [one for one in alarms if one.found.startswith("Mean weight")]
        assert f"too {size}" in reason.text
        assert found.decision == "undecided"


def test_actions_with_few_rounds_are_told_and_forbid_nothing():
    raw = right_estimate()
    action = raw.action.copy()
    action[:10] = 2
    logs = estimated(BanditLogs(raw.context, action, raw.reward))
    found = audit(logs)
    assert [one.name for one in found.alarms] == ["few_rounds_of_action"]
    assert compare_policies({"new": ConstantPolicy(1)}, logs).decision == "deploy"


def test_no_step_scorer_or_search_tests_estimates(monkeypatch):
    def refuse(self):
        raise AssertionError("a test of estimated propensities")

    monkeypatch.setattr(BanditLogs, "_estimated_propensity_findings", property(refuse))
    logs = estimated(wrong_estimate(600))
    scoring = PolicyScorer(IPS())
    search = GridSearchCV(ClassifierPolicy(), {"epsilon": [0.0, 0.5]}, scoring=scoring)
    search.fit(logs)
    evaluate(ConstantPolicy(1), logs)
    with pytest.raises(AssertionError, match="a test of estimated"):
        compare_policies({"new": ConstantPolicy(1)}, logs)


def test_a_mean_weight_above_one_blames_the_log_for_all_policies():
    # half of the visits without a click were dropped, and no weight says so
    random = np.random.default_rng(0)
    high = random.random(40_000) < 0.5
    action = random.integers(0, 3, 40_000)
    mean = np.where(action == high, 0.4, 0.1)
    mean[action == 2] = 0.3
    reward = random.random(40_000) < mean
    kept = reward | (random.random(40_000) < 0.5)
    context = high[:, None].astype(float)
    logs = BanditLogs(context, action, reward.astype(float), 1 / 3)[kept]
    rule = FunctionPolicy(lambda X: np.eye(3)[np.asarray(X)[:, 0].astype(int)])
    both = compare_policies({"rule": rule, "two": ConstantPolicy(2)}, logs)
    found = {name: [one.name for one in v.warnings] for name, v in both.items()}
    assert "mean_weight" in found["rule"] and "mean_weight" in found["two"]
    assert both.decision == "undecided" and "mean_weight" in both.sentence
    alone = compare_policies({"two": ConstantPolicy(2)}, logs)
    assert "mean_weight" not in [one.name for one in alone["two"].warnings]
    # numbers for the logged actions alone may be wrong themselves
    logged = random.random(len(logs))
    given = {"half": logged, "two": ConstantPolicy(2)}
    both = compare_policies(given, logs, evaluator="SNIPS")
    assert "mean_weight" in [one.name for one in both["half"].warnings]
    assert "mean_weight" not in [one.name for one in both["two"].warnings]

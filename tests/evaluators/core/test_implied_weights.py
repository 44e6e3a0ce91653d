# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What propensities imply of weights that were not logged, against the formulas."""

from unittest.mock import Mock

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import (
    IPS,
    SNIPS,
    BanditLogs,
    ConstantPolicy,
    DirectMethod,
    DoublyRobust,
    audit,
    compare_policies,
    evaluate,
    report,
    scan_logs,
    summarize,
)
from skope_ope.evaluators.core import _implied_weights
from skope_ope.evaluators.core._implied_weights import EDGES, regional_share
from skope_ope.evaluators.core._logged_value import logged_value
from skope_ope.exceptions import LowOverlapWarning

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
EVALUATORS = [IPS(), SNIPS(), DoublyRobust(reward_model=0.4)]


def world(n=2_000, n_actions=2, seed=0, rare=0.01, share=0.2, digits=None):
    """Action 1 is hardly ever taken in a share of the contexts, where it is wanted."""
    random = np.random.default_rng(seed)
    x = random.random((n, 1))
    mu = np.full((n, n_actions), 1 / n_actions)
    hole = x[:, 0] < share
    mu[hole] = rare / (n_actions - 1)
    mu[hole, 0] = 1 - rare
    action = (mu.cumsum(axis=1) > random.random((n, 1))).argmax(axis=1)
    action[hole] = 0  # as it happens
    reward = (random.random(n) < 0.4).astype(float)
    p = mu[np.arange(n), action]
    p = p if digits is None else p.round(digits)
    policy = np.zeros((n, n_actions))
    policy[:, 1] = 1.0
    logs = BanditLogs(
        x, action, reward, p, actions=range(n_actions), reward_range=(0, 1)
    )
    return logs, policy, mu


def by_the_formula(logs, policy, known, value, low, high, w0, half=0.0):
    """The limits, round by round."""
    n = len(logs)
    pi = policy[np.arange(n), logs.action_index]
    u = (1 - pi) / (1 - logs.propensity + half)
    found = []
    for h, R in ((value - low, known[1]), (high - value, known[0])):
        taus = EDGES[w0 <= EDGES]
        mass = np.array([((1 - pi) * (u > tau)).mean() for tau in taus])
        wider = np.sqrt(h**2 + (3 * R / n) ** 2 * (taus**2 - w0**2)) - h
        found.append(float(np.min(wider + mass * R)))
    return low - found[0], high + found[1]


@pytest.mark.parametrize("evaluator", EVALUATORS)
def test_limits_are_those_of_the_formula(evaluator):
    logs, policy, _ = world(rare=0.010371)
    value = evaluator.fit(logs).evaluate(policy)
    plain = evaluator.fit(logs).evaluate(policy)
    plain._find_reach.regional = None  # as where other rounds are known
    low, high = plain.confidence_interval()
    w0 = float(value.diagnostics["max_weight"])
    counts = {IPS: 0.0, SNIPS: value.value, DoublyRobust: 0.4}[type(evaluator)]
    ends = 1 - counts, counts  # upwards, downwards
    wanted = by_the_formula(logs, policy, ends, value.value, low, high, w0)
    found = value.confidence_interval()
    assert_allclose(found, np.clip(wanted, 0, 1), rtol=1e-9)
    assert found[1] > high + 0.06  # 20% of the policy
    told = [one for one in found.warnings if isinstance(one, LowOverlapWarning)]
    doubled = found[1] - found[0] >= 2 * (high - low)
    assert [one.name for one in told] == ["missing_weight"] * doubled


def test_rewards_that_count_as_zero_only_widen_upwards():
    logs, policy, mu = world()
    value = IPS().fit(logs).evaluate(policy)
    plain = IPS().fit(logs).evaluate(policy)
    plain._find_reach.regional = None
    assert value.confidence_interval()[0] == plain.confidence_interval()[0]
    # a policy of what was logged lacks nothing
    same = mu / mu.sum(axis=1, keepdims=True)
    value = IPS().fit(logs).evaluate(same)
    plain = IPS().fit(logs).evaluate(same)
    plain._find_reach.regional = None
    assert_allclose(value.confidence_interval(), plain.confidence_interval())


def test_what_is_known_is_not_guessed():
    logs, policy, mu = world()
    known = logs.replace(logging_proba=mu)
    assert not _missing(IPS().fit(known).evaluate(policy))
    assert not _missing(IPS().fit(logs).evaluate(policy), max_weight=100.0)
    assert not _missing(DirectMethod(reward_model=0.4).fit(logs).evaluate(policy))
    fields = logs.context, logs.action, logs.reward, logs.propensity
    two = BanditLogs(*fields, logger=np.arange(len(logs)) % 2)
    assert not _missing(IPS().fit(two).evaluate(policy))


def _missing(value, **options):
    found = value.confidence_interval(**options)
    return [one for one in found.warnings if one.name == "missing_weight"]


def test_rounded_propensities_are_taken_as_smaller():
    logs, policy, _ = world(rare=0.004, digits=2)
    assert logs.propensity.max() == 1.0  # they say nothing
    logs, policy, _ = world(rare=0.012, digits=2)
    value = IPS().fit(logs).evaluate(policy)
    implied = value._reach().implied[0]
    above = EDGES[np.count_nonzero(implied.mass) - 1]  # it was .01: at most .015
    assert above < 1 / 0.015 < 2**0.25 * above


def test_groups_and_sample_weights_count():
    logs, policy, _ = world()
    weight = np.where(logs.context[:, 0] < 0.2, 3.0, 1.0)
    heavy = IPS().fit(logs).evaluate(policy, sample_weight=weight)
    again = IPS().fit(logs.replace(sample_weight=7 * weight)).evaluate(policy)
    for value in (heavy, again):
        share = value._reach().implied[0].share
        assert share == pytest.approx(
            weight[logs.context[:, 0] < 0.2].sum() / weight.sum()
        )


@pytest.mark.frames
@pytest.mark.parametrize("weighted", [False, True])
def test_all_sources_say_the_same(tmp_path, weighted):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    logs, policy, _ = world(digits=3)
    if weighted:
        weight = np.where(np.arange(len(logs)) % 3 == 0, 4.0, 1.0)
        logs = logs.replace(sample_weight=weight)
    memory = evaluate({"new": policy}, logs, evaluators=EVALUATORS)
    columns = {"a": logs.action, "r": logs.reward, "p": logs.propensity}
    columns |= {f"pi{k}": policy[:, k] for k in range(2)}
    columns |= {"w": logs.sample_weight} if weighted else {}
    frame = pd.DataFrame(columns)
    roles = {"action": "a", "reward": "r", "propensity": "p", "actions": [0, 1]}
    roles |= {"reward_range": (0, 1), "columns": {"pi": ["pi0", "pi1"]}}
    roles |= {"sample_weight": "w"} if weighted else {}
    for k, rows in enumerate((slice(0, 700), slice(700, None))):
        frame[rows].to_parquet(tmp_path / f"{k}.parquet")
    found = [
        evaluate({"new": "pi"}, scan_logs(tmp_path, **roles), evaluators=EVALUATORS)
    ]
    parts = [
        summarize({"new": policy[rows]}, logs[rows], evaluators=EVALUATORS)
        for rows in (slice(0, 700), slice(700, None))
    ]
    found.append(sum(parts).values())
    polars = pytest.importorskip("polars")
    lazy = scan_logs(polars.scan_parquet(tmp_path / "*.parquet"), **roles)
    found.append(evaluate({"new": "pi"}, lazy, evaluators=EVALUATORS))
    for table in found:
        for name, value in memory.items():
            other = table[name].confidence_interval()
            whole = value.confidence_interval()
            assert_allclose(other, whole, rtol=1e-9)
            names = [[w.name for w in one.warnings] for one in (other, whole)]
            assert names[0] == names[1]


def region(seed=0, n=3_000, lost=True):
    """Three actions: others share what an action in a hole would have."""
    random = np.random.default_rng(seed)
    x = random.random((n, 2))
    mu = np.full((n, 3), 1 / 3)
    inside = (x[:, 0] < 0.2) & lost
    mu[inside] = 0.6, 0.0005, 0.3995
    action = (mu.cumsum(axis=1) > random.random((n, 1))).argmax(axis=1)
    reward = (random.random(n) < 0.4).astype(float)
    p = mu[np.arange(n), action]
    logs = BanditLogs(x, action, reward, p, actions=range(3), reward_range=(0, 1))
    return logs, inside


def test_a_region_without_weights_is_found_where_actions_share_the_rest():
    logs, inside = region()
    policy = np.tile([0.0, 1, 0], (len(logs), 1))
    value = DoublyRobust(reward_model=0.4).fit(logs).evaluate(policy)
    assert not value._reach().implied  # no implied weight is above the logged ones
    facts, [found] = region_of(policy, logs)
    share = facts["share that regions of contexts lack"]
    assert inside.mean() - 0.03 < share < inside.mean() + 0.01
    assert (found.severity, found.name) == ("warning", "missing_region")
    compared = compare_policies({"new": policy}, logs, reward_model=0.4)
    wide = compared["new"].confidence_interval()
    low, high = value.confidence_interval()
    assert wide[0] == pytest.approx(low - share * 0.4, abs=0.02)
    assert wide[1] == pytest.approx(high + share * 0.6, abs=0.02)
    assert "missing_weight" in [one.name for one in wide.warnings]


def region_of(policy, logs):
    found = audit(policy, logs)
    return found.facts, [one for one in found.findings if one.name == "missing_region"]


@pytest.mark.parametrize("n_features", [0, 2])
def test_right_logs_lack_no_region(n_features):
    for seed in range(10):
        logs, _ = region(seed, lost=False)
        if not n_features:
            fields = logs.action, logs.reward, logs.propensity
            logs = BanditLogs(np.zeros((len(logs), 0)), *fields)
        policy = np.tile([0.1, 0.8, 0.1], (len(logs), 1))
        _, found = region_of(policy, logs)
        assert not found


def shared_hole(n=10_000, seed=0, share=0.05):
    """One number is recorded per action, but action 1 is never taken in a region."""
    random = np.random.default_rng(seed)
    x = random.random((n, 2))
    hole = x[:, 0] < share
    action = random.integers(0, 3, n)
    action[hole] = np.where(random.random(hole.sum()) < 0.5, 0, 2)
    mean = np.where(hole, np.where(action == 1, 0, 0.9), 0.3 + 0.06 * (action == 1))
    reward = (random.random(n) < mean).astype(float)
    return BanditLogs(x, action, reward, 1 / 3, reward_range=(0, 1)), hole


def test_a_bound_of_the_weights_says_nothing_of_regions():
    logs, _ = shared_hole()
    policy = ConstantPolicy(1)
    found = compare_policies({"one": policy}, logs, evaluator="SNIPS")
    plain = evaluate(policy, logs, evaluators=["SNIPS"])["SNIPS"]
    gain = plain - logged_value(logs)
    assert gain.confidence_interval()[0] > 0  # and the true gain is below zero
    assert found.decision == "undecided"
    assert found.differences["one"].confidence_interval()[0] < -0.01


def test_all_values_of_a_report_allow_for_regions(monkeypatch):
    logs, _ = shared_hole()
    trees = Mock(wraps=_implied_weights._predicted)
    monkeypatch.setattr(_implied_weights, "_predicted", trees)
    found = report({"one": ConstantPolicy(1)}, logs, random_state=0)
    assert trees.call_count == 1  # the page and its audit
    assert_allclose(
        found.values["one", found.evaluator].confidence_interval(),
        found.comparison["one"].confidence_interval(),
    )
    alone = evaluate(ConstantPolicy(1), logs, random_state=0)
    for name, value in alone.items():
        low, high = found.values["one", name].confidence_interval()
        before = value.confidence_interval()
        assert low <= before[0] and high > before[1] + 0.02


def test_more_rounds_do_not_fill_a_region():
    few, many = (
        compare_policies({"one": ConstantPolicy(1)}, logs, evaluator="SNIPS")
        for logs, _ in (shared_hole(10_000), shared_hole(60_000))
    )
    for found in (few, many):
        assert found.decision == "undecided" and "would decide" not in found.sentence


@pytest.mark.parametrize("evaluator", ["DRns", "AdaptiveDR", "BalancedDR"])
def test_what_the_log_lacks_forbids_by_evaluators_without_such_intervals(evaluator):
    logs, hole = shared_hole(seed=1, share=0.045)
    p = np.where(hole, 0.999, 1 / 3)
    logs = logs.replace(propensity=p)
    given = {"evaluator": evaluator, "random_state": 0}
    found = compare_policies({"one": ConstantPolicy(1)}, logs, **given)
    assert found.differences["one"].confidence_interval()[0] > 0
    assert found.decision == "undecided" and "not in the log" in found.sentence


def test_a_part_lacks_what_its_own_rounds_imply(tmp_path):
    logs, policy, _ = world(share=0.2)
    x = logs.context[:, 0]
    part = np.where(x < 0.25, "a", "b")
    value = SNIPS().fit(logs).evaluate(policy)
    parts = value.by(part)
    for label, one in parts.items():
        rows = np.flatnonzero(part == label)
        alone = SNIPS().fit(logs[rows]).evaluate(policy[rows])
        assert one._reach().implied == alone._reach().implied
    assert parts["b"]._reach().implied == ()
    share = parts["a"]._reach().implied[0].share
    assert share == pytest.approx((x < 0.2).sum() / (x < 0.25).sum())
    columns = logs.with_columns(part=part, pi=policy)
    summed = summarize("pi", columns, evaluators=["SNIPS"], by="part")
    for label, one in summed.values()["SNIPS"].by("part").items():
        assert_allclose(one.confidence_interval(), parts[label].confidence_interval())


def test_no_number_of_rounds_fills_a_hole():
    """Finding: "7,300 more rounds would decide", and 60,000 rounds did not."""
    for seed in range(4):
        random, n = np.random.default_rng(seed), 3_000
        x = random.random((n, 1))
        inside = x[:, 0] < 0.08
        mu = np.where(inside[:, None], [0.5, 0.5, 0.0], [0.25, 0.25, 0.5])
        action = (mu.cumsum(axis=1) > random.random((n, 1))).argmax(axis=1)
        rate = np.where(inside, 0.7 * (action < 2), 0.6 + 0.12 * (action == 2))
        reward, rows = random.random(n) < rate, np.arange(n)
        logs = BanditLogs(x, action, reward, mu[rows, action], actions=range(3))
        found = compare_policies({"new": ConstantPolicy(2)}, logs)
        assert found.decision == "undecided"
        assert "of the decisions that the log may lack" in found.sentence
        assert "rounds would decide" not in found.sentence
    known = BanditLogs(
        x, action, reward, mu[rows, action], actions=range(3), logging_proba=mu
    )
    sentence = compare_policies({"new": ConstantPolicy(2)}, known).sentence
    assert "may lack" not in sentence and "not in the log" in sentence


@pytest.mark.parametrize("n_actions", [2, 3])
def test_codes_of_actions_are_no_probabilities(n_actions):
    """Finding: "Deploy" in 20 of 20 logs, +16 points where 5 are lost."""
    for seed in range(5):
        random, n = np.random.default_rng(seed), 4_000
        x, action = random.normal(size=(n, 1)), random.integers(0, n_actions, n)
        chosen = (x[:, 0] > 0).astype(int)
        rate = np.where(x[:, 0] > 0, 0.5, 0.2) - 0.1 * (action == chosen)
        reward = (random.random(n) < rate).astype(float)
        logs = BanditLogs(x, action, reward, 1 / n_actions)
        alarms, decisions = [], []
        for policy in (chosen, action == chosen):
            policy = policy.astype(float)
            alarms.append([one.name for one in audit(policy, logs).alarms])
            decisions.append(compare_policies({"new": policy}, logs).decision)
        assert "codes_as_probabilities" in alarms[0] and alarms[1] == []
        assert decisions == ["undecided", "keep"]


def test_users_who_share_a_draw_lack_no_region():
    found = []
    for seed in range(20):
        random = np.random.default_rng(seed)
        user = np.repeat(np.arange(300), 20)
        x, action = random.random((300, 3))[user], random.integers(0, 3, 300)[user]
        logs = BanditLogs(x, action, np.zeros(6_000), 1 / 3, group=user)
        found.append(regional_share(logs, (action == 1) * 3.0)[0] > 0)
    assert sum(found) <= 2  # 7 without the design effect


def test_regions_do_not_depend_on_the_order_of_the_rows():
    logs, _ = shared_hole()
    shares = {
        regional_share(logs[rows], (logs.action[rows] == 1) * 3.0)[0]
        for rows in (np.arange(10_000), np.random.default_rng(0).permutation(10_000))
    }
    assert len(shares) == 1 and shares.pop() > 0.03


def test_rounded_float32_are_rounded():
    logs, policy, _ = world(rare=0.012, digits=2)
    single = logs.replace(propensity=logs.propensity.astype(np.float32))
    both = (IPS().fit(one).evaluate(policy) for one in (logs, single))
    assert_allclose(*(one.confidence_interval() for one in both), rtol=1e-6)


@pytest.mark.frames
@pytest.mark.parametrize("n_actions", [2, 3])
def test_a_lazy_frame_says_that_regions_were_not_tested(n_actions):
    polars = pytest.importorskip("polars")
    random, n, arms = np.random.default_rng(0), 20_000, np.arange(n_actions)
    x = random.random(n)
    mu = 1 / n_actions + 0.1 * (arms - arms.mean()) * x[:, None]
    action = (mu.cumsum(axis=1) > random.random((n, 1))).argmax(axis=1)
    reward = random.random(n) < 0.3 + 0.2 * (action == 1)
    columns = {"a": action, "r": reward, "p": mu[np.arange(n), action], "x": x}
    policy = np.tile(np.eye(n_actions)[1], (n, 1))
    columns |= {f"pi_{k}": one for k, one in enumerate(policy.T)}
    lazy = scan_logs(
        polars.DataFrame(columns).lazy(),
        **{"action": "a", "reward": "r", "propensity": "p", "context": ["x"]},
        columns={"pi": [f"pi_{k}" for k in range(n_actions)]},
    )
    found = compare_policies({"one": "pi"}, lazy, evaluator="SNIPS")
    assert found.decision == "deploy"
    told = "regions of contexts, which were not tested" in found.sentence
    assert told == (n_actions > 2)

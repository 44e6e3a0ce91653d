# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What propensities imply of weights that were not logged, against the formulas."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import (
    IPS,
    SNIPS,
    BanditLogs,
    DirectMethod,
    DoublyRobust,
    audit,
    compare_policies,
    evaluate,
    scan_logs,
    summarize,
)
from skope_ope.evaluators.core._implied_weights import EDGES
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

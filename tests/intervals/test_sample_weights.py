# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Intervals of logs whose rounds were sampled at unequal rates, counted over logs."""

from functools import partial

import numpy as np
import pytest

from skope_ope import (
    IPS,
    SNDR,
    SNIPS,
    BanditLogs,
    ConstantPolicy,
    DoublyRobust,
    LogSmoothing,
    SwitchDR,
    compare_policies,
)

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
K, RATE, FACTOR = 5, 0.01, 20


def downsampled(random, n=20_000, worse=0.0):
    """Clicks that all were kept, and one in twenty of the other rounds."""
    action = random.randint(K, size=n)
    rate = RATE * np.where(action == 0, 1 - worse, 1 + worse / (K - 1))
    reward = (random.random_sample(n) < rate).astype(float)
    kept = (reward > 0) | (random.random_sample(n) < 1 / FACTOR)
    action, reward = action[kept], reward[kept]
    omega = np.where(reward > 0, 1.0, FACTOR)
    logs = BanditLogs(
        np.zeros((len(reward), 1)), action, reward, 1 / K, sample_weight=omega
    )
    return logs, np.eye(K)[np.zeros(len(logs), dtype=int)]


def lognormal(random, n, rate=0.2):
    """Sample weights of no meaning, and importance weights from .2 to 3.4."""
    proba = np.array([[0.7, 0.2, 0.1], [0.2, 0.6, 0.2]])[np.arange(n) % 2]
    action = (random.random_sample((n, 1)) > proba.cumsum(axis=1)).sum(axis=1)
    mean = rate * (1 + 0.4 * (action - 1))
    reward = (random.random_sample(n) < mean).astype(float)
    omega = random.lognormal(size=n)
    p = proba[np.arange(n), action]
    logs = BanditLogs(np.zeros((n, 1)), action, reward, p, sample_weight=omega)
    return logs, np.tile([0.2, 0.2, 0.6], (n, 1))


LOGNORMAL = {"value": 0.2 * 1.16, "gain": 0.2 * (0.16 + 0.4 * 0.3)}


def counted(world, seed, n_logs, truth):
    """Share of logs that cover the value and the gain, and widths over Student's."""
    random, found = np.random.RandomState(seed), []
    for _ in range(n_logs):
        logs, policy = world(random)
        comparison = compare_policies({"new": policy}, logs, evaluator=SNIPS())
        pair = comparison["new"], comparison.differences["new"]
        for value, true in zip(pair, truth, strict=True):
            auto, student = (
                value.confidence_interval(method=how) for how in ("auto", "student")
            )
            inside = auto.low <= true <= auto.high
            found.append((inside, auto.width / max(student.width, 1e-12)))
    covered, ratio = np.array(found).reshape(n_logs, 2, 2).transpose(2, 0, 1)
    return covered.mean(axis=0), np.median(ratio, axis=0)


@pytest.mark.parametrize("evaluator", [IPS(), SNIPS(), DoublyRobust()])
def test_a_log_without_most_of_its_other_rounds_decides(evaluator, global_random_seed):
    """Finding: "Keep" in 0 of 300 at z = -7, for clicks as heavy as the others."""
    random, z, kept = np.random.RandomState(global_random_seed), [], []
    for _ in range(20):
        logs, policy = downsampled(random, worse=0.7)
        found = compare_policies({"new": policy}, logs, evaluator=evaluator)
        gain = found.differences["new"]
        z.append(gain.value / gain.standard_error)
        kept.append(found.decision == "keep")
    assert abs(np.mean(z) + 7.2) < 1.5
    assert np.mean(kept) >= 0.95


def in_two_stages(random, n=5000):
    """Of clicks all, of others a fifth; of some contexts, in which it pays, few."""
    action, apart = random.randint(2, size=n), random.random_sample(n) < 0.2
    rate = np.where(apart, 0.09 * action, np.where(action == 1, 0.02, 0.04))
    reward = (random.random_sample(n) < rate).astype(float)
    kept = np.where(apart, 0.02, 1.0) * np.where(reward > 0, 1.0, 0.2)
    some = random.random_sample(n) < kept
    columns = (apart[:, None], action, reward)
    columns = (one[some] for one in columns)
    return BanditLogs(*columns, 0.5, sample_weight=1 / kept[some])


def test_clicks_may_be_heavy_where_other_rounds_are(global_random_seed):
    """Finding: "Keep" in 11 of 40 logs without a click of the contexts that pay."""
    random, n_logs = np.random.RandomState(global_random_seed), 60
    gain, covered, kept = 0.5 * (0.2 * 0.09 - 0.8 * 0.02), 0, 0
    for _ in range(n_logs):
        logs = in_two_stages(random)
        found = compare_policies({"new": ConstantPolicy(1)}, logs, evaluator=SNIPS())
        low, high = found.differences["new"].confidence_interval()
        covered += low <= gain <= high
        kept += found.decision == "keep"
    assert kept / n_logs < 0.025 + 4 * np.sqrt(0.025 * 0.975 / n_logs)
    assert covered / n_logs > 0.95 - 4 * np.sqrt(0.95 * 0.05 / n_logs)


def test_weights_of_no_meaning_hardly_widen(global_random_seed):
    """Finding: 14 times as wide as Student's, for a round that is heavy in both."""
    random, n, ratios = np.random.RandomState(global_random_seed), 20_000, []
    for _ in range(5):
        score = np.exp(1.5 * random.normal(size=(n, 3)))
        proba = score / score.sum(axis=1, keepdims=True)
        action = (random.random_sample((n, 1)) > proba.cumsum(axis=1)).sum(axis=1)
        logs = BanditLogs(
            np.zeros((n, 1)), action, random.random_sample(n) < 0.2,
            proba[np.arange(n), action], sample_weight=random.lognormal(size=n),
        )  # fmt: skip
        value = SNIPS().fit(logs).evaluate(np.tile([0.8, 0.1, 0.1], (n, 1)))
        student = value.confidence_interval(method="student")
        ratios.append(value.confidence_interval().width / student.width)
    assert np.median(ratios) < 2


@pytest.mark.theory
@pytest.mark.parametrize("n", [5_000, 10_000, 15_000], ids="{} rounds".format)
def test_few_events_of_such_a_log_are_covered(n, global_random_seed):
    """10 to 30 events, at about the width of Student's: as without sample weights."""
    n_logs, world = 500, partial(downsampled, n=n)
    covered, ratio = counted(world, global_random_seed, n_logs, (RATE, 0.0))
    assert np.all(covered > 0.95 - 4 * np.sqrt(0.95 * 0.05 / n_logs))
    assert np.all(ratio < 1.3)


@pytest.mark.theory
@pytest.mark.parametrize(("n", "widest", "least"), [(3000, 1.3, 1.0), (60, 4.0, 1.2)])
def test_weights_of_no_meaning_are_covered(n, widest, least, global_random_seed):
    """The intervals of short logs are wider: conservative, not narrow."""
    n_logs, world = 500, partial(lognormal, n=n)
    covered, ratio = counted(world, global_random_seed, n_logs, LOGNORMAL.values())
    assert np.all(covered > 0.95 - 4 * np.sqrt(0.95 * 0.05 / n_logs))
    assert np.all((ratio < widest) & (ratio >= least))


EVALUATORS = [
    IPS(),
    IPS(cmax=2.0),
    SNIPS(),
    DoublyRobust(reward_model="q"),
    SNDR(reward_model="q"),
    SwitchDR(reward_model="q", tau=1.5),
    LogSmoothing(lam=0.1),
    DoublyRobust(reward_model="level"),
]


@pytest.mark.parametrize("rewards", [[0, 1], [0, 1, 3, 5], None], ids=str)
def test_no_round_is_beyond_the_bounds(rewards, global_random_seed):
    """Neither of values nor of differences, where no round is heavy in both weights."""
    random, n = np.random.RandomState(global_random_seed), 200
    p, reward = np.exp(-4 * random.random_sample(n)), 5 * random.beta(1, 2, n)
    if rewards is not None:
        reward = random.choice(rewards, n).astype(float)
    # the heaviest round has the best prediction that its reward exceeds
    p[0], reward[0], level = 1.0, max(reward[reward <= 3]), random.random_sample((n, 1))
    level[0] = 1
    omega = p * np.where(reward > 3, 0.05, 1)
    logs = BanditLogs(
        np.zeros((n, 1)), random.randint(3, size=n), reward, p,
        sample_weight=omega, reward_range=(0, max(reward)),
    )  # fmt: skip
    new, old = random.dirichlet([0.4] * 3, size=(2, n))
    new, old = 0.3 + 0.1 * new, 0.3 + 0.1 * old
    level = np.tile(0.9 * reward[0] * level, 3)
    logs = logs.with_columns(
        q=random.uniform(0, 5, (n, 3)), new=new, old=old, level=level
    )
    for evaluator in EVALUATORS:
        found = compare_policies({"new": "new"}, logs, evaluator=evaluator)
        value = found["new"]
        other = value - evaluator.fit(logs).evaluate("old")
        for one in (value, other, found.differences["new"]):
            reach, change = one._reach(), one.round_values - one.value
            assert change.max() <= reach.up * (1 + 1e-9)
            assert change.min() >= -reach.down * (1 + 1e-9)


def test_heavy_rounds_without_a_reward_may_have_had_one():
    """Weights that do not follow from the reward: few are heavy, without a click."""
    n, heavy = 6_060, np.arange(6_060) < 60
    action, reward = np.arange(n) % 2, np.zeros(n)
    for arm, clicks in (0, 240), (1, 150):
        reward[np.flatnonzero(~heavy & (action == arm))[:clicks]] = 1
    weight = np.where(heavy, 100.0, 1.0)
    logs = BanditLogs(np.zeros((n, 1)), action, reward, 0.5, sample_weight=weight)
    found = compare_policies({"new": ConstantPolicy(0)}, logs)
    assert found.decision == "undecided"
    # of a log that keeps clicks alone at 1, no click is as heavy
    alone = logs.replace(sample_weight=np.where(reward == 1, 1.0, 20.0))
    assert compare_policies({"new": ConstantPolicy(0)}, alone).choice == "new"

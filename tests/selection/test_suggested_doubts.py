# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from sklearn.base import clone

from skope_ope import (
    BanditLogs,
    ClassifierPolicy,
    ConstantPolicy,
    EpsilonGreedy,
    Replay,
    suggest,
)
from tests.selection import _situations
from tests.selection._decision_table import TABLE
from tests.selection._situations import one_logger


def even(n_rounds, n_actions=2, reward=None, seed=0, **fields):
    rng = np.random.default_rng(seed)
    action = rng.integers(n_actions, size=n_rounds)
    if reward is None:
        reward = (rng.random(n_rounds) < 0.5).astype(float)
    p = np.full(n_rounds, 1 / n_actions)
    x = rng.normal(size=(n_rounds, 2))
    fields.setdefault("actions", np.arange(n_actions))
    return BanditLogs(x, action, reward, p, **fields)


def few_events():
    return even(1000, reward=np.r_[np.ones(6), np.zeros(994)]), ConstantPolicy(1)


def few_groups():
    return even(1000, group=np.arange(1000) % 8), ConstantPolicy(1)


def many_actions():
    return even(1000, 50), ConstantPolicy(1)


def tiny_log():
    return even(60), ConstantPolicy(1)


def low_overlap():
    rng = np.random.default_rng(0)
    p = np.where(rng.random(4000) < 0.01, 0.01, 0.99)
    action = (p < 0.5).astype(int)
    reward = (rng.random(4000) < 0.5).astype(float)
    logs = BanditLogs(rng.normal(size=(4000, 1)), action, reward, p)
    return logs[:2000], ConstantPolicy(1)


def unsupported_mass():
    logs = even(1000, actions=[0, 1, 2])
    return logs, np.tile([0.5, 0.3, 0.2], (1000, 1))


def no_reward_range():
    reward = np.random.default_rng(0).gamma(1.0, size=1000)
    return even(1000, reward=reward), ConstantPolicy(1)


CASES = (few_events, few_groups, many_actions, tiny_log, low_overlap)
CASES += (unsupported_mass, no_reward_range)


def test_doubts_of_the_table_are_told_and_only_where_they_are_due():
    assert {case.__name__ for case in CASES} <= set(TABLE.DOUBTS)
    for case in CASES:
        found = suggest(*reversed(case()))
        assert case.__name__ in found.doubts
        assert found.situation == "one_logger"
    quiet = suggest(ConstantPolicy(1), even(2000))
    assert not set(quiet.doubts) & set(TABLE.DOUBTS)


def test_a_range_takes_the_doubt_away():
    reward = np.random.default_rng(0).random(1000)
    told = suggest(None, even(1000, reward=reward)).doubts["no_reward_range"]
    assert told.endswith("Leave it out if rewards have no bounds.")
    stated = even(1000, reward=reward, reward_range=(0, 1))
    assert "no_reward_range" not in suggest(None, stated).doubts


def test_events_are_those_of_the_policy_and_of_a_group_count_once():
    """Enough rewards in the log, but few where the policy would have acted."""
    logs = even(2000)
    reward = np.where(logs.action_index == 0, logs.reward, 0.0)
    reward[np.flatnonzero(logs.action_index == 1)[:5]] = 1
    logs = logs.replace(reward=reward)
    assert "few_events" not in suggest(ConstantPolicy(0), logs).doubts
    assert "few_events" in suggest(ConstantPolicy(1), logs).doubts
    logs = even(2000, group=np.arange(2000) // 250)
    reward = (np.arange(2000) < 250).astype(float)
    found = suggest(ConstantPolicy(1), logs.replace(reward=reward))
    assert "few_events" in found.doubts


def test_a_policy_that_was_trained_on_the_rounds():
    logs, _, _ = one_logger()
    policy = ClassifierPolicy(epsilon=0.3).fit(logs)
    assert "learned_rounds" in suggest(policy, logs).doubts
    found = suggest(clone(policy).fit(logs[1000:]), logs[:1000])
    assert "learned_rounds" not in found.doubts


def test_features_of_actions_give_one_model_for_all():
    features = np.random.default_rng(0).normal(size=(50, 3))
    logs = even(1000, 50, action_context=features)
    found = suggest(ConstantPolicy(1), logs)
    assert found.evaluator.reward_model.encoding == "action_context"
    assert "many_actions" not in found.doubts
    names = {"logs": logs, "policy": np.full((1000, 50), 0.02)}
    exec(found.code, names)
    low, high = names["value"].confidence_interval()
    assert low < 0.5 < high


# -- policies that learn --------------------------------------------------------------
@pytest.mark.filterwarnings("ignore")
def test_the_horizon_lets_several_trajectories_fit():
    logs, policy, _ = _situations.learner_uniform()
    evaluator = suggest(policy, logs).evaluator
    assert isinstance(evaluator, Replay)
    value = evaluator.fit(logs).evaluate(policy)
    assert 15 <= value.n_trajectories <= 25
    assert value.standard_error > 0
    frozen = policy.fit(logs[:1500]).frozen()  # it does not learn
    assert suggest(frozen, logs[1500:]).situation == "one_logger"
    logs, policy, _ = _situations.learner()
    value = suggest(policy, logs).evaluator.fit(logs).evaluate(policy)
    assert value.n_trajectories >= 10


def test_without_propensities_they_are_estimated_first():
    logs, policy, _ = _situations.learner_unknown()
    found = suggest(policy, logs)
    assert found.situation == "learner_unknown"
    assert "estimated_propensities" in found.doubts
    assert "fit_transform(logs)" in found.code


@pytest.mark.thorough
def test_intervals_cover_the_life_of_a_learner():
    """The true value is that of many lives in a long log of even chances."""

    def even(x, t):
        return np.full(len(x), 0.5)

    def skewed(x, t):
        return 0.25 + 0.5 * x

    policy = EpsilonGreedy()
    own = {"propensity": _situations._own}
    long = _situations._of_actions(99, even, 50_000, **own)
    for proba in (even, skewed):
        covered = 0
        for seed in range(20):
            logs = _situations._of_actions(seed, proba, 2000, **own)
            evaluator = suggest(policy, logs).evaluator.set_params(horizon=40)
            if not seed:
                truth = Replay(horizon=40, random_state=0).fit(long).score(policy)
            interval = evaluator.fit(logs).evaluate(policy).confidence_interval()
            covered += interval.low <= truth <= interval.high
        assert covered >= 17

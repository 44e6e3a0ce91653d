# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The direct method of a policy that learns is the literal loop."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from skope_ope import (
    IPS,
    BanditLogs,
    DirectMethod,
    EpsilonGreedy,
    LinUCB,
    UniformPolicy,
)
from skope_ope.datasets import make_bandit_logs
from skope_ope.exceptions import ModelErrorWarning, SingleTrajectoryWarning
from skope_ope.policies import OnlineClassifierPolicy
from tests import _sequential_loops as loops
from tests._learners import RulePolicy, as_target, contextual_rule, greedy_rule
from tests._quiet import quiet


def random_logs(rng, binary, n=120, n_actions=3):
    reward = rng.randint(0, 2, n) * 1.0 if binary else rng.normal(size=n)
    rows = rng.normal(size=(n, 2)), rng.randint(0, n_actions, n), reward
    return BanditLogs(*rows, actions=np.arange(n_actions))


@pytest.mark.few_cases
@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("ask", ["blocks", "refresh", "rows"])
@pytest.mark.parametrize("every", [1, 4])
def test_literal_loop(binary, ask, every, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    # of 530 rounds blocks double up to the largest
    for n in (1, 2, 120, *([530] if every == 4 and ask == "refresh" else [])):
        logs = random_logs(rng, binary, n)
        # values outside of [0, 1] are clipped where they are probabilities
        q_hat = rng.uniform(-0.3, 1.3, (n, 3))
        rule = greedy_rule(3) if ask == "rows" else contextual_rule(3)
        fitted = DirectMethod(reward_model=q_hat).fit(logs)
        result = quiet(fitted, RulePolicy(rule, every=every, ask=ask))
        value, history = loops.direct_method(
            as_target(rule, every),
            logs.context[:, 0].tolist(),
            q_hat.tolist(),
            np.random.RandomState(0).random_sample((n, 2)),
            binary=binary,
        )
        assert result.value == pytest.approx(value, abs=1e-12)
        learned = result.learned_policy.history
        assert [row[1:] for row in learned] == [row[1:] for row in history]
        assert result.round_values.mean() == pytest.approx(value, abs=1e-12)


def test_asking_twice_gives_the_same():
    logs = make_bandit_logs(120, random_state=0)
    fitted = DirectMethod(reward_model=LogisticRegression()).fit(logs)
    for policy in (EpsilonGreedy(), LinUCB(), OnlineClassifierPolicy()):
        assert quiet(fitted, policy).value == quiet(fitted, policy).value
        assert np.isfinite(quiet(fitted, policy).value)


def test_actions_are_drawn_with_their_probabilities(global_random_seed):
    proba = np.array([0.2, 0.0, 0.5, 0.3])
    n = 4000
    logs = random_logs(np.random.RandomState(global_random_seed), True, n, 4)
    fitted = DirectMethod(reward_model=0.5).fit(logs)

    def actions(part=None):
        policy = RulePolicy(lambda history, x: proba.tolist())
        history = quiet(fitted, policy, part).learned_policy.history
        return np.array([row[1] for row in history])

    whole = actions()
    counts = np.bincount(whole, minlength=4)
    error = np.sqrt(proba * (1 - proba) / n)
    assert (np.abs(counts / n - proba) <= 4 * error).all()
    assert counts[1] == 0
    # the first rounds draw what they draw in the whole, other parts on their own
    np.testing.assert_array_equal(actions(logs[:50]), whole[:50])
    assert (actions(logs[200:300]) != whole[:100]).any()


def test_what_the_result_says():
    logs = make_bandit_logs(200, random_state=0)
    fitted = DirectMethod().fit(logs)
    with (
        pytest.warns(SingleTrajectoryWarning, match="repeated_runs"),
        pytest.warns(ModelErrorWarning, match="leaves out the error"),
    ):
        result = fitted.evaluate(EpsilonGreedy())
    assert np.isnan(result.standard_error)
    assert np.isnan(result.confidence_interval()).all()
    assert result.n_rounds == 200
    assert result.diagnostics["model_error_included"] is False
    with pytest.warns(SingleTrajectoryWarning, match="groups of rounds"):
        groups = result.by(logs.action)
    assert np.isnan(groups[logs.actions[0]].standard_error)
    with pytest.warns(SingleTrajectoryWarning, match="difference has no standard er"):
        gap = result - quiet(fitted, UniformPolicy())
    assert np.isnan(gap.standard_error)
    assert result.learned_policy.counts_.sum() == 200


def test_other_logs_and_offers():
    rng = np.random.RandomState(0)
    logs = random_logs(rng, True)
    other = random_logs(np.random.RandomState(1), True, n=50)
    fitted = DirectMethod(reward_model=LogisticRegression()).fit(logs)
    assert quiet(fitted, EpsilonGreedy(), other).n_rounds == 50
    available = np.ones((120, 3), dtype=bool)
    available[:, 2] = logs.action == 2
    offered = logs.replace(available=available)
    worth = DirectMethod(reward_model=np.eye(3)[[2] * 120]).fit(offered)
    result = quiet(worth, EpsilonGreedy(1.0))
    # action 2 is worth one, and drawn with 1 / 3 where it is offered at all
    chance = np.where(available[:, 2], 1 / 3, 0)
    np.testing.assert_allclose(result.round_values, chance, atol=1e-15)
    assert result.learned_policy.counts_[2] <= available[:, 2].sum()


def test_bad_input():
    logs = make_bandit_logs(50, random_state=0)
    direct, greedy = DirectMethod().fit(logs), EpsilonGreedy()
    with pytest.raises(ValueError, match="a policy that learns cannot be weighted"):
        direct.evaluate(greedy, sample_weight=np.linspace(1, 2, 50))
    told = r"EpsilonGreedy learns .* IPS .*policy\.frozen"
    with pytest.raises(TypeError, match=told):
        IPS().fit(logs).evaluate(greedy)
    with pytest.raises(ValueError, match="must not change its set of actions"):
        quiet(direct, RulePolicy(lambda history, x: [1.0]))

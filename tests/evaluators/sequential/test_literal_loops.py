# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The engine is the literal loop, whatever the block size."""

import numpy as np
import pytest

from skope_ope import BanditLogs, DRns, RejectionSampling, Replay
from skope_ope.base import AdaptivePolicy
from skope_ope.evaluators import repeated_runs
from tests import _sequential_loops as loops
from tests._learners import RulePolicy, as_target, contextual_rule, greedy_rule
from tests._quiet import quiet

LEVELS = (0, 0.01, 0.05, 0.1, 0.5, 1)
ASKS = ("blocks", "refresh", "rows")


def world(rng, n_rounds=None):
    """Random logs with ties among the propensities, and a random model."""
    n = int(rng.integers(1, 150)) if n_rounds is None else n_rounds
    n_actions = int(rng.integers(2, 5))
    logs = BanditLogs(
        rng.normal(size=(n, 2)),
        rng.integers(0, n_actions, n),
        rng.integers(0, 2, n).astype(float),
        rng.choice([0.1, 0.2, 0.5, 0.8, 1.0], n),
        actions=np.arange(n_actions),
    )
    return logs, rng.random((n, n_actions))


def lists(logs):
    return (
        logs.context[:, 0].tolist(),
        logs.action_index.tolist(),
        logs.reward.tolist(),
    )


def assert_equals_loop(result, expected, n_rounds):
    assert result.accepted.tolist() == expected.accepted
    np.testing.assert_allclose(result.value, expected.value, rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        result.trajectory_values, expected.values, rtol=0, atol=1e-12
    )
    if np.isfinite(result.value):
        assert abs(result.round_values.mean() - result.value) < 1e-12
    assert len(result.round_values) == len(result.acceptance_ratios) == n_rounds


def rule_of(kind, n_actions):
    if kind == "contextual":
        return contextual_rule(n_actions)
    return greedy_rule(n_actions, 0.3 if kind == "stochastic" else 0.0)


@pytest.mark.few_cases
@pytest.mark.parametrize("ask", ASKS)
@pytest.mark.parametrize("kind", ["stochastic", "greedy", "contextual"])
@pytest.mark.parametrize("q", LEVELS)
def test_drns_of_a_learner(q, kind, ask, global_random_seed):
    if kind == "contextual" and ask == "rows":
        pytest.skip("one row does not serve all contexts")
    rng = np.random.default_rng([global_random_seed, int(100 * q)])
    # of the eight settings below every other one: each meets all q, kinds and asks
    for draw in range((LEVELS.index(q) + ASKS.index(ask)) % 2, 8, 2):
        logs, q_hat = world(rng)
        rule = rule_of(kind, logs.n_actions)
        every = 1 + 2 * (draw % 2)
        setting = {
            "q": q,
            "cmax": float(rng.choice([1.0, 0.5, 0.1, 3.0])),
            "horizon": [None, 3][draw // 2 % 2],
            "normalize": [True, "pooled"][draw // 4],
        }
        setting["c_init"] = [None, setting["cmax"] / 4][draw % 2]
        evaluator = DRns(reward_model=q_hat, random_state=draw, **setting).fit(logs)
        result = quiet(evaluator, RulePolicy(rule, every=every, ask=ask))
        expected = loops.drns(
            as_target(rule, every),
            *lists(logs),
            logs.propensity.tolist(),
            q_hat.tolist(),
            evaluator.uniforms_.tolist(),
            **setting,
        )
        assert_equals_loop(result, expected, len(logs))
        np.testing.assert_array_equal(result.acceptance_ratios, expected.c)
        weighted = np.array(expected.c) * expected.pi / logs.propensity
        assert result.n_violations == np.sum(weighted > 1 + 1e-9)
        last = result.learned_policy
        if setting["horizon"] is None:
            assert [row[1:] for row in last.history] == [
                row[1:] for row in expected.history
            ]
        else:
            assert len(last.history) == (3 if expected.values else len(last.history))


@pytest.mark.few_cases(3)
@pytest.mark.parametrize("q", LEVELS)
def test_drns_of_a_stationary_policy(q, global_random_seed):
    rng = np.random.default_rng([global_random_seed, int(100 * q)])
    for draw in range(20):
        logs, q_hat = world(rng)
        pi = rng.dirichlet(np.full(logs.n_actions, 0.3), len(logs))
        pi[rng.random(len(logs)) < 0.3] = np.eye(logs.n_actions)[0]  # ties, zeros
        setting = {
            "q": q,
            "cmax": float(rng.choice([1.0, 0.5, 0.1, 3.0])),
            "horizon": [None, 3][draw % 2],
            "normalize": [True, "pooled"][draw // 2 % 2],
        }
        setting["c_init"] = [None, setting["cmax"] / 4][draw // 4 % 2]
        evaluator = DRns(reward_model=q_hat, random_state=draw, **setting).fit(logs)
        expected = loops.drns(
            lambda history, row, pi=pi: pi[row].tolist(),
            range(len(logs)),
            *lists(logs)[1:],
            logs.propensity.tolist(),
            q_hat.tolist(),
            evaluator.uniforms_.tolist(),
            **setting,
        )
        result = quiet(evaluator, pi)
        assert_equals_loop(result, expected, len(logs))
        np.testing.assert_array_equal(result.acceptance_ratios, expected.c)


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("ask", ASKS)
def test_replay_and_rejection_sampling_of_a_learner(ask, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    for draw in range(12):
        logs, q_hat = world(rng)
        rule = greedy_rule(logs.n_actions, 0.2 * (draw % 2))
        horizon = [None, 4][draw // 2 % 2]
        policy = RulePolicy(rule, ask=ask)
        x, a, r = lists(logs)
        uniform = logs.replace(propensity=None)
        evaluator = Replay(horizon=horizon, random_state=draw).fit(uniform)
        u = evaluator.uniforms_.tolist()
        expected = loops.replay(rule, x, a, r, u, horizon=horizon)
        assert_equals_loop(quiet(evaluator, policy), expected, len(logs))

        p = logs.propensity.tolist()
        for cmax, c in ((None, min(p)), (0.15, 0.15), (1.0, 1.0)):
            evaluator = RejectionSampling(
                cmax=cmax, horizon=horizon, random_state=draw
            ).fit(logs)
            expected = loops.rejection_sampling(
                rule, x, a, r, p, u, c=c, horizon=horizon
            )
            assert_equals_loop(quiet(evaluator, policy), expected, len(logs))

        c = min(p)
        setting = {"acceptance": "worst_case", "horizon": horizon}
        evaluator = DRns(reward_model=q_hat, random_state=draw, **setting).fit(logs)
        expected = loops.drns(
            rule, x, a, r, p, q_hat.tolist(), u, fixed=c, horizon=horizon
        )
        assert_equals_loop(quiet(evaluator, policy), expected, len(logs))


@pytest.mark.parametrize("q", [0, 0.05, 0.5, 1])
def test_c_in_force_lies_below_fewer_than_q_n_ratios(q, global_random_seed):
    """#{Q < c} < q n at every acceptance, ties and infinite ratios among them."""
    rng = np.random.default_rng(global_random_seed)
    n = 300
    pi, p = rng.choice([0.0, 0.1, 0.5, 1.0], n), rng.choice([0.1, 0.3, 0.9], n)
    logs = BanditLogs(np.empty((n, 0)), np.zeros(n, int), np.ones(n), p, actions=[0, 1])
    evaluator = DRns(q=q, reward_model=0.5, random_state=global_random_seed).fit(logs)
    result = quiet(evaluator, np.column_stack([pi, 1 - pi]))
    accepted, c = result.accepted, result.acceptance_ratios
    with np.errstate(divide="ignore"):
        ratios = p / pi
    assert len(accepted) > 5
    for row in accepted[accepted < n - 1].tolist():
        below = np.count_nonzero(ratios[: row + 1] < c[row + 1])
        assert below < q * (row + 1) or below == 0


def test_levels_of_a_level_hit_the_value_and_not_the_next():
    """.1 * 30 is 3.0000000000000004 in floats: the third ratio, not the fourth."""
    p = np.linspace(0.5, 0.9, 30)
    logs = BanditLogs(np.empty((31, 0)), [0] * 31, np.ones(31), [*p, 1.0])
    evaluator = DRns(q=0.1, reward_model=0.5).fit(logs)
    evaluator.uniforms_ = np.zeros(31)
    c = quiet(evaluator, np.ones((31, 1))).acceptance_ratios
    assert c[30] == p[2]
    assert c[20] == p[1]  # of twenty


@pytest.mark.parametrize("ask", ["blocks", "refresh", "rows"])
def test_offered_actions_vary(ask, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    n, n_actions = 120, 4
    available = rng.random((n, n_actions)) < 0.6
    action = rng.integers(0, n_actions, n)
    available[np.arange(n), action] = True
    offered = available.sum(axis=1)
    logs = BanditLogs(
        rng.normal(size=(n, 1)),
        action,
        rng.integers(0, 2, n).astype(float),
        1 / offered,
        available=available,
        actions=np.arange(n_actions),
    )
    rule = greedy_rule(n_actions)
    row = iter(range(n))

    def restricted(history, x):
        mask = available[next(row)].tolist()
        pi = [(p + 1e-3) * on for p, on in zip(rule(history, x), mask, strict=True)]
        return [p / sum(pi) for p in pi]

    evaluator = Replay(random_state=0).fit(logs)
    expected = loops.replay(
        restricted, *lists(logs), evaluator.uniforms_, offered=offered.tolist()
    )
    result = quiet(evaluator, RulePolicy(rule, ask=ask))
    assert_equals_loop(result, expected, n)


def test_rejected_rows_never_touch_the_policy():
    rng = np.random.default_rng(5)
    logs, q_hat = world(rng, 100)
    rule = greedy_rule(logs.n_actions)
    policy = RulePolicy(rule)
    for evaluator in (DRns(reward_model=q_hat), RejectionSampling()):
        evaluator.set_params(random_state=0).fit(logs)
        result = quiet(evaluator, policy)
        learned = result.learned_policy
        rows = result.accepted
        assert 0 < len(rows) < len(logs)
        assert learned.history == [
            (logs.context[k, 0], logs.action_index[k], logs.reward[k]) for k in rows
        ]
        # the policy is told its own probability, not the logger's
        chances = [
            rule(learned.history[:t], None)[logs.action_index[k]]
            for t, k in enumerate(rows)
        ]
        assert learned.told == chances
        assert not hasattr(policy, "history")  # the user's own was never touched
        again = quiet(evaluator, policy)
        assert again.value == result.value
        np.testing.assert_array_equal(again.accepted, rows)


def test_other_logs_have_uniform_numbers_of_their_own():
    rng = np.random.default_rng(7)
    logs, _ = world(rng, 200)
    other = BanditLogs(
        logs.context, logs.action, logs.reward, logs.propensity, actions=logs.actions
    )
    policy = RulePolicy(greedy_rule(logs.n_actions))
    fitted = RejectionSampling(random_state=0).fit(logs)
    first, second = (quiet(fitted, policy, other) for _ in range(2))
    np.testing.assert_array_equal(first.accepted, second.accepted)
    own = quiet(fitted, policy)
    assert own.accepted.tolist() != first.accepted.tolist()
    u = np.random.RandomState(fitted.seed_).random_sample(len(other)).tolist()
    expected = loops.rejection_sampling(
        policy.rule,
        *lists(other),
        other.propensity.tolist(),
        u,
        c=other.propensity.min(),
    )
    assert first.accepted.tolist() == expected.accepted


class Ragged(RulePolicy):
    """Takes one action more after an update."""

    def action_row(self):
        return [1.0] + [0.0] * (len(self.classes_) - 1 + bool(self.history))

    def _proba(self, X, available):
        return np.tile(self.action_row(), (len(X), 1))


class Leaking(RulePolicy):
    """Gives probabilities that do not sum to one after an update."""

    def action_row(self):
        row = [0.0] * len(self.classes_)
        row[0] = 0.9 if self.history else 1.0
        return row

    def _proba(self, X, available):
        return np.tile(self.action_row(), (len(X), 1))


@pytest.mark.parametrize("ask", ["blocks", "rows"])
@pytest.mark.parametrize(
    ("kind", "match"),
    [(Ragged, "must not change its set of actions"), (Leaking, r"policy.*row \d+")],
)
def test_policies_that_break_the_contract(kind, match, ask):
    logs = BanditLogs(np.zeros((8, 1)), [1, 0, 0, 1] * 2, np.ones(8), np.full(8, 0.5))
    evaluator = DRns(random_state=0).fit(logs)
    with pytest.raises(ValueError, match=match):
        quiet(evaluator, kind(None, ask=ask))


class Forgetful(RulePolicy):
    """Forgets to say whether it has changed."""

    def update(self, X, action, reward, proba):
        super().update(X, action, reward, proba)


@pytest.mark.parametrize("ask", ["blocks", "rows"])
def test_update_must_answer(ask):
    logs = BanditLogs(np.zeros((8, 1)), [1, 0, 0, 1] * 2, np.ones(8), np.full(8, 0.5))
    policy = Forgetful(lambda history, x: [0.5, 0.5], ask=ask)
    with pytest.raises(TypeError, match=r"Forgetful\.update returned None; it must"):
        quiet(DRns(random_state=0).fit(logs), policy)


def test_probabilities_must_be_an_array():
    class Lists(RulePolicy):
        """Gives a list of lists."""

        def predict_proba(self, X, available=None):
            return [[0.5, 0.5]] * len(X)

    logs = BanditLogs(np.zeros((4, 1)), [1, 0, 0, 1], np.ones(4), np.full(4, 0.5))
    with pytest.raises(TypeError, match=r"as list, expected an array of shape \(4, 2"):
        quiet(DRns(random_state=0).fit(logs), Lists(None))


class Gambler(AdaptivePolicy):
    """Draws an action when it starts, and plays no other."""

    def __init__(self, random_state=0):
        self.random_state = random_state

    def reset(self, logs):
        super().reset(logs)
        self.rng_ = np.random.RandomState(self.random_state)
        self.chosen_ = self.rng_.randint(len(self.classes_))

    def _proba(self, X, available):
        return np.eye(len(self.classes_))[np.full(len(X), self.chosen_)]

    def update(self, X, action, reward, proba):
        return False


def gamblers_logs(n=4000):
    """Two actions in turns; the second always wins."""
    action = np.arange(n) % 2
    return BanditLogs(np.zeros((n, 1)), action, action * 1.0, np.full(n, 0.5))


def test_trajectories_draw_by_seeds_of_their_own(global_random_seed):
    seed = global_random_seed
    evaluator = RejectionSampling(horizon=5, random_state=seed)
    result = evaluator.fit(gamblers_logs()).evaluate(Gambler(random_state=seed))
    own = result.trajectory_values
    assert set(own) == {0.0, 1.0}
    assert abs(own.mean() - 0.5) < 4 * 0.5 / np.sqrt(len(own))
    first = np.random.RandomState(seed).randint(2)  # the seed that was given
    assert own[0] == first
    again = evaluator.evaluate(Gambler(random_state=seed))
    np.testing.assert_array_equal(again.trajectory_values, own)
    # the policy after its last complete history is the one that had it
    assert result.learned_policy.chosen_ == own[-1]


def test_starts_of_parts_have_seeds_of_their_own(global_random_seed):
    evaluator = DRns(horizon=40, n_splits=40, random_state=0)
    result = evaluator.fit(gamblers_logs()).evaluate(Gambler(global_random_seed))
    assert result.part_values.min() < 0.2 and result.part_values.max() > 0.8


def test_runs_draw_by_seeds_of_their_own(global_random_seed):
    policy = Gambler(random_state=global_random_seed)
    runs = repeated_runs(
        RejectionSampling(), policy, gamblers_logs(), n_runs=40, random_state=0
    )
    assert set(runs.values) == {0.0, 1.0}
    assert policy.random_state == global_random_seed
    assert runs.values[0] == np.random.RandomState(global_random_seed).randint(2)


@pytest.mark.parametrize("lengths", [(1, 1), (2, 1), (2, 3)])
def test_rows_of_all_contexts_have_an_entry_per_action(lengths):
    class Uneven(AdaptivePolicy):
        """Gives a row of another length, from the start or after an update."""

        context_free = True

        def reset(self, logs):
            super().reset(logs)
            self.length_ = lengths[0]

        def action_row(self):
            return [1 / self.length_] * self.length_

        def update(self, X, action, reward, proba):
            self.length_ = lengths[1]
            return True

    logs = BanditLogs(np.zeros((8, 1)), [1, 0] * 4, np.ones(8), np.full(8, 0.5))
    match = rf"shape \({max(lengths, key=lambda n: n != 2)},\), expected \(2,\)"
    with pytest.raises(ValueError, match=match):
        quiet(DRns(random_state=0).fit(logs), Uneven())

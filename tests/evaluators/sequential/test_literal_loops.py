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
    context, action = rng.normal(size=(n, 2)), rng.integers(0, n_actions, n)
    reward, p = rng.integers(0, 2, n) * 1.0, rng.choice([0.1, 0.2, 0.5, 0.8, 1.0], n)
    logs = BanditLogs(context, action, reward, p, actions=np.arange(n_actions))
    return logs, rng.random((n, n_actions))


def lists(logs):
    columns = logs.context[:, 0], logs.action_index, logs.reward
    return [one.tolist() for one in columns]


def assert_equals_loop(result, expected, n_rounds):
    assert result.accepted.tolist() == expected.accepted
    np.testing.assert_allclose(result.value, expected.value, rtol=0, atol=1e-12)
    found = result.trajectory_values
    np.testing.assert_allclose(found, expected.values, rtol=0, atol=1e-12)
    if np.isfinite(result.value):
        assert abs(result.round_values.mean() - result.value) < 1e-12
    assert len(result.round_values) == len(result.acceptance_ratios) == n_rounds


def setting_of(rng, q, draw):
    """A setting of DR-ns, for the draws 0 to 7 with all of its values."""
    cmax = float(rng.choice([1.0, 0.5, 0.1, 3.0]))
    return {
        "q": q,
        "cmax": cmax,
        "horizon": [None, 3][draw % 2],
        "normalize": [True, "pooled"][draw // 2 % 2],
        "c_init": [None, cmax / 4][draw // 4 % 2],
    }


def drns(target, x, logs, q_hat, u, **setting):
    """The loop of DR-ns."""
    columns = logs.action_index, logs.reward, logs.propensity
    a, r, p = (one.tolist() for one in columns)
    return loops.drns(target, x, a, r, p, q_hat.tolist(), u.tolist(), **setting)


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
        rule = greedy_rule(logs.n_actions, 0.0 if kind == "greedy" else 0.3)
        if kind == "contextual":
            rule = contextual_rule(logs.n_actions)
        every, setting = 1 + draw // 4 % 2 * 2, setting_of(rng, q, draw)
        evaluator = DRns(reward_model=q_hat, random_state=draw, **setting).fit(logs)
        result = quiet(evaluator, RulePolicy(rule, every=every, ask=ask))
        x, target = logs.context[:, 0].tolist(), as_target(rule, every)
        expected = drns(target, x, logs, q_hat, evaluator.uniforms_, **setting)
        assert_equals_loop(result, expected, len(logs))
        np.testing.assert_array_equal(result.acceptance_ratios, expected.c)
        weighted = np.array(expected.c) * expected.pi / logs.propensity
        assert result.n_violations == np.sum(weighted > 1 + 1e-9)
        last = result.learned_policy
        if setting["horizon"] is None:
            mine, other = last.history, expected.history
            assert [row[1:] for row in mine] == [row[1:] for row in other]
        else:
            assert len(last.history) == (3 if expected.values else len(last.history))


@pytest.mark.few_cases(3)
@pytest.mark.parametrize("q", LEVELS)
def test_drns_of_a_stationary_policy(q, global_random_seed):
    rng = np.random.default_rng([global_random_seed, int(100 * q)])
    for draw in range(16):
        logs, q_hat = world(rng)
        pi = rng.dirichlet(np.full(logs.n_actions, 0.3), len(logs))
        pi[rng.random(len(logs)) < 0.3] = np.eye(logs.n_actions)[0]  # ties, zeros
        setting = setting_of(rng, q, draw)
        evaluator = DRns(reward_model=q_hat, random_state=draw, **setting).fit(logs)

        def target(history, row, pi=pi):
            return pi[row].tolist()

        u = evaluator.uniforms_
        expected = drns(target, range(len(logs)), logs, q_hat, u, **setting)
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
            setting = {"cmax": cmax, "horizon": horizon, "random_state": draw}
            evaluator = RejectionSampling(**setting).fit(logs)
            about = {"c": c, "horizon": horizon}
            expected = loops.rejection_sampling(rule, x, a, r, p, u, **about)
            assert_equals_loop(quiet(evaluator, policy), expected, len(logs))

        setting = {"acceptance": "worst_case", "horizon": horizon}
        evaluator = DRns(reward_model=q_hat, random_state=draw, **setting).fit(logs)
        about = {"fixed": min(p), "horizon": horizon}
        expected = drns(rule, x, logs, q_hat, evaluator.uniforms_, **about)
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
    available, action = rng.random((n, n_actions)) < 0.6, rng.integers(0, n_actions, n)
    available[np.arange(n), action] = True
    offered = available.sum(axis=1)
    reward = rng.integers(0, 2, n).astype(float)
    rounds = rng.normal(size=(n, 1)), action, reward, 1 / offered
    logs = BanditLogs(*rounds, available=available, actions=np.arange(n_actions))
    rule = greedy_rule(n_actions)
    row = iter(range(n))

    def restricted(history, x):
        mask = available[next(row)].tolist()
        pi = [(p + 1e-3) * on for p, on in zip(rule(history, x), mask, strict=True)]
        return [p / sum(pi) for p in pi]

    evaluator, told = Replay(random_state=0).fit(logs), {"offered": offered.tolist()}
    expected = loops.replay(restricted, *lists(logs), evaluator.uniforms_, **told)
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
        proba = [rule(learned.history[:t], None) for t in range(len(rows))]
        chances = [pi[logs.action_index[k]] for pi, k in zip(proba, rows, strict=True)]
        assert learned.told == chances
        assert not hasattr(policy, "history")  # the user's own was never touched
        again = quiet(evaluator, policy)
        assert again.value == result.value
        np.testing.assert_array_equal(again.accepted, rows)


def test_other_logs_have_uniform_numbers_of_their_own():
    rng = np.random.default_rng(7)
    logs, _ = world(rng, 200)
    rounds = logs.context, logs.action, logs.reward, logs.propensity
    other = BanditLogs(*rounds, actions=logs.actions)
    policy = RulePolicy(greedy_rule(logs.n_actions))
    fitted = RejectionSampling(random_state=0).fit(logs)
    first, second = (quiet(fitted, policy, other) for _ in range(2))
    np.testing.assert_array_equal(first.accepted, second.accepted)
    own = quiet(fitted, policy)
    assert own.accepted.tolist() != first.accepted.tolist()
    u = np.random.RandomState(fitted.seed_).random_sample(len(other)).tolist()
    asked, p = (policy.rule, *lists(other)), other.propensity.tolist()
    expected = loops.rejection_sampling(*asked, p, u, c=min(p))
    assert first.accepted.tolist() == expected.accepted


class Ragged(RulePolicy):
    """Takes one action more after an update."""

    def action_row(self):
        return [1.0] + [0.0] * (len(self.classes_) - 1 + bool(self.history))

    def _proba(self, X, available):
        return np.tile(self.action_row(), (len(X), 1))


class Leaking(Ragged):
    """Gives probabilities that do not sum to one after an update."""

    def action_row(self):
        return [0.9 if self.history else 1.0] + [0.0] * (len(self.classes_) - 1)


class Forgetful(RulePolicy):
    """Forgets to say whether it has changed."""

    def update(self, X, action, reward, proba):
        super().update(X, action, reward, proba)


class Lists(RulePolicy):
    """Gives a list of lists."""

    def predict_proba(self, X, available=None):
        return [[0.5, 0.5]] * len(X)


class Uneven(AdaptivePolicy):
    """Gives rows of other lengths, from the start or after an update."""

    context_free = True

    def __init__(self, lengths):
        self.lengths = lengths

    def reset(self, logs):
        super().reset(logs)
        self.length_ = self.lengths[0]

    def action_row(self):
        return [1 / self.length_] * self.length_

    def update(self, X, action, reward, proba):
        self.length_ = self.lengths[1]
        return True


HALF = {"rule": lambda history, x: [0.5, 0.5]}
UPDATE = r"Forgetful\.update returned None; it must"


@pytest.mark.parametrize(
    ("policy", "error", "match"),
    [
        (Ragged(None), ValueError, "must not change its set of actions"),
        (Ragged(None, ask="rows"), ValueError, "must not change its set of actions"),
        (Leaking(None), ValueError, r"policy.*row \d+"),
        (Leaking(None, ask="rows"), ValueError, r"policy.*row \d+"),
        (Forgetful(**HALF), TypeError, UPDATE),
        (Forgetful(**HALF, ask="rows"), TypeError, UPDATE),
        (Lists(None), TypeError, r"as list, expected an array of shape \(8, 2"),
        (Uneven((1, 1)), ValueError, r"shape \(1,\), expected \(2,\)"),
        (Uneven((2, 1)), ValueError, r"shape \(1,\), expected \(2,\)"),
        (Uneven((2, 3)), ValueError, r"shape \(3,\), expected \(2,\)"),
    ],
)
def test_policies_that_break_the_contract(policy, error, match):
    logs = BanditLogs(np.zeros((8, 1)), [1, 0, 0, 1] * 2, np.ones(8), np.full(8, 0.5))
    with pytest.raises(error, match=match):
        quiet(DRns(random_state=0).fit(logs), policy)


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


def test_parts_and_runs_draw_by_seeds_of_their_own(global_random_seed):
    logs, policy = gamblers_logs(), Gambler(random_state=global_random_seed)
    result = DRns(horizon=40, n_splits=40, random_state=0).fit(logs).evaluate(policy)
    assert result.part_values.min() < 0.2 and result.part_values.max() > 0.8
    runs = repeated_runs(RejectionSampling(), policy, logs, n_runs=40, random_state=0)
    assert set(runs.values) == {0.0, 1.0}
    assert policy.random_state == global_random_seed
    assert runs.values[0] == np.random.RandomState(global_random_seed).randint(2)

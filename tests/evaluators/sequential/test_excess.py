# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Rounds that should have been accepted more than once, and their weights."""

from itertools import pairwise, product

import numpy as np
import pytest

from skope_ope import UCB1, BanditLogs, DRns, EpsilonGreedy, LinUCB, UniformPolicy
from skope_ope.datasets import make_bandit_logs
from skope_ope.policies import SegmentedPolicy
from tests._learners import RulePolicy, spec_rule
from tests._quiet import quiet

MU, Q, Q_HAT = (0.25, 0.75), (0.3, 0.8), (0.5, 0.6)  # a world without contexts


def weighted_rule(history, x):
    """.8 on the arm with the larger weighted (sum + 1) / (pulls + 2)."""
    if not history:
        return [0.5, 0.5]
    pulls, sums = [0.0, 0.0], [0.0, 0.0]
    for _, a, r, weight in history:
        pulls[a] += weight
        sums[a] += weight * r
    scores = [(sums[a] + 1) / (pulls[a] + 2) for a in (0, 1)]
    return [0.8, 0.2] if scores[0] >= scores[1] else [0.2, 0.8]


class WeightedRulePolicy(RulePolicy):
    """A rule that is told how often a round counts."""

    takes_weight = True

    def update(self, X, action, reward, proba, weight=1.0):
        self.history.append((None, action, reward, weight))
        return True


def log_of(rounds):
    a, r = (np.array(column) for column in zip(*rounds, strict=True))
    return BanditLogs(np.zeros((len(a), 1)), a, r, np.take(MU, a), actions=[0, 1])


def evaluated(evaluator, policy, rounds, u):
    evaluator.fit(log_of(rounds))
    evaluator.uniforms_ = np.array(u)
    return quiet(evaluator, policy)


def cells(levels, pis):
    """One uniform number in every interval in which all decisions are the same."""
    bounds = {min(1.0, c) * pi / p for c in levels for pi in pis for p in MU}
    bounds = [0.0, *sorted(b for b in bounds if b < 1), 1.0]
    return [((low + high) / 2, high - low) for low, high in pairwise(bounds)]


def rows_of(numbers):
    return [
        ((a, r, u), MU[a] * (Q[a] if r else 1 - Q[a]) * length)
        for a, r in product((0, 1), repeat=2)
        for u, length in numbers
    ]


@pytest.mark.theory
@pytest.mark.parametrize(("level", "ask"), [(0.5, "blocks"), (1.0, "rows")])
def test_weighted_sums_over_accepted_rounds_have_the_right_expectation(level, ask):
    """Over all logs of three rounds, for a policy that learns from the weights.

    E[sum w f(a, r)] = E[sum c E_pi f], and with V(h) for f, E[R - sum w V(h)] = 0. Both
    fail where an accepted round counts once.
    """
    policy = WeightedRulePolicy(weighted_rule, ask=ask)
    pis = (0.2, 0.5, 0.8)
    levels = {1.0, *(p / pi for p in MU for pi in pis)}
    rows = rows_of(cells({1.0}, (0.5,))), rows_of(cells(levels, pis))
    names = ("mass", "arm 1", "reward", "R - V", "once: arm 1", "once: R - V")
    sums = dict.fromkeys(names, 0.0)
    f = {"mass": (1, 1), "arm 1": (0, 1), "reward": Q}
    expected = dict.fromkeys(f, 0.0)
    for rounds in product(*rows):
        for a, r, last in product((0, 1), (0, 1), (0.0, 1 - 1e-12)):
            # of the last round only the chance to be accepted matters
            chance = np.prod([c for _, c in rounds])
            chance *= MU[a] * (Q[a] if r else 1 - Q[a])
            played = [row[:2] for row, _ in rounds] + [(a, r)]
            u = [row[2] for row, _ in rounds] + [last]
            evaluator = DRns(
                q=level,
                normalize="pooled",
                excess="weight",
                reward_model=np.tile(Q_HAT, (3, 1)),
            )
            result = evaluated(evaluator, policy, played, u)
            history = result.learned_policy.history
            c, accepted = result.acceptance_ratios, result.accepted.tolist()
            acted = [
                weighted_rule(history[: np.searchsorted(accepted, k)], None)
                for k in range(3)
            ]
            accept = min(1.0, c[2] * acted[2][a] / MU[a])
            chance *= accept if last == 0.0 else 1 - accept
            if chance == 0:
                continue
            told = [row[3] for row in history]
            for (_, arm, reward, weight), k in zip(history, accepted, strict=True):
                assert weight == max(1.0, c[k] * acted[k][arm] / MU[arm])
                sums["mass"] += chance * weight
                sums["arm 1"] += chance * weight * arm
                sums["reward"] += chance * weight * reward
                sums["once: arm 1"] += chance * arm
            for name, values in f.items():
                means = [np.dot(pi, values) for pi in acted]
                expected[name] += chance * np.dot(c, means)
            values = np.array([np.dot(acted[k], Q) for k in accepted])
            total = result.value * c.sum()
            sums["R - V"] += chance * (total - np.dot(told, values))
            sums["once: R - V"] += chance * (total - values.sum())
    for name in f:
        assert abs(sums[name] - expected[name]) < 1e-13
    assert abs(sums["R - V"]) < 1e-13
    assert abs(sums["once: arm 1"] - expected["arm 1"]) > 0.02
    assert sums["once: R - V"] > 0.05


def test_the_length_of_the_history_is_that_of_the_weights():
    """The fixed trace with q = .5: c is 1, then .625 from the fourth acceptance on."""
    from tests.evaluators.sequential.test_drns import ROW_VALUES, A, P, trace

    by_length = {"q": 0.5, "normalize": False}
    once = trace(**by_length)
    weighed = trace(**by_length, excess="weight")
    c = np.array([1.0] * 4 + [0.625] * 6)
    np.testing.assert_array_equal(once.accepted, weighed.accepted)
    np.testing.assert_array_equal(once.acceptance_ratios, c)
    history, pi = [], []
    policy = once.learned_policy
    for k in range(10):
        pi.append(spec_rule(history, None)[A[k]])
        if k in once.accepted:
            history.append(policy.history[len(history)])
    weight = np.maximum(1.0, c * pi / np.array(P))[once.accepted]
    assert (weight > 1).sum() == once.n_violations - np.sum(
        np.isin(np.flatnonzero(c * pi / np.array(P) > 1), once.accepted, invert=True)
    )
    stop = once.accepted[-1] + 1
    total = (c * ROW_VALUES)[:stop].sum()
    assert once.value == pytest.approx(total / len(once.accepted), rel=1e-13)
    assert weighed.value == pytest.approx(total / weight.sum(), rel=1e-13)
    assert weighed.round_values.mean() == pytest.approx(weighed.value, rel=1e-13)


def two_armed_log(n, seed):
    rng = np.random.default_rng(seed)
    action = rng.choice(2, n, p=[0.9, 0.1])
    reward = rng.random(n) < np.array([0.2, 0.8])[action]
    return BanditLogs(np.zeros((n, 1)), action, reward, np.take([0.9, 0.1], action))


def test_trajectories_are_pooled_by_their_lengths():
    """A ratio of sums, like R / C, with the standard error of one."""
    logs, policy = two_armed_log(5000, 0), EpsilonGreedy(0.5)
    setting = {"q": 0.2, "horizon": 20, "excess": "weight", "random_state": 0}
    result = quiet(DRns(normalize=False, **setting).fit(logs), policy)
    assert result.round_values.mean() == pytest.approx(result.value, rel=1e-12)
    m, lengths = result.n_trajectories, result.trajectory_shares
    assert m > 50
    assert lengths.sum() == pytest.approx(1)
    assert np.ptp(lengths) > 0.1 / m  # histories of 20 rounds stand for more or less
    value = lengths @ result.trajectory_values
    assert result.value == pytest.approx(value, rel=1e-12)
    terms = m * lengths * (result.trajectory_values - value)
    error = terms.std(ddof=1) / np.sqrt(m)
    assert result.standard_error == pytest.approx(error, rel=1e-12)
    assert result.degrees_of_freedom == m - 1
    # the case of an inflated value: 1.63 for .61, the factor 1 / (1 - bias mass)
    once = DRns(normalize=False, **{**setting, "excess": "accept"}).fit(logs)
    once = quiet(once, policy)
    assert once.value > 1.4
    assert once.value * (1 - once.bias_mass) == pytest.approx(0.62, abs=0.1)
    assert result.value == pytest.approx(0.61, abs=0.06)


@pytest.mark.parametrize(
    "policy",
    [
        EpsilonGreedy(0.3),
        UCB1(),
        LinUCB(alpha=0.5),
        SegmentedPolicy(EpsilonGreedy(0.3), lambda X: X[:, 0] > 0),
    ],
    ids=lambda policy: type(policy).__name__,
)
def test_a_weight_is_how_often_a_round_counts(policy):
    logs = make_bandit_logs(60, n_actions=3, random_state=0)
    once, often = (policy.__sklearn_clone__().fit(logs) for _ in range(2))
    rng = np.random.default_rng(0)
    for k in range(60):
        lesson = logs.context[k : k + 1], logs.action_index.item(k), logs.reward.item(k)
        times = int(rng.integers(1, 4))
        once.update(*lesson, 0.5, weight=times)
        for _ in range(times):
            often.update(*lesson, 0.5)
    if isinstance(policy, UCB1):  # its bonus also asks how many rounds there were
        np.testing.assert_allclose(once.means_, often.means_, rtol=1e-12)
        np.testing.assert_array_equal(once.counts_, often.counts_)
        return
    X = np.random.default_rng(1).normal(size=(200, logs.n_features))
    np.testing.assert_array_equal(once.predict_proba(X), often.predict_proba(X))


@pytest.mark.parametrize("horizon", [None, 20])
def test_learned_policies_are_replayed_with_their_weights(horizon):
    logs = two_armed_log(3000, 1)
    setting = {"q": 0.2, "horizon": horizon, "excess": "weight", "random_state": 0}
    result = quiet(DRns(**setting).fit(logs), EpsilonGreedy(0.5))
    rows = result.accepted
    if horizon is not None:
        last = len(rows) // horizon * horizon
        rows = rows[last - horizon : last]
    means, policy = result.learned_policy.means_, EpsilonGreedy(0.5).fit(logs)
    counts, c = np.zeros(2), result.acceptance_ratios
    for row in rows.tolist():
        action = logs.action_index.item(row)
        pi = policy.action_row()[action]
        weight = max(1.0, c[row] * pi / logs.propensity[row])
        policy.update(None, action, logs.reward.item(row), pi, weight)
        counts[action] += weight
    assert counts.sum() > len(rows) + 3  # some weights are above one
    np.testing.assert_allclose(means, policy.means_, rtol=1e-12)
    if horizon is None:
        mixture = result.progressive_policy_
        frozen = [mixture.sample(seed).policy for seed in range(20)]
        longest = max(frozen, key=lambda one: one.counts_.sum())
        assert longest.counts_.sum() > len(rows) / 2


def test_settings_without_an_effect_are_refused():
    logs = make_bandit_logs(200, random_state=0)
    for normalize in (True, "pooled"):
        evaluator = DRns(excess="weight", normalize=normalize, random_state=0).fit(logs)
        with pytest.raises(
            ValueError, match=r"RulePolicy learns without weights .*normalize"
        ):
            evaluator.evaluate(RulePolicy(lambda h, x: [1 / 3] * 3))
        # a policy that does not learn: R / C has no weights, and none is needed
        plain = DRns(normalize=normalize, random_state=0).fit(logs)
        own, other = (quiet(e, UniformPolicy()) for e in (evaluator, plain))
        assert own.value == other.value
    by_length = DRns(excess="weight", normalize=False, random_state=0).fit(logs)
    assert quiet(by_length, RulePolicy(lambda h, x: [1 / 3] * 3)).value > 0

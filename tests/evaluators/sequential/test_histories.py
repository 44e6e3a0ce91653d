# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Histories of learners: their weights, their sums, and the policies along them."""

from itertools import pairwise, product

import numpy as np
import pytest
from sklearn.base import clone

from skope_ope import (
    UCB1,
    BanditLogs,
    ConstantPolicy,
    DRns,
    EpsilonGreedy,
    LinUCB,
    UniformPolicy,
)
from skope_ope.datasets import make_bandit_logs
from skope_ope.exceptions import HorizonWarning
from skope_ope.policies import SegmentedPolicy, action_probabilities
from tests._learners import RulePolicy, greedy_rule
from tests._quiet import quiet

MU, CLICKS, MODEL = (0.25, 0.75), (0.3, 0.8), (0.5, 0.6)  # a world without contexts


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
        ((a, r, u), MU[a] * (CLICKS[a] if r else 1 - CLICKS[a]) * length)
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
    f = {"mass": (1, 1), "arm 1": (0, 1), "reward": CLICKS}
    expected = dict.fromkeys(f, 0.0)
    for rounds in product(*rows):
        for a, r, last in product((0, 1), (0, 1), (0.0, 1 - 1e-12)):
            # of the last round only the chance to be accepted matters
            chance = np.prod([c for _, c in rounds])
            chance *= MU[a] * (CLICKS[a] if r else 1 - CLICKS[a])
            played = [row[:2] for row, _ in rounds] + [(a, r)]
            u = [row[2] for row, _ in rounds] + [last]
            evaluator = DRns(
                q=level,
                normalize="pooled",
                excess="weight",
                reward_model=np.tile(MODEL, (3, 1)),
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
            values = np.array([np.dot(acted[k], CLICKS) for k in accepted])
            total = result.value * c.sum()
            sums["R - V"] += chance * (total - np.dot(told, values))
            sums["once: R - V"] += chance * (total - values.sum())
    for name in f:
        assert abs(sums[name] - expected[name]) < 1e-13
    assert abs(sums["R - V"]) < 1e-13
    assert abs(sums["once: arm 1"] - expected["arm 1"]) > 0.02
    assert sums["once: R - V"] > 0.05


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


MEANS = np.array([0.2, 0.5, 0.8])


def logs_of(seed, n=3000):
    """Three actions of a uniform logger."""
    rng = np.random.default_rng(seed)
    action = rng.integers(0, 3, n)
    reward = rng.random(n) < MEANS[action]
    return BanditLogs(np.zeros((n, 1)), action, reward, np.full(n, 1 / 3))


def sums(result, logs, pi, model):
    """R and C of every complete trajectory, by the formula."""
    w = pi[np.arange(len(logs)), logs.action_index] / logs.propensity
    r_k = model + w * (logs.reward - model)
    c, start, found = result.acceptance_ratios, 0, []
    for stop in result.trajectory_stops:
        found.append([(c * r_k)[start:stop].sum(), c[start:stop].sum()])
        start = stop
    return np.array(found).T


def test_the_ratio_of_the_sums():
    logs, pi = logs_of(0), np.tile([0.6, 0.3, 0.1], (3000, 1))
    evaluator = DRns(horizon=7, normalize="pooled", reward_model=0.4, random_state=0)
    result = evaluator.fit(logs).evaluate(pi)
    above, below = sums(result, logs, pi, 0.4)
    m, value = len(above), above.sum() / below.sum()
    assert m > 50
    assert result.value == pytest.approx(value, rel=1e-12)
    error = np.std(m * (above - value * below) / below.sum(), ddof=1) / np.sqrt(m)
    assert result.standard_error == pytest.approx(error, rel=1e-12)
    assert result.degrees_of_freedom == m - 1
    np.testing.assert_allclose(result.trajectory_values, above / below, rtol=1e-12)
    np.testing.assert_allclose(result.trajectory_shares, below / below.sum())
    assert result.round_values.mean() == pytest.approx(value, rel=1e-12)
    own = quiet(clone(evaluator).set_params(normalize=True).fit(logs), pi)
    assert own.value == pytest.approx((above / below).mean(), rel=1e-12)
    np.testing.assert_allclose(own.trajectory_shares, 1 / m)


def test_parts_are_pooled_too():
    logs = logs_of(1)
    evaluator = DRns(
        horizon=7, normalize="pooled", n_splits=4, reward_model=0.4, random_state=0
    ).fit(logs)
    first, second = (quiet(evaluator, EpsilonGreedy(e)) for e in (0.1, 0.9))
    weights = []
    for k in range(4):
        inside = (first.trajectory_stops - 1) // 750 == k
        shares, values = first.trajectory_shares[inside], first.trajectory_values
        weights.append(shares.sum())
        mean = (shares * values[inside]).sum() / shares.sum()
        assert first.part_values[k] == pytest.approx(mean, rel=1e-12)
    weights = np.array(weights)
    assert weights.sum() == pytest.approx(1)
    assert first.value == pytest.approx(weights @ first.part_values, rel=1e-12)
    terms = 4 * weights * (first.part_values - first.value)
    assert first.standard_error == pytest.approx(terms.std(ddof=1) / 2)
    gap = first - second
    assert gap.degrees_of_freedom == 3
    assert gap.value == first.value - second.value
    assert gap.standard_error > 0


def learner_value(clicks, epsilon, horizon, n=50_000):
    """Mean reward of epsilon-greedy over a horizon, from histories online."""
    rng = np.random.default_rng(0)
    counts, sums, total = *np.zeros((2, n, len(clicks))), 0.0
    row = np.arange(n)
    for _ in range(horizon):
        tried = counts > 0
        means = np.divide(sums, counts, out=np.full(sums.shape, np.inf), where=tried)
        explores = rng.random(n) < epsilon
        action = np.where(
            explores, rng.integers(0, len(clicks), n), means.argmax(axis=1)
        )
        reward = rng.random(n) < clicks[action]
        counts[row, action] += 1
        sums[row, action] += reward
        total += reward.mean()
    return total / horizon


@pytest.mark.theory
@pytest.mark.parametrize("model", [None, 0.5])
def test_rare_clicks_and_short_horizons(model):
    """Clicks of 1 to 10%, horizon 30: the mean of ratios was a fifth too low."""
    clicks, policy = np.array([0.01, 0.02, 0.05, 0.1]), EpsilonGreedy(0.3)
    truth, found = learner_value(clicks, 0.3, 30), {"pooled": [], True: []}
    covered = 0
    for k in range(20):
        rng = np.random.default_rng(k)
        action = rng.integers(0, 4, 10_000)
        click = (rng.random(10_000) < clicks[action]).astype(float)
        logs = BanditLogs(np.zeros((10_000, 1)), action, click, np.full(10_000, 0.25))
        for normalize, values in found.items():
            given = {} if normalize == "pooled" else {"normalize": normalize}
            evaluator = DRns(horizon=30, reward_model=model, random_state=k, **given)
            result = quiet(evaluator.fit(logs), policy)
            values.append(result.value)
            if normalize == "pooled":  # the default
                low, high = result.confidence_interval()
                covered += low <= truth <= high
    error = np.std(found["pooled"], ddof=1) / np.sqrt(20)
    assert abs(np.mean(found["pooled"]) - truth) < 4 * error
    assert covered >= 16
    if model == 0.5:
        assert np.mean(found[True]) < 0.85 * truth


@pytest.mark.theory
def test_only_the_ratio_of_the_sums_is_unbiased(global_random_seed):
    policy, values = ConstantPolicy(0), {True: [], "pooled": []}
    for k in range(20):
        logs = logs_of([global_random_seed, k])
        for normalize, found in values.items():
            evaluator = DRns(horizon=5, normalize=normalize, random_state=k)
            found.append(quiet(evaluator.fit(logs), policy).value)
    means = {name: np.mean(found) for name, found in values.items()}
    errors = {name: np.std(found, ddof=1) / 20**0.5 for name, found in values.items()}
    # 200 trajectories each: what is left of the ratio's bias is 0.002 at most
    assert abs(means["pooled"] - 0.2) < 4 * errors["pooled"] + 0.002
    assert means[True] < 0.2 - 4 * errors[True]


def test_short_histories_are_noticed():
    own = {"normalize": True, "random_state": 0}
    evaluator = DRns(horizon=5, **own).fit(logs_of(0))
    with pytest.warns(HorizonWarning, match="normalize='pooled'") as caught:
        result = evaluator.evaluate(ConstantPolicy(0))
    pooled = clone(evaluator).set_params(normalize="pooled").fit(logs_of(0))
    gap = result.value - pooled.evaluate(ConstantPolicy(0)).value  # without a warning
    assert caught[0].message.value == pytest.approx(gap, rel=1e-9)
    # where the model knows the value, nothing leans anywhere
    evaluator = DRns(horizon=5, reward_model=0.2, **own).fit(logs_of(0))
    evaluator.evaluate(ConstantPolicy(0))
    # long histories lean less than they err
    DRns(horizon=200, **own).fit(logs_of(0)).evaluate(ConstantPolicy(0))


def traced(policy, n=300, **parameters):
    logs = make_bandit_logs(n, n_actions=3, random_state=0)
    fitted = DRns(reward_model=0.4, random_state=0, **parameters).fit(logs)
    return logs, quiet(fitted, policy)


def test_weights_are_shares_of_the_scored_rounds():
    """c_t |B(t)| / C, the trailing partial block among them."""
    logs, result = traced(EpsilonGreedy())
    weights = result.progressive_policy_.weights_
    c, accepted = result.acceptance_ratios, result.accepted
    assert weights.sum() == pytest.approx(1, abs=1e-14)
    assert len(weights) == len(accepted) + 1
    starts = [0, *(accepted + 1), len(logs)]
    expected = [c[a:b].sum() / c.sum() for a, b in pairwise(starts)]
    np.testing.assert_allclose(weights, expected, rtol=1e-12, atol=1e-16)


def test_probabilities_are_those_of_the_histories_in_the_mean():
    rule = greedy_rule(3)
    logs, result = traced(RulePolicy(rule))
    progressive = result.progressive_policy_
    rows = result.accepted
    history = [(None, logs.action_index.item(k), logs.reward.item(k)) for k in rows]
    expected = sum(
        weight * np.array(rule(history[:t], None))
        for t, weight in enumerate(progressive.weights_)
    )
    found = action_probabilities(progressive, logs[:5])
    np.testing.assert_allclose(found, np.tile(expected, (5, 1)), rtol=1e-12)


def test_samples_are_the_policies_of_the_histories(global_random_seed):
    rule = greedy_rule(3)
    logs, result = traced(RulePolicy(rule), n=60)
    progressive = result.progressive_policy_
    lengths = []
    for seed in range(200):
        drawn = progressive.sample(np.random.RandomState([global_random_seed, seed]))
        history = drawn.policy.history
        lengths.append(len(history))
        rows = result.accepted[: len(history)]
        assert [row[1] for row in history] == logs.action_index[rows].tolist()
        expected = rule(history, None)
        np.testing.assert_allclose(drawn.predict_proba(logs.context[:1])[0], expected)
    weights = progressive.weights_
    mean = np.arange(len(weights)) @ weights
    error = np.sqrt(np.arange(len(weights)) ** 2 @ weights - mean**2) / np.sqrt(200)
    assert abs(np.mean(lengths) - mean) < 4 * error


def test_only_a_single_trace_has_one():
    for policy, parameters in (
        (EpsilonGreedy(), {"horizon": 10}),
        (EpsilonGreedy(), {"normalize": False}),
        (UniformPolicy(), {}),
    ):
        _, result = traced(policy, **parameters)
        assert not hasattr(result, "progressive_policy_")


class StartsEmpty(EpsilonGreedy):
    """A policy that is reset with the actions of the logs, and with no round."""

    def reset(self, logs):
        assert len(logs) == 0 and logs.actions.tolist() == [0, 1]
        return super().reset(logs)


def test_every_trajectory_starts_without_a_round():
    logs = make_bandit_logs(400, n_actions=2, random_state=0)
    value = quiet(DRns(horizon=20, random_state=0).fit(logs), StartsEmpty())
    assert value.n_trajectories > 1

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Histories of learners: their weights, their sums, and the policies along them."""

from itertools import pairwise

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
from tests.evaluators.sequential._worlds import two_armed_log


def test_trajectories_are_pooled_by_their_lengths():
    """A ratio of sums, like R / C, with the standard error of one."""
    logs, policy = two_armed_log(), EpsilonGreedy(0.5)
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


SEGMENTED = SegmentedPolicy(EpsilonGreedy(0.3), lambda X: X[:, 0] > 0)


@pytest.mark.parametrize(
    "policy", [EpsilonGreedy(0.3), UCB1(), LinUCB(alpha=0.5), SEGMENTED]
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


def thirds(history, x):
    return [1 / 3] * 3


def test_settings_without_an_effect_are_refused():
    logs, learner = make_bandit_logs(200, random_state=0), RulePolicy(thirds)
    match = r"RulePolicy learns without weights .*normalize"
    for normalize in (True, "pooled"):
        evaluator = DRns(excess="weight", normalize=normalize, random_state=0).fit(logs)
        with pytest.raises(ValueError, match=match):
            evaluator.evaluate(learner)
        # a policy that does not learn: R / C has no weights, and none is needed
        plain = DRns(normalize=normalize, random_state=0).fit(logs)
        own, other = (quiet(e, UniformPolicy()) for e in (evaluator, plain))
        assert own.value == other.value
    by_length = DRns(excess="weight", normalize=False, random_state=0).fit(logs)
    assert quiet(by_length, learner).value > 0


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
    assert gap.degrees_of_freedom == 3 and gap.standard_error > 0
    assert gap.value == first.value - second.value


def learner_value(clicks, epsilon, horizon, n=50_000):
    """Mean reward of epsilon-greedy over a horizon, from histories online."""
    rng = np.random.default_rng(0)
    counts, sums, total = *np.zeros((2, n, len(clicks))), 0.0
    row = np.arange(n)
    for _ in range(horizon):
        tried = counts > 0
        means = np.divide(sums, counts, out=np.full(sums.shape, np.inf), where=tried)
        explores = rng.random(n) < epsilon
        other = rng.integers(0, len(clicks), n)
        action = np.where(explores, other, means.argmax(axis=1))
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
    values = []
    for k in range(20):
        logs = logs_of([global_random_seed, k])
        for normalize in (True, "pooled"):
            evaluator = DRns(horizon=5, normalize=normalize, random_state=k)
            values.append(quiet(evaluator.fit(logs), ConstantPolicy(0)).value)
    values = np.reshape(values, (20, 2))
    own, pooled = values.mean(axis=0)
    errors = values.std(axis=0, ddof=1) / np.sqrt(20)
    # 200 trajectories each: what is left of the ratio's bias is 0.002 at most
    assert abs(pooled - 0.2) < 4 * errors[1] + 0.002
    assert own < 0.2 - 4 * errors[0]


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


BY_LENGTH = {"normalize": False}


def traced(policy, n=300, **parameters):
    logs = make_bandit_logs(n, n_actions=3, random_state=0)
    fitted = DRns(reward_model=0.4, random_state=0, **parameters).fit(logs)
    return logs, quiet(fitted, policy)


def test_the_progressive_policy_is_the_mean_of_the_histories():
    """Weighted by c_t |B(t)| / C, the trailing partial block among them."""
    rule = greedy_rule(3)
    logs, result = traced(RulePolicy(rule))
    progressive, rows = result.progressive_policy_, result.accepted
    c = result.acceptance_ratios
    starts = [0, *(rows + 1), len(logs)]
    shares = [c[a:b].sum() / c.sum() for a, b in pairwise(starts)]
    np.testing.assert_allclose(progressive.weights_, shares, rtol=1e-12, atol=1e-16)
    history = [(None, logs.action_index.item(k), logs.reward.item(k)) for k in rows]
    proba = [rule(history[:t], None) for t in range(len(rows) + 1)]
    expected = np.dot(shares, proba)
    found = action_probabilities(progressive, logs[:5])
    np.testing.assert_allclose(found, np.tile(expected, (5, 1)), rtol=1e-12)


def test_samples_are_the_policies_of_the_histories(global_random_seed):
    rule = greedy_rule(3)
    logs, result = traced(RulePolicy(rule), n=60)
    progressive, lengths = result.progressive_policy_, []
    for seed in range(200):
        drawn = progressive.sample(np.random.RandomState([global_random_seed, seed]))
        history = drawn.policy.history
        lengths.append(len(history))
        rows = result.accepted[: len(history)]
        assert [row[1] for row in history] == logs.action_index[rows].tolist()
        found = drawn.predict_proba(logs.context[:1])[0]
        np.testing.assert_allclose(found, rule(history, None))
    weights, t = progressive.weights_, np.arange(len(progressive.weights_))
    mean = t @ weights
    error = np.sqrt((t**2 @ weights - mean**2) / 200)
    assert abs(np.mean(lengths) - mean) < 4 * error
    # only a single trace has one
    learner, fixed = EpsilonGreedy(), UniformPolicy()
    several = {"horizon": 10}
    for policy, given in ((learner, several), (learner, BY_LENGTH), (fixed, {})):
        assert not hasattr(traced(policy, **given)[1], "progressive_policy_")


def test_every_trajectory_starts_without_a_round():
    class StartsEmpty(EpsilonGreedy):
        def reset(self, logs):
            assert len(logs) == 0 and logs.actions.tolist() == [0, 1]
            return super().reset(logs)

    logs = make_bandit_logs(400, n_actions=2, random_state=0)
    value = quiet(DRns(horizon=20, random_state=0).fit(logs), StartsEmpty())
    assert value.n_trajectories > 1

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Ratios of short histories are biased; the ratio of their sums is not."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

from skope_ope import BanditLogs, ConstantPolicy, DRns, EpsilonGreedy
from skope_ope.datasets import make_bandit_logs
from skope_ope.exceptions import HorizonWarning, OPEWarning

MEANS = np.array([0.2, 0.5, 0.8])


def logs_of(seed, n=3000):
    """Three actions of a uniform logger."""
    rng = np.random.default_rng(seed)
    action = rng.integers(0, 3, n)
    reward = rng.random(n) < MEANS[action]
    return BanditLogs(np.zeros((n, 1)), action, reward, np.full(n, 1 / 3))


def quiet(evaluator, policy):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)
        return evaluator.evaluate(policy)


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
                low, high = result._interval()
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


@pytest.mark.parametrize("horizon", [None, 30])
def test_one_trajectory_is_its_own_ratio(horizon):
    logs = make_bandit_logs(400, random_state=0)
    logs = logs if horizon is None else logs[:250]
    values = []
    for normalize in (True, "pooled"):
        evaluator = DRns(
            horizon=horizon, normalize=normalize, reward_model=0.5, random_state=0
        )
        values.append(quiet(evaluator.fit(logs), EpsilonGreedy()))
    first, second = values
    assert first.n_trajectories == 1
    assert second.value == pytest.approx(first.value, rel=1e-12)
    np.testing.assert_allclose(second.round_values, first.round_values, rtol=1e-9)
    assert hasattr(first, "progressive_policy_") == hasattr(
        second, "progressive_policy_"
    )

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Replay and rejection sampling, and how long a log has to be."""

import numpy as np
import pytest
from scipy.stats import binom
from scipy.stats import t as student

from skope_ope import (
    IPS,
    UCB1,
    BanditLogs,
    ConstantPolicy,
    DRns,
    EpsilonGreedy,
    LinUCB,
    RejectionSampling,
    Replay,
    UniformPolicy,
)
from skope_ope.datasets import make_bandit_logs
from skope_ope.evaluators import replay_log_length
from skope_ope.exceptions import (
    BiasWarning,
    HorizonWarning,
    LowOverlapWarning,
    PropensityWarning,
    SingleTrajectoryWarning,
    SupportWarning,
)
from tests._learners import RulePolicy, contrary_rule
from tests._quiet import quiet
from tests._worlds import uniform_logs


def digits_logs(x, a, r):
    x, a, r = (np.array([int(c) for c in text]) for text in (x, a, r))
    return BanditLogs(x[:, None].astype(float), a, r, actions=[0, 1])


def test_traces():
    """R10: the arm with the larger (sum + .5) / (n + 1), the other one where x = 0."""
    logs = digits_logs("1011001011", "0110011010", "0110111001")
    result = quiet(Replay().fit(logs), RulePolicy(contrary_rule))
    assert (result.accepted + 1).tolist() == [1, 3, 5, 7, 8, 9]
    assert result.value == 3 / 6
    assert (result.acceptance_ratios == 1).all()
    # S6: replay of h(x) = x accepts 4 rounds, all rewarded
    logs = digits_logs("010110", "011010", "110011")
    result = quiet(Replay().fit(logs), np.eye(2)[logs.context[:, 0].astype(int)])
    assert result.value == 1.0
    assert result.successes == (4, 4)
    low, high = result.confidence_interval(method="clopper_pearson")
    assert low == pytest.approx(0.3976353644, abs=1e-10)
    assert high == 1.0


def test_standard_error_of_a_stationary_policy():
    logs, policy, _ = uniform_logs(3000, return_truth=True)
    result = quiet(Replay(random_state=0).fit(logs), policy)
    rewards, n = logs.reward[result.accepted], len(logs)
    t = len(rewards)
    assert result.value == rewards.mean()
    expected = np.full(n, result.value)
    expected[result.accepted] += n * (rewards - result.value) / t
    np.testing.assert_allclose(result.round_values, expected, rtol=0, atol=1e-13)
    error = rewards.std(ddof=1) / np.sqrt(t)
    factor = np.sqrt((t - 1) / t * n / (n - 1))  # of ddof in T and in n rounds
    assert result.standard_error == pytest.approx(error * factor, rel=1e-12)
    assert result.degrees_of_freedom == t - 1
    half = student.ppf(0.95, t - 1) * result.standard_error
    low, high = result.confidence_interval(0.9)
    assert (high - low) / 2 == pytest.approx(half)
    assert result.successes == (rewards.sum(), t)
    exact = result.confidence_interval(method="clopper_pearson")
    assert exact == pytest.approx(result.confidence_interval(), abs=0.002)
    # it is for shares of ones
    learner = quiet(Replay(random_state=0).fit(logs), EpsilonGreedy())
    real = quiet(Replay().fit(logs.replace(reward=logs.reward / 2)), policy)
    static = quiet(IPS().fit(logs), policy)
    for result in (learner, real, static):
        with pytest.raises(ValueError, match="is for"):
            result.confidence_interval(method="clopper_pearson")
    with pytest.raises(ValueError, match="got 'exact'"):
        static.confidence_interval(method="exact")


@pytest.mark.theory
def test_intervals_of_a_stationary_policy_cover(global_random_seed):
    """Given T the accepted rewards are independent draws: both intervals hold."""
    rng, covered = np.random.RandomState(global_random_seed), np.zeros(2)
    n_logs, level, p = 400, 0.9, 0.3
    for _ in range(n_logs):
        a = rng.randint(0, 4, 200)
        r = (rng.random_sample(200) < np.where(a == 2, p, 0.9)).astype(float)
        logs = BanditLogs(np.empty((200, 0)), a, r, np.full(200, 0.25))
        result = quiet(Replay().fit(logs), ConstantPolicy(2).fit(logs))
        for i, method in enumerate(("student", "clopper_pearson")):
            low, high = result.confidence_interval(level, method)
            covered[i] += low <= p <= high
    error = np.sqrt(level * (1 - level) / n_logs)
    assert covered[0] / n_logs > level - 4 * error - 0.02  # asymptotic
    assert covered[1] / n_logs > level - 4 * error  # exact


def test_one_accepted_round_or_none_has_no_spread():
    logs = BanditLogs(np.zeros((4, 1)), [0, 1, 1, 1], np.ones(4), np.full(4, 0.5))
    with pytest.warns(LowOverlapWarning, match="only 1 of 4 rounds"):
        result = Replay().fit(logs).evaluate(np.tile([1.0, 0.0], (4, 1)))
    assert result.value == 1.0
    assert np.isnan(result.standard_error)
    low, high = result.confidence_interval(method="clopper_pearson")
    assert (round(low, 3), high) == (0.025, 1.0)
    # nothing accepted is NaN
    logs = BanditLogs(np.zeros((4, 1)), [0] * 4, np.ones(4), actions=[0, 1])
    fitted = Replay().fit(logs)
    never = np.tile([0.0, 1.0], (4, 1))
    with (
        pytest.warns(SupportWarning, match=r"100\.00% .* never took"),
        pytest.warns(LowOverlapWarning, match=r"no logged round .* \(T = 0\)"),
    ):
        result = fitted.evaluate(never)
    assert np.isnan(result.value)
    assert result.n_trajectories == 0
    assert [warning.value for warning in result.warnings] == [1.0, 0]
    result = quiet(Replay(horizon=2).fit(logs), never)
    assert "no logged round" in str(result.warnings[1])


def test_learners_want_a_horizon_that_the_log_can_give():
    logs = uniform_logs(600)
    with pytest.warns(HorizonWarning, match=r"T = \d+ accepted rounds"):
        result = Replay(horizon=500, random_state=0).fit(logs).evaluate(LinUCB())
    assert np.isnan(result.value)
    with pytest.warns(SingleTrajectoryWarning, match="repeated_runs"):
        result = Replay(random_state=0).fit(logs).evaluate(EpsilonGreedy())
    assert np.isnan(result.standard_error)


def test_uniform_logging_is_checked():
    logs = make_bandit_logs(500, random_state=0)
    match = r"Replay needs a uniform logger, but the propensity at row \d+ .*such rows"
    with pytest.raises(ValueError, match=match):
        Replay().fit(logs)
    fitted = Replay().fit(uniform_logs(500))
    with pytest.raises(ValueError, match="Use RejectionSampling or DRns"):
        fitted.evaluate(UniformPolicy(), logs)
    # without propensities uneven counts warn
    rng = np.random.RandomState(0)
    even = BanditLogs(np.zeros((900, 1)), rng.randint(0, 3, 900), np.ones(900))
    quiet_value = Replay().fit(even).evaluate(UniformPolicy())
    assert quiet_value.warnings == ()
    action = np.where(rng.random_sample(900) < 0.2, 0, rng.randint(0, 3, 900))
    uneven = BanditLogs(np.zeros((900, 1)), action, np.ones(900))
    with pytest.warns(PropensityWarning, match="not equally frequent") as caught:
        Replay().fit(uneven).evaluate(UniformPolicy())
    assert 0 < caught[0].message.value < 1e-6


def test_varying_offers_are_corrected(global_random_seed):
    """True value .3; without the correction small sets would be seen too often."""
    rng, n = np.random.RandomState(global_random_seed), 40_000
    small = rng.random_sample(n) < 0.5  # 2 of 6 actions, reward .1 instead of .5
    available = ~small[:, None] | (np.arange(6) < 2)
    k = available.sum(axis=1)
    action = (rng.random_sample(n) * k).astype(int)
    reward = (rng.random_sample(n) < np.where(small, 0.1, 0.5)).astype(float)
    rounds = np.zeros((n, 1)), action, reward, 1 / k
    logs = BanditLogs(*rounds, available=available, actions=range(6))
    first = np.tile(np.eye(6)[0], (n, 1))
    # another seed than that of the logs: u must not depend on them
    result = quiet(Replay(random_state=global_random_seed + 100).fit(logs), first)
    assert abs(result.value - 0.3) < 4 * result.standard_error
    plain = reward[action == 0].mean()
    assert abs(plain - 0.3) > 8 * result.standard_error


def test_probabilities_of_the_logged_actions_are_enough():
    logs = uniform_logs(500)
    pi = np.random.RandomState(0).dirichlet(np.ones(logs.n_actions), 500)
    fitted = Replay(random_state=0).fit(logs.with_columns(pi=pi))
    logged = pi[np.arange(500), logs.action_index]
    assert len({quiet(fitted, one).value for one in (pi, logged)}) == 1


@pytest.mark.parametrize(
    ("k", "n", "g", "bound"),
    [
        (2, 10**4, 0.25, 0.040535),
        (20, 10**6, 0.05, 0.004510),
        pytest.param(20, 4 * 10**6, 0.04, 0.001962, marks=pytest.mark.thorough),
    ],
)
def test_the_theorem_of_replay(k, n, g, bound):
    """It depends on the numbers of rounds and of actions alone."""
    action = np.arange(n) % 2
    logs = BanditLogs(np.empty((n, 0)), action, action)
    result = quiet(Replay(random_state=0).fit(logs), UniformPolicy())
    radius = result.deviation_bound(0.05, n_actions=k, value_bound=g)
    assert radius == pytest.approx(bound, abs=5e-7)


def test_the_theorem_of_replay_asks_for_what_it_needs():
    logs = uniform_logs(5000, n_actions=2)
    fitted = Replay(random_state=0).fit(logs)
    result = quiet(fitted, UniformPolicy())
    known = {"n_actions": 2, "value_bound": 0.8}
    assert 0 < result.deviation_bound(0.05, **known) < 0.2
    for asked, match in (
        ({}, "needs n_actions and value_bound"),
        ({"n_actions": 2}, "needs value_bound"),
        ({**known, "n_actions": 1}, "n_actions=1, but some round offers 2 actions"),
        ({**known, "n_actions": np.nan}, "n_actions=nan, but"),
        ({**known, "value_bound": 0.0}, r"must lie in \(0, 1\], got 0.0"),
        ({**known, "value_bound": 1.5}, r"value_bound must lie in \(0, 1\], got 1.5"),
    ):
        with pytest.raises(ValueError, match=match):
            result.deviation_bound(**asked)
    with pytest.raises(TypeError, match="unexpected keyword argument 'max_weight'"):
        result.deviation_bound(**known, max_weight=3)
    scaled = Replay().fit(BanditLogs(logs.context, logs.action, 3 * logs.reward))
    parts = Replay(horizon=100, random_state=0).fit(logs)
    rare = {"n_actions": 20, "value_bound": 0.05}
    short = Replay(random_state=0).fit(logs[:1000])
    for evaluator, policy, asked, match in (
        (fitted, EpsilonGreedy(), known, "about stationary policies"),
        (scaled, UniformPolicy(), known, r"rewards in \[0, 1\], got 0 to 3"),
        (short, UniformPolicy(), rare, r"too short for Theorem 2.*gamma_2 = 2\.29"),
        (parts, UniformPolicy(), known, r"about the whole log\. Use horizon=None"),
    ):
        value = quiet(evaluator, policy)
        with pytest.raises(ValueError, match=match):
            value.deviation_bound(0.05, **asked)


def test_values_by_day_and_so_far_are_means_of_accepted_rewards():
    logs, policy, _ = uniform_logs(3000, return_truth=True)
    day = np.arange(3000) // 600
    result = quiet(Replay(random_state=0).fit(logs), policy)
    accepted, rewards = result.accepted, logs.reward[result.accepted]
    for label, value in result.by(day).items():
        own = rewards[day[accepted] == label]
        assert value.value == pytest.approx(own.mean())
        assert value.successes == (own.sum(), len(own))
        assert value.degrees_of_freedom == len(own) - 1
        error = own.std(ddof=1) / np.sqrt(len(own))
        assert value.standard_error == pytest.approx(error, rel=0.01)
    rows, values = result.running_values()
    np.testing.assert_array_equal(rows, accepted)
    means = rewards.cumsum() / np.arange(1, len(rewards) + 1)
    np.testing.assert_allclose(values, means, rtol=1e-12)


def test_learning_value_and_deployment_value():
    """The learned policy, frozen without exploration, on rounds it never saw."""
    logs = uniform_logs(8000, 1, n_actions=4)
    train, test = logs[:4000], logs[4000:]
    learning = quiet(Replay(random_state=0).fit(train), EpsilonGreedy(epsilon=0.5))
    learned = learning.learned_policy
    assert learned.counts_.sum() == len(learning.accepted)
    frozen, best = learned.frozen(), np.nanargmax(learned.means_)
    assert (frozen.predict_proba(test.context) == np.eye(4)[best]).all()
    deployment = quiet(Replay(random_state=0).fit(test), frozen)
    assert deployment.value == test.reward[test.action_index == best].mean()
    # exploration costs: half of the rounds were spent on any action
    assert deployment.value > learning.value + 2 * deployment.standard_error


def test_the_constant():
    logs, policy, _ = make_bandit_logs(2000, random_state=0, return_truth=True)
    pi = policy.predict_proba(logs.context)[np.arange(2000), logs.action_index]
    least = logs.propensity.min(), 0.01, (logs.propensity / pi).min()
    for cmax, c in zip((None, 0.01, "target"), least, strict=True):
        fitted = RejectionSampling(cmax=cmax, random_state=0).fit(logs)
        result = quiet(fitted, policy)
        np.testing.assert_array_equal(result.acceptance_ratios, c)
        accepted = fitted.uniforms_ <= c * pi / logs.propensity
        np.testing.assert_array_equal(result.accepted, np.flatnonzero(accepted))
        assert result.value == logs.reward[accepted].mean()
        assert result.n_violations == 0
        assert result.bias_mass == 0


def test_the_target_constant():
    """Uniform over 4, pi = (.4, .3, .2, .1): .625 are accepted, by matching .25."""
    n, action = 40_000, np.random.RandomState(0).randint(0, 4, 40_000)
    logs = BanditLogs(np.zeros((n, 1)), action, np.ones(n), np.full(n, 0.25))
    pi = np.tile([0.4, 0.3, 0.2, 0.1], (n, 1))
    for cmax, rate in (("target", 0.625), (None, 0.25)):
        fitted = RejectionSampling(cmax=cmax, random_state=0).fit(logs)
        error = np.sqrt(rate * (1 - rate) / n)
        assert abs(len(quiet(fitted, pi).accepted) / n - rate) < 4 * error
    fitted = RejectionSampling(cmax="target").fit(logs)
    with pytest.raises(ValueError, match=r"cmax='target' needs .* in advance"):
        fitted.evaluate(EpsilonGreedy())
    # a target that wants nothing of the log
    logs = BanditLogs(np.zeros((4, 1)), [0] * 4, np.ones(4), [1.0] * 4, actions=[0, 1])
    fitted = RejectionSampling(cmax="target").fit(logs)
    with (
        pytest.warns(LowOverlapWarning, match="T = 0"),
        pytest.warns(SupportWarning, match=r"100\.00% .* never took"),
    ):
        result = fitted.evaluate(np.tile([0.0, 1.0], (4, 1)))
    assert np.isnan(result.value)
    assert result.diagnostics["unsupported_mass"] == 1


def test_too_large_a_constant_warns():
    logs = make_bandit_logs(500, random_state=0)
    fitted = RejectionSampling(cmax=1.0, random_state=0).fit(logs)
    with pytest.warns(BiasWarning, match=r"no bound on p / pi: lower cmax") as told:
        result = fitted.evaluate(UniformPolicy())
    assert told[0].message.value == result.bias_mass > 0
    assert result.n_violations > 0
    # one violated round is enough to prove it
    least = np.sort(logs.propensity)[1]
    fitted = RejectionSampling(cmax=least, random_state=0).fit(logs)
    result = quiet(fitted, np.eye(logs.n_actions)[logs.action_index])
    assert result.n_violations == 1
    assert BiasWarning in map(type, result.warnings)
    with pytest.raises(ValueError, match=r"no theorem bounds .* RejectionSampling"):
        result.deviation_bound()
    for cmax in (0, -1.0, "logs"):
        with pytest.raises(ValueError, match="'cmax' parameter of RejectionSampling"):
            RejectionSampling(cmax=cmax).fit(logs)


@pytest.mark.parametrize(
    "evaluator", [Replay(), RejectionSampling(), DRns(q=0), DRns(q=0.05)], ids=str
)
def test_a_policy_that_cycles_is_accepted_in_one_round_of_k(
    evaluator, global_random_seed
):
    """UCB1 takes equal actions in turn. DR-ns accepts the uniform policy always."""
    n, k = 4000, 5
    rng = np.random.RandomState(global_random_seed)
    rounds = np.zeros((n, 1)), rng.randint(k, size=n), np.ones(n), np.full(n, 1 / k)
    logs = BanditLogs(*rounds, actions=np.arange(k))
    fitted = evaluator.set_params(random_state=global_random_seed).fit(logs)
    error = np.sqrt(1 / k * (1 - 1 / k) / n)
    accepted = quiet(fitted, UCB1()).accepted
    turns = logs.action[accepted][: len(accepted) // k * k].reshape(-1, k)
    assert (np.sort(turns, axis=1) == np.arange(k)).all()
    assert abs(len(accepted) / n - 1 / k) < 4 * error
    uniform = len(quiet(fitted, UniformPolicy()).accepted) / n
    if isinstance(evaluator, DRns):
        assert uniform == 1
    else:
        assert abs(uniform - 1 / k) < 4 * error


@pytest.mark.parametrize("n_actions", [2, 5, 20])
@pytest.mark.parametrize("delta", [0.5, 0.05, 0.001])
def test_lengths_of_logs(n_actions, delta):
    """The bound holds, and the quantile is the smallest."""
    assert replay_log_length(100, 20) == 2000
    assert replay_log_length(7, 1, delta=0.01) == 7  # one action: always accepted
    assert replay_log_length(100, 20, delta=0.05) == 2331
    bound = replay_log_length(100, 20, delta=0.05, exact=False)
    assert bound == pytest.approx(4119.8, abs=0.05)
    for n_accepted in (1, 10, 300):
        exact = replay_log_length(n_accepted, n_actions, delta=delta)
        bound = replay_log_length(n_accepted, n_actions, delta=delta, exact=False)
        assert exact <= bound
        # the log of this length is too short with probability at most delta
        assert binom.cdf(n_accepted - 1, exact, 1 / n_actions) <= delta + 1e-12
        assert binom.cdf(n_accepted - 1, exact - 1, 1 / n_actions) > delta


def test_replayed_logs_are_long_enough(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    length, delta, n_logs = int(replay_log_length(10, 3, delta=0.2)), 0.2, 300
    short = 0
    for _ in range(n_logs):
        rounds = np.empty((length, 0)), rng.randint(0, 3, length), np.ones(length)
        value = quiet(Replay().fit(BanditLogs(*rounds)), ConstantPolicy(0))
        short += len(value.accepted) < 10
    assert short / n_logs < delta + 4 * np.sqrt(delta * (1 - delta) / n_logs)
    # lengths that cannot be
    for arguments in ((0, 3), (3, 0), (2.5, 3)):
        with pytest.raises(ValueError, match="parameter of replay_log_length"):
            replay_log_length(*arguments)
    for delta in (0, 1, 1.5):
        with pytest.raises(ValueError, match="'delta' parameter"):
            replay_log_length(3, 3, delta=delta)

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Results of sequential evaluators: stored, in tables, of groups, and their alarms."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from skope_ope import (
    IPS,
    BanditLogs,
    ConstantPolicy,
    DRns,
    EpsilonGreedy,
    RejectionSampling,
    Replay,
    UniformPolicy,
    evaluate,
)
from skope_ope.datasets import make_bandit_logs
from skope_ope.exceptions import (
    BiasWarning,
    FewGroupsWarning,
    LowOverlapWarning,
    OPEWarning,
    PropensityWarning,
)
from tests._quiet import quiet
from tests._worlds import uniform_logs


def evaluated(evaluator, policy, logs):
    """Fit and evaluate, in silence."""
    return quiet(evaluator.fit(logs), policy)


def test_policies_share_random_numbers():
    logs, policy, _ = uniform_logs(800, return_truth=True)
    table = evaluate({"a": policy, "b": policy}, logs, evaluators=[RejectionSampling()])
    assert (
        table["a", "RejectionSampling"].value == table["b", "RejectionSampling"].value
    )


def test_the_shared_model_and_its_folds_reach_drns():
    logs, policy, _ = uniform_logs(800, return_truth=True)
    model = LogisticRegression()
    table = evaluate(
        policy, logs, evaluators=[DRns(random_state=0)], reward_model=model, cv=3
    )
    expected = DRns(reward_model=model, cv=3, random_state=0).fit(logs)
    assert table["DRns"].value == expected.score(policy)
    table = evaluate(policy, logs, evaluators=[DRns(random_state=0, reward_model=0.2)])
    expected = DRns(reward_model=0.2, random_state=0).fit(logs)
    assert table["DRns"].value == expected.score(policy)


def test_static_evaluators_refuse_a_learner():
    logs, policy, _ = uniform_logs(100, return_truth=True)
    match = "EpsilonGreedy learns while it acts, and IPS evaluates .* Use DRns"
    with pytest.raises(TypeError, match=match):
        evaluate(EpsilonGreedy(), logs)
    with pytest.raises(TypeError, match=match):
        evaluate({"a": policy, "b": EpsilonGreedy()}, logs, evaluators=["IPS", "DRns"])
    with pytest.raises(ValueError, match=r"'DRNS' is unknown; .*Replay.*DRns"):
        evaluate(policy, logs, evaluators=["DRNS"])


N_USERS, PER_USER = 100, 10


SINGLE = [
    Replay(random_state=0),
    RejectionSampling(random_state=0),
    DRns(reward_model=0.5, random_state=0),
    DRns(reward_model=0.5, normalize=False, random_state=0),
]


def logs_of_users(seed=0, group=True):
    """Users whose rewards have a part of their own, rounds in random order."""
    rng = np.random.default_rng(seed)
    user = rng.permutation(np.repeat(np.arange(N_USERS), PER_USER))
    n = len(user)
    action = rng.integers(0, 2, n)
    reward = rng.random(n) < 0.1 + 0.8 * (rng.random(N_USERS) < 0.5)[user]
    rounds = np.zeros((n, 1)), action, reward, np.full(n, 0.5)
    return BanditLogs(*rounds, actions=[0, 1], group=user if group else None)


@pytest.mark.parametrize("evaluator", SINGLE, ids=str)
def test_errors_of_a_single_trace_are_those_of_users(evaluator):
    logs = logs_of_users()
    pi = np.tile([0.7, 0.3], (len(logs), 1))
    result = evaluated(evaluator, pi, logs)
    plain = evaluated(evaluator, pi, logs_of_users(group=False))
    assert result.value == plain.value
    n = len(logs)
    sums = np.bincount(logs.group, result.round_values - result.value)
    error = np.sqrt((sums**2).sum() / (n * (n - 1)))
    assert result.standard_error == pytest.approx(error, rel=1e-12)
    assert result.standard_error > 1.2 * plain.standard_error
    assert result.degrees_of_freedom == N_USERS - 1
    assert result.diagnostics["n_groups"] == N_USERS
    assert result.diagnostics["effective_groups"] == pytest.approx(N_USERS)
    effect = (result.standard_error / plain.standard_error) ** 2
    assert result.diagnostics["design_effect"] == pytest.approx(effect)
    # accepted rewards are no independent draws
    assert result.successes is None
    gap = result - evaluated(evaluator, np.tile([0.3, 0.7], (n, 1)), logs)
    sums = np.bincount(logs.group, gap.round_values - gap.value)
    error = np.sqrt((sums**2).sum() / (n * (n - 1)))
    assert gap.standard_error == pytest.approx(error, rel=1e-12)
    halves = result.by(logs.group < 50)
    for half, size in ((halves[True], 50), (halves[False], 50)):
        assert half.diagnostics["n_groups"] == size


@pytest.mark.theory
def test_intervals_cover_where_users_differ():
    """The value is 1/2; users were drawn, too."""
    covered = np.zeros(2)
    n_logs = 300
    for seed in range(n_logs):
        for k, group in enumerate((True, False)):
            logs = logs_of_users(seed, group)
            evaluator = DRns(reward_model=0.5, random_state=seed)
            low, high = evaluated(
                evaluator, UniformPolicy(), logs
            ).confidence_interval()
            covered[k] += low <= 0.5 <= high
    covered /= n_logs
    assert 0.91 < covered[0] < 0.98
    assert covered[1] < 0.85


@pytest.mark.parametrize(
    ("evaluator", "policy"),
    [
        (DRns(horizon=50, reward_model=0.5, random_state=0), EpsilonGreedy()),
        (DRns(n_splits=4, reward_model=0.5, random_state=0), UniformPolicy()),
        (Replay(horizon=50, random_state=0), EpsilonGreedy()),
    ],
    ids=str,
)
def test_several_trajectories_tell_by_their_own_spread(evaluator, policy):
    result = evaluated(evaluator, policy, logs_of_users())
    plain = evaluated(evaluator, policy, logs_of_users(group=False))
    assert result.standard_error == plain.standard_error
    assert result.degrees_of_freedom == plain.degrees_of_freedom
    # nothing says that groups were reckoned with
    assert "n_groups" not in result.diagnostics
    assert not [w for w in result.warnings if isinstance(w, FewGroupsWarning)]


def test_users_count_in_the_test_of_the_mean_weight():
    """Groups of rounds that go along with the weights tell less of their mean."""
    logs = logs_of_users()
    wrong = logs.replace(propensity=np.full(len(logs), 0.35))
    side = wrong.replace(group=2 * (logs.group % 40) + logs.action_index)
    for evaluator in (RejectionSampling(random_state=0), DRns(random_state=0)):
        pi = np.tile([0.9, 0.1], (len(logs), 1))
        texts = [str(evaluated(evaluator, pi, one).warnings) for one in (wrong, side)]
        assert "mean importance weight" in texts[0]
        assert texts[0] != texts[1]


N_WORLDS, N_ROUNDS = 300, 300


FIRST = np.tile([0.5, 0.3, 0.2], (N_ROUNDS, 1))


SECOND = np.tile([0.1, 0.3, 0.6], (N_ROUNDS, 1))


QUICK = [
    Replay(horizon=1),
    DRns(reward_model=0.5, acceptance="worst_case", normalize=False),
]


SLOW = [
    Replay(horizon=3),
    Replay(),
    RejectionSampling(horizon=2),
    DRns(reward_model=0.5, horizon=3, normalize="pooled"),
    DRns(reward_model=0.5, horizon=10),
    DRns(reward_model=0.5, n_splits=5),
    DRns(reward_model=0.5, normalize=False),
]


EVALUATORS = [*QUICK, *(pytest.param(one, marks=pytest.mark.theory) for one in SLOW)]


def world(seed):
    """Rounds of a uniform logger; every action wins half of the time."""
    rng = np.random.default_rng(seed)
    action, reward = rng.integers(0, 3, N_ROUNDS), rng.integers(0, 2, N_ROUNDS)
    context = np.zeros((N_ROUNDS, 1))
    propensity = np.full(N_ROUNDS, 1 / 3)
    return BanditLogs(context, action, reward, propensity, actions=[0, 1, 2])


@pytest.mark.theory
@pytest.mark.parametrize("evaluator", EVALUATORS, ids=str)
def test_errors_are_those_of_many_worlds(evaluator, global_random_seed):
    values, differences = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)
        for k in range(N_WORLDS):
            one = clone(evaluator).set_params(random_state=k)
            one.fit(world([global_random_seed, k]))
            first, second = one.evaluate(FIRST), one.evaluate(SECOND)
            spread = first.round_values.std(ddof=1) / np.sqrt(N_ROUNDS)
            values.append([first.value, first.standard_error, spread])
            gap = first - second
            differences.append([gap.value, gap.standard_error])
            assert first.round_values.mean() == pytest.approx(first.value, abs=1e-12)
    for found in (values, differences):
        found = np.array(found)
        truth = found[:, 0].std(ddof=1)
        # the deviation of so many worlds is known to 1 / sqrt(2 N_WORLDS) = 4%
        for k in range(1, found.shape[1]):
            told = np.sqrt((found[:, k] ** 2).mean())
            assert 0.8 < told / truth < 1.2


SEQUENTIAL = [RejectionSampling(random_state=0), DRns(random_state=0)]


def overlap_of(evaluator, logs, policy):
    return evaluated(evaluator, policy, logs)


def loud(result):
    return [w for w in result.warnings if type(w) is PropensityWarning]


@pytest.fixture
def logs(global_random_seed):
    return make_bandit_logs(3000, random_state=global_random_seed)


@pytest.mark.parametrize("evaluator", SEQUENTIAL, ids=str)
def test_wrong_propensities_warn_as_those_of_ips_do(evaluator, logs):
    wrong = logs.replace(propensity=np.sqrt(logs.propensity))
    static = overlap_of(IPS(), wrong, UniformPolicy())
    assert {str(w) for w in loud(static)} <= {
        str(w) for w in loud(overlap_of(evaluator, wrong, UniformPolicy()))
    }
    assert loud(static)
    assert loud(overlap_of(evaluator, wrong, EpsilonGreedy()))


@pytest.mark.parametrize("evaluator", SEQUENTIAL, ids=str)
@pytest.mark.parametrize("policy", [UniformPolicy(), EpsilonGreedy()], ids=str)
def test_right_ones_do_not(evaluator, policy, logs):
    assert not [
        w
        for w in loud(overlap_of(evaluator, logs, policy))
        if "acceptance" not in str(w)
    ]


def test_the_history_of_a_policy_that_always_does_the_same(logs):
    """Its weights are those of the stationary policy."""
    constant = EpsilonGreedy(epsilon=1.0)
    ours = overlap_of(DRns(random_state=0), logs, constant)
    static = overlap_of(IPS(), logs, UniformPolicy())
    assert ours.effective_sample_size == pytest.approx(static.effective_sample_size)
    fixed = overlap_of(DRns(random_state=0), logs, UniformPolicy())
    assert fixed.effective_sample_size == pytest.approx(static.effective_sample_size)
    assert "unsupported_mass" in fixed.diagnostics
    assert "unsupported_mass" not in ours.diagnostics


def test_a_constant_propensity_that_is_wrong(logs):
    wrong = logs.replace(propensity=np.full(3000, 1 / 3))
    skewed = wrong[(logs.action_index > 0) | (np.arange(3000) % 2 == 0)]
    for evaluator in (*SEQUENTIAL, Replay(random_state=0)):
        for policy in (EpsilonGreedy(), ConstantPolicy(logs.actions[0])):
            assert loud(overlap_of(evaluator, skewed, policy))


def test_actions_that_are_never_logged_lower_the_mean_weight_of_a_history():
    n = 2000
    logs = BanditLogs(
        np.zeros((n, 1)), np.zeros(n), np.ones(n), np.ones(n), actions=[0, 1]
    )
    result = overlap_of(DRns(random_state=0), logs, EpsilonGreedy(epsilon=0.9))
    assert not loud(result)


def two_armed_log(n=5000, seed=0):
    """Two arms of a lopsided logger; the better one is taken seldom."""
    rng = np.random.default_rng(seed)
    action = rng.choice(2, n, p=[0.9, 0.1])
    reward = rng.random(n) < np.array([0.2, 0.8])[action]
    return BanditLogs(np.zeros((n, 1)), action, reward, np.take([0.9, 0.1], action))


def alarms(result):
    return [w for w in result.warnings if isinstance(w, BiasWarning)]


def test_a_large_quantile_no_longer_gives_1_78_in_silence():
    """Rewards of 0 and 1, truth .61; a share of violations below q rang nothing."""
    logs, policy = two_armed_log(), EpsilonGreedy(0.5)
    setting = {"q": 0.2, "horizon": 20, "random_state": 0}
    evaluator = DRns(normalize=False, **setting).fit(logs)
    match = r"So 0\.6\d* ± .* missing .*Lower q or cmax, or pass normalize='pooled'"
    with (
        pytest.warns(LowOverlapWarning, match="outside the range of the rewards"),
        pytest.warns(BiasWarning, match=match) as told,
    ):
        result = evaluator.evaluate(policy)
    assert result.value > 1.4
    assert told[0].filename == __file__
    assert told[0].message.value == result.bias_mass > 0.5
    assert result.diagnostics["violation_share"] < 0.2
    # the ratio of sums is not inflated, but its history is as biased
    pooled = quiet(DRns(**setting).fit(logs), policy)
    assert pooled.value == pytest.approx(0.62, abs=0.08)
    (alarm,) = alarms(pooled)
    assert isinstance(alarm, PropensityWarning)  # what it was before
    assert isinstance(alarm, OPEWarning)
    assert "normalize" not in str(alarm)
    # a smaller quantile keeps nothing out
    setting["q"] = 0.01
    for normalize in (False, True, "pooled"):
        fitted = DRns(normalize=normalize, **setting).fit(logs)
        assert not alarms(quiet(fitted, policy))


def test_values_that_no_acceptance_biases_ring_nothing():
    """E[R] = V E[C] for a policy that does not learn, whatever c is."""
    logs, pi = two_armed_log(), np.tile([0.25, 0.75], (5000, 1))
    for setting in ({}, {"normalize": True}, {"excess": "weight", "normalize": False}):
        result = quiet(DRns(q=0.5, random_state=0, **setting).fit(logs), pi)
        assert result.bias_mass > 0.5
        assert not alarms(result)
        assert abs(result.value - 0.65) < 4 * result.standard_error
    by_length = quiet(DRns(q=0.5, normalize=False, random_state=0).fit(logs), pi)
    assert alarms(by_length)
    assert by_length.value > 1


def test_noise_rings_nothing(global_random_seed):
    """q = 0 keeps out a few rounds at the start: no bias mass, a large estimate."""
    large = rung = 0
    for k in range(60):
        rng = np.random.default_rng([global_random_seed, k])
        p = rng.dirichlet(np.full(4, 2.0)) * 0.9 + 0.025
        action = rng.choice(4, 100, p=p)
        logs = BanditLogs(
            np.zeros((100, 1)),
            action,
            rng.random(100) < 0.5,
            p[action],
            actions=range(4),
        )
        evaluator = DRns(q=0, horizon=10, reward_model=0.5, random_state=k).fit(logs)
        result = quiet(evaluator, EpsilonGreedy(0.3))
        large += result.bias_mass > 0.1
        rung += bool(alarms(result))
    assert large > 5
    assert rung <= 1


def test_a_logger_evaluated_on_its_own_log_rings_nothing():
    logs = make_bandit_logs(500, logging_temperature=np.inf, random_state=0)
    for q in (0, 0.05, 0.5):
        result = quiet(DRns(q=q, random_state=0).fit(logs), UniformPolicy())
        assert result.bias_mass == result.diagnostics["bias_mass_error"] == 0
        assert not result.warnings


def test_the_worst_case_and_a_true_bound_ring_nothing():
    logs = two_armed_log()
    for evaluator in (
        DRns(acceptance="worst_case", random_state=0),
        RejectionSampling(cmax=0.1, random_state=0),
    ):
        result = quiet(evaluator.fit(logs), EpsilonGreedy(0.5))
        assert result.bias_mass == 0
        assert not alarms(result)

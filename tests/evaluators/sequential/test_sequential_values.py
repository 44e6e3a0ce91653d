# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""A log that is read part by part gives the numbers of the log in memory."""

import pickle
import tracemalloc
from functools import partial

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import clone
from sklearn.model_selection import TimeSeriesSplit

from skope_ope import (
    UCB1,
    BanditLogs,
    ClassifierPolicy,
    DRns,
    EpsilonGreedy,
    LinUCB,
    RejectionSampling,
    Replay,
    UniformPolicy,
)
from skope_ope.datasets import make_bandit_logs
from skope_ope.evaluators.sequential._sequential_values import sequential_values
from skope_ope.exceptions import LogsWarning
from skope_ope.logs import HashKFold
from tests.evaluators.sequential._parts import Part, Parts, cut

N = 600


def logs_of(rng, uniform=False, groups=0, far=0.0, n=N):
    """Return logs with a column of a policy's probabilities, and one of a model."""
    temperature = np.inf if uniform else 1.0
    seed = int(rng.integers(1 << 30))
    logs = make_bandit_logs(n, logging_temperature=temperature, random_state=seed)
    group = rng.integers(0, groups, n) if groups else None
    rounds = logs.context, logs.action, logs.reward + far, logs.propensity
    logs = BanditLogs(*rounds, group=group, actions=logs.actions)
    return logs.with_columns(
        pi=rng.dirichlet(np.full(logs.n_actions, 0.5), n),
        q_hat=far + rng.random((n, logs.n_actions)),
    )


def summed(evaluator, policy, parts, **settings):
    found = sequential_values({"new": policy}, {"one": evaluator}, parts, **settings)
    return found["one"]["new"]


def assert_same(found, expected):
    """All that a value says, but for what needs all rounds."""
    np.testing.assert_array_equal(found.accepted, expected.accepted)
    close = {"rtol": 1e-12, "atol": 1e-12}
    for name in (
        "value",
        "standard_error",
        "degrees_of_freedom",
        "effective_sample_size",
        "trajectory_values",
        "trajectory_shares",
        "part_values",
        "bias_mass",
        "reward_bounds",
    ):
        one, other = getattr(found, name), getattr(expected, name)
        np.testing.assert_allclose(one, other, err_msg=name, **close)
    np.testing.assert_array_equal(found.trajectory_stops, expected.trajectory_stops)
    for name in "n_rounds", "n_trajectories", "n_violations", "successes", "horizon":
        assert getattr(found, name) == getattr(expected, name), name
    assert list(found.diagnostics) == list(expected.diagnostics)
    for name, one in found.diagnostics.items():
        other = expected.diagnostics[name]
        if isinstance(other, str):
            assert one == other
        else:
            np.testing.assert_allclose(one, other, err_msg=name, **close)
    assert [str(one) for one in found.warnings] == [str(o) for o in expected.warnings]
    assert found.estimator == expected.estimator
    assert found.leaves_bias_out == expected.leaves_bias_out


SETTINGS = [
    RejectionSampling(cmax=0.1),
    RejectionSampling(),
    RejectionSampling(cmax="target"),
    RejectionSampling(cmax=0.1, horizon=5),
    DRns(reward_model="q_hat"),
    DRns(reward_model=0.4, q=0.3, c_init=0.2),
    DRns(reward_model="q_hat", horizon=4),
    DRns(reward_model="q_hat", horizon=4, normalize=True),
    DRns(reward_model="q_hat", normalize=False),
    DRns(reward_model="q_hat", normalize=False, horizon=3, excess="weight"),
    DRns(reward_model="q_hat", normalize=False, excess="weight"),
    DRns(reward_model="q_hat", horizon=3, n_splits=3),
    DRns(reward_model="q_hat", horizon=3, n_splits=3, normalize=True),
    DRns(reward_model="q_hat", horizon=500),
    DRns(reward_model="q_hat", acceptance="worst_case"),
]
POLICIES = [
    "pi",
    EpsilonGreedy(epsilon=0.2),
    LinUCB(),
]


@pytest.mark.few_cases(2)
@pytest.mark.parametrize("groups", [0, 25])
@pytest.mark.parametrize("policy", POLICIES, ids=["column", "greedy", "lin"])
def test_the_numbers_are_those_of_memory(policy, groups, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    logs = logs_of(rng, groups=groups)
    for number, evaluator in enumerate(SETTINGS):
        if policy != "pi" and getattr(evaluator, "cmax", None) == "target":
            continue
        evaluator = clone(evaluator).set_params(random_state=number)
        expected = evaluator.fit(logs)._result(policy, None, None)
        found = summed(clone(evaluator), policy, cut(logs, rng))
        assert_same(found, expected)


@pytest.mark.few_cases
@pytest.mark.parametrize("groups", [0, 25])
@pytest.mark.parametrize("horizon", [None, 7])
def test_replay(horizon, groups, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    logs = logs_of(rng, uniform=True, groups=groups)
    evaluator = Replay(horizon=horizon, random_state=1).fit(logs)
    learned = UCB1(), LinUCB(), EpsilonGreedy()
    for policy in ("pi", *learned):
        expected = evaluator._result(policy, None, None)
        assert_same(summed(clone(evaluator), policy, cut(logs, rng)), expected)


@pytest.mark.thorough
def test_fifty_partitionings(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    logs = logs_of(rng, groups=8, n=120)
    evaluator = DRns(reward_model="q_hat", horizon=3, random_state=0).fit(logs)
    for policy in ("pi", EpsilonGreedy()):
        expected = evaluator._result(policy, None, None)
        for _ in range(25):
            parts = cut(logs, rng, int(rng.integers(1, 12)))
            assert_same(summed(clone(evaluator), policy, parts), expected)


def test_offers_that_vary(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    n, k = 400, 4
    available = rng.random((n, k)) < 0.6
    available[:, 0] = True
    available[:300, 1:3] = False  # the most actions are offered in a late part
    action = np.array([rng.choice(np.flatnonzero(row)) for row in available])
    logs = BanditLogs(
        rng.normal(size=(n, 2)),
        action,
        rng.integers(0, 2, n).astype(float),
        1 / available.sum(axis=1),
        actions=range(k),
        available=available,
    )
    evaluator = Replay(random_state=0).fit(logs)
    for policy in (UniformPolicy(), EpsilonGreedy(), LinUCB()):
        policy = policy.fit(logs) if isinstance(policy, UniformPolicy) else policy
        expected = evaluator._result(policy, None, None)
        assert_same(summed(Replay(random_state=0), policy, cut(logs, rng)), expected)


def test_rewards_far_from_zero(global_random_seed):
    """Sums of squares would lose the digits that tell such rewards apart."""
    rng = np.random.default_rng(global_random_seed)
    logs = logs_of(rng, far=1e6)
    for evaluator in (
        RejectionSampling(cmax=0.2, random_state=0),
        DRns(reward_model="q_hat", random_state=0),
    ):
        expected = evaluator.fit(logs)._result("pi", None, None)
        found = summed(clone(evaluator), "pi", cut(logs, rng))
        np.testing.assert_allclose(found.value, expected.value, rtol=1e-14)
        error = expected.standard_error
        np.testing.assert_allclose(found.standard_error, error, rtol=1e-9)


@pytest.mark.parametrize("cv", [TimeSeriesSplit(), HashKFold()])
def test_the_mean_of_earlier_rounds(cv, global_random_seed):
    """It is the model where folds follow time, and where propensities drift."""
    rng = np.random.default_rng(global_random_seed)
    logs = logs_of(rng)
    if isinstance(cv, HashKFold):
        share = np.linspace(0.2, 0.8, N)
        action = (rng.random(N) < share).astype(int)
        p = np.where(action == 1, share, 1 - share)
        logs = BanditLogs(logs.context, action, logs.reward, p)
        logs = logs.with_columns(pi=np.full((N, 2), 0.5))
    for n_splits in (1, 3):
        setting = {"cv": cv, "n_splits": n_splits, "horizon": 10, "random_state": 0}
        evaluator = DRns(**setting)
        for policy in ("pi", UCB1()):
            expected = evaluator.fit(logs)._result(policy, None, None)
            found = summed(DRns(**setting), policy, cut(logs, rng))
            assert_same(found, expected)


def test_earlier_rounds_of_other_groups_are_refused(global_random_seed):
    logs = logs_of(np.random.default_rng(global_random_seed), groups=30)
    parts = cut(logs, np.random.default_rng(0))
    with pytest.raises(ValueError, match="With groups this mean is not known"):
        summed(DRns(cv=TimeSeriesSplit()), "pi", parts)


def test_what_was_learned_and_pickles(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    logs = logs_of(rng, uniform=True)
    for evaluator in (
        Replay(random_state=0),
        Replay(horizon=11, random_state=0),
        Replay(horizon=10_000, random_state=0),
        DRns(reward_model=0.5, horizon=9, n_splits=2, random_state=0),
        DRns(
            reward_model=0.5,
            horizon=9,
            normalize=False,
            excess="weight",
            random_state=0,
        ),
    ):
        for policy in (LinUCB(), EpsilonGreedy(), UniformPolicy()):
            policy = policy.fit(logs) if isinstance(policy, UniformPolicy) else policy
            expected = evaluator.fit(logs)._result(policy, None, None)
            found = summed(clone(evaluator), policy, cut(logs, rng))
            again = pickle.loads(pickle.dumps(found))
            for one in (found, again):
                np.testing.assert_allclose(
                    one.learned_policy.predict_proba(logs.context),
                    expected.learned_policy.predict_proba(logs.context),
                    rtol=1e-9,
                )


def assert_same_interval(found, expected, method="auto", rtol=1e-9):
    one, other = (v._interval(0.9, method) for v in (found, expected))
    if other.method == "gamma" and not found._deviations.known:
        assert one.low <= other.low < other.high <= one.high
        assert one.high - one.low < 1.2 * (other.high - other.low)
        return one, other
    np.testing.assert_allclose(tuple(one), tuple(other), rtol=rtol, err_msg=method)
    assert one.method == other.method
    return one, other


def test_intervals_of_accepted_rewards(global_random_seed):
    """They are those of memory where rewards are 0 or 1."""
    rng = np.random.default_rng(global_random_seed)
    logs = logs_of(rng, uniform=True)
    rare = BanditLogs(
        logs.context,
        logs.action,
        (rng.random(N) < 0.01).astype(float),
        logs.propensity,
    ).with_columns(**logs.columns)
    policies = "pi", EpsilonGreedy()
    for some in (logs, rare, logs[:40], rare[:40]):
        for evaluator in (Replay(random_state=0), Replay(horizon=5, random_state=0)):
            for policy in policies:
                expected = evaluator.fit(some)._result(policy, None, None)
                found = summed(clone(evaluator), policy, cut(some, rng))
                methods = ["auto", "student", "normal"]
                methods += ["clopper_pearson"] * (found.successes is not None)
                for method in methods:
                    one, other = assert_same_interval(found, expected, method)
                    texts = [[str(w) for w in v.warnings] for v in (one, other)]
                    assert texts[0] == texts[1]


@pytest.mark.thorough
@pytest.mark.parametrize("groups", [0, 60])
def test_intervals_of_many_rounds(groups, global_random_seed):
    """Sums tell enough of them: bounds of extremes and of fourth powers."""
    rng = np.random.default_rng(global_random_seed)
    logs = logs_of(rng, groups=groups, n=6000)
    for evaluator in (
        DRns(reward_model="q_hat", random_state=0),
        DRns(reward_model="q_hat", random_state=0, horizon=20),
        DRns(reward_model="q_hat", random_state=0, horizon=20, normalize=True),
        DRns(reward_model="q_hat", random_state=0, normalize=False),
    ):
        for policy in ("pi", EpsilonGreedy()):
            expected = evaluator.fit(logs)._result(policy, None, None)
            found = summed(clone(evaluator), policy, cut(logs, rng))
            # of groups the reach is a bound, too
            assert_same_interval(found, expected, rtol=1e-3 if groups else 1e-9)
            seen, known = found._deviations, expected._deviations
            if not groups:
                assert seen.largest >= known.largest * (1 - 1e-12)
                assert seen.least <= known.least * (1 - 1e-12)
                assert seen.largest < 1.5 * known.largest


def test_deviation_bound_and_running_values(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    logs = logs_of(rng, uniform=True)
    bound = {"n_actions": logs.n_actions, "value_bound": 1.0, "delta": 0.5}
    large = logs_of(rng, uniform=True, n=5000)
    found = summed(Replay(random_state=0), "pi", cut(large, rng))
    expected = Replay(random_state=0).fit(large)._result("pi", None, None)
    assert found.deviation_bound(**bound) == expected.deviation_bound(**bound)
    several = Replay(horizon=5, random_state=0)
    found = summed(several, "pi", cut(logs, rng)).running_values()
    expected = several.fit(logs)._result("pi", None, None).running_values()
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_paired_differences_of_parts(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    logs = logs_of(rng)
    evaluator = DRns(reward_model=0.5, horizon=5, n_splits=6, random_state=0)
    policies = {"a": EpsilonGreedy(), "b": LinUCB()}
    found = sequential_values(
        policies, {"one": evaluator}, cut(logs, rng), counted="those"
    )["one"]
    evaluator.fit(logs)
    a, b = (evaluator._result(one, None, None) for one in policies.values())
    gain, expected = found["a"] - found["b"], a - b
    np.testing.assert_allclose(gain.value, expected.value, rtol=1e-10)
    np.testing.assert_allclose(gain.standard_error, expected.standard_error, rtol=1e-10)
    assert gain.degrees_of_freedom == expected.degrees_of_freedom == 5


def test_workers_and_several_at_once(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    logs = logs_of(rng)
    policies = {"a": "pi", "b": EpsilonGreedy()}
    state = np.random.RandomState(7)
    evaluators = {
        "rs": RejectionSampling(cmax=0.1, random_state=state),
        "dr": DRns(reward_model="q_hat", horizon=5, n_splits=3, random_state=state),
    }
    parts = cut(logs, rng)
    with parallel_config("threading"):
        found = sequential_values(policies, evaluators, parts, n_jobs=2)
    state = np.random.RandomState(7)  # each fit takes the next numbers
    for name, evaluator in evaluators.items():
        evaluator = clone(evaluator).set_params(random_state=state).fit(logs)
        for policy, what in policies.items():
            assert_same(found[name][policy], evaluator._result(what, None, None))


def test_time_that_runs_backwards_between_parts():
    rng = np.random.default_rng(0)
    logs = logs_of(rng)
    time = np.arange(N)
    time[300:] -= 10
    logs = logs.replace(timestamp=time)
    parts = Parts(
        Part(f"part {i}", partial(logs.__getitem__, slice(100 * i, 100 * i + 100)))
        for i in range(6)
    )
    evaluator = RejectionSampling(cmax=0.1, random_state=0)
    found = summed(evaluator, "pi", parts)
    assert_same(found, evaluator.fit(logs)._result("pi", None, None))
    assert any(
        isinstance(one, LogsWarning) and "decreases at row 300" in str(one)
        for one in found.warnings
    )


def test_a_policy_that_learned_from_some_of_the_rounds():
    from sklearn.linear_model import LogisticRegression

    logs = logs_of(np.random.default_rng(0))
    policy = ClassifierPolicy(LogisticRegression()).fit(logs[:100])
    evaluator = RejectionSampling(cmax=0.1, random_state=0)
    found = summed(evaluator, policy, cut(logs, np.random.default_rng(1)))
    assert_same(found, evaluator.fit(logs)._result(policy, None, None))
    assert "learned from 16.7% of these rounds" in str(found.warnings[0])


def test_a_weight_beyond_floats():
    logs = logs_of(np.random.default_rng(0))
    p = logs.propensity.copy()
    p[400] = 1e-80
    logs = logs.replace(propensity=p)
    evaluator = DRns(reward_model=0.5, random_state=0)
    found = summed(evaluator, "pi", cut(logs, np.random.default_rng(1)))
    expected = evaluator.fit(logs)._result("pi", None, None)
    assert np.isnan(found.standard_error)
    kept = [str(one) for one in found.warnings if "too large for a float" in str(one)]
    assert kept == [
        str(o) for o in expected.warnings if "too large for a float" in str(o)
    ]
    assert "Row 400" in kept[0]


def test_what_is_dropped_says_so():
    logs = logs_of(np.random.default_rng(0), uniform=True)
    parts = cut(logs, np.random.default_rng(0))
    found = summed(DRns(reward_model=0.5, random_state=0), UCB1(), parts)
    with pytest.raises(ValueError, match="round_values of a value from merged sums"):
        _ = found.round_values
    with pytest.raises(ValueError, match="acceptance_ratios needs the rounds"):
        _ = found.acceptance_ratios
    with pytest.raises(AttributeError, match="progressive_policy_ needs the rounds"):
        _ = found.progressive_policy_
    with pytest.raises(ValueError, match="set a horizon"):
        found.running_values()


def test_refusals():
    rng = np.random.default_rng(0)
    logs = logs_of(rng)
    parts = cut(logs, rng, 3)
    lazy_frame = cut(logs, rng)
    lazy_frame.partitions = None
    with pytest.raises(TypeError, match=r"frame has no order.*parquet"):
        summed(Replay(), "pi", lazy_frame)
    with pytest.raises(ValueError, match=r"part \d: Replay needs a uniform logger"):
        summed(Replay(), "pi", parts)
    with pytest.raises(TypeError, match="policy 'new' is an array"):
        summed(RejectionSampling(), np.asarray(logs.columns["pi"]), parts)
    with pytest.raises(ValueError, match="n_splits=601 parts"):
        summed(DRns(reward_model=0.5, n_splits=601), "pi", parts)
    with pytest.raises(ValueError, match="cmax='target' needs the policy's"):
        summed(RejectionSampling(cmax="target"), UCB1(), parts)
    with pytest.raises(ValueError, match="the logs are empty"):
        summed(RejectionSampling(), "pi", cut(logs[:0], rng, 3))
    weights = np.ones(N)
    weights[300:] = 2.0  # alike within the parts, but not between them
    uneven = logs.replace(sample_weight=weights)
    halves = Parts(
        Part(f"part {i}", partial(uneven.__getitem__, slice(300 * i, 300 * i + 300)))
        for i in range(2)
    )
    with pytest.raises(ValueError, match="takes no sample_weight"):
        summed(RejectionSampling(), "pi", halves)


class Shrinking:
    """Rounds of which there are fewer when they are read again."""

    def __init__(self, logs):
        self.logs, self.times = logs, 0

    def __call__(self):
        self.times += 1
        return self.logs[: len(self.logs) // self.times]


class Failing:
    """Rounds that can be read once."""

    def __init__(self, logs):
        self.logs, self.times = logs, 0

    def __call__(self):
        self.times += 1
        if self.times > 2:
            raise OSError("gone")
        return self.logs


def test_files_that_change_or_vanish():
    logs = logs_of(np.random.default_rng(0))
    evaluator = RejectionSampling(cmax=0.1, random_state=0)
    for kind, error, text in (
        (Shrinking, ValueError, "b had 300 rounds, and now has"),
        (Failing, OSError, "gone"),
    ):
        parts = [("a", logs[:300]), ("b", logs[300:])]
        made = [Part(n, kind(x) if n == "b" else partial(_same, x)) for n, x in parts]
        with pytest.raises(error, match=text):
            for _ in range(2):
                summed(evaluator, "pi", Parts(made))


def _same(logs):
    return logs


class Made:
    """Rounds that are made when they are read."""

    def __init__(self, seed, n):
        self.seed, self.n = seed, n

    def __call__(self):
        rng = np.random.default_rng(self.seed)
        return BanditLogs(
            rng.random((self.n, 20)),
            rng.integers(0, 10, self.n),
            (rng.random(self.n) < 0.5).astype(float),
            np.full(self.n, 0.1),
            actions=np.arange(10),
        )


@pytest.mark.thorough
def test_memory_grows_by_the_accepted_rounds_alone():
    """200,000 rounds of 20 features would take 32 MB, their numbers 1.6 MB each."""
    evaluator, peaks = Replay(random_state=0), []
    for n_parts in (2, 20):
        parts = Parts(Part(f"part {i}", Made(i, 10_000)) for i in range(n_parts))
        tracemalloc.start()
        found = summed(evaluator, UCB1(), parts)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert found.n_rounds == 10_000 * n_parts
    assert peaks[1] < peaks[0] + 16 * len(found.accepted) + 1_000_000

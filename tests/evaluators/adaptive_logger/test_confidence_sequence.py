# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pickle
import warnings
from itertools import pairwise

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression

from skope_ope import (
    ActionRewardModel,
    BanditLogs,
    ClassifierPolicy,
    ConfidenceSequence,
    ConstantPolicy,
    DoublyRobust,
    EpsilonGreedy,
    UniformPolicy,
    scan_logs,
)
from skope_ope.datasets import make_bandit_logs
from skope_ope.exceptions import (
    LearnedRoundsWarning,
    LogsWarning,
    PropensityWarning,
    SupportWarning,
    TailWarning,
)
from skope_ope.intervals import (
    asymptotic_sequence,
    betting_sequence,
    empirical_bernstein_sequence,
)
from tests.evaluators.sequential._worlds import written as written_parts

METHODS = ("betting", "empirical_bernstein", "asymptotic")


@pytest.fixture(scope="module")
def world():
    """Logs, a policy and the truth."""
    return make_bandit_logs(3000, random_state=0, return_truth=True)


def uniform_logs(n, reward, **fields):
    """Rounds of two actions and a uniform logger."""
    action = np.random.default_rng(0).integers(0, 2, n)
    rounds = np.zeros((n, 1)), action, reward, np.full(n, 0.5)
    return BanditLogs(*rounds, **{"actions": [0, 1], **fields})


def test_it_gives_what_the_pure_functions_give(world):
    logs, _, _ = world
    w, r = 1 / logs.n_actions / logs.propensity, logs.reward
    known = {"reward_range": (0, 1), "after": [3000]}
    expected = {
        "betting": betting_sequence(w, r, **known),
        "empirical_bernstein": empirical_bernstein_sequence(w, r, **known),
        "asymptotic": asymptotic_sequence(w * r, after=[3000]),
    }
    for method, ends in expected.items():
        sequence = ConfidenceSequence(method).update(logs, UniformPolicy())
        np.testing.assert_allclose(sequence.interval_, np.ravel(ends), rtol=1e-12)
        assert sequence.interval_.method == method
        assert sequence.interval_.level == 0.95
        assert sequence.estimate_ == pytest.approx((w * r).mean())
    bets = ConfidenceSequence(max_weight=60).update(logs, UniformPolicy())
    ends = betting_sequence(w, r, **known, max_weight=60)
    np.testing.assert_allclose(bets.interval_, np.ravel(ends), rtol=1e-12)


@pytest.mark.few_cases
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("baseline", [None, "logger", "uniform"])
def test_the_result_does_not_depend_on_how_the_log_is_cut(method, baseline, world):
    logs, policy, _ = world
    baseline = UniformPolicy() if baseline == "uniform" else baseline
    make = ConfidenceSequence(method, baseline=baseline, max_weight=60, every=100)
    whole = clone(make).update(logs, policy)
    assert whole.intervals_["n_rounds"].tolist() == list(range(100, 3001, 100))
    for cuts in ([1, 2, 99, 100, 101, 2950], range(250, 3000, 250)):
        parts = clone(make)
        for start, stop in pairwise([0, *cuts, 3000]):
            assert parts.update(logs[start:stop], policy) is parts
        assert parts.n_rounds_ == 3000
        for name in ("n_rounds", "low", "high", "estimate"):
            np.testing.assert_allclose(
                parts.intervals_[name], whole.intervals_[name], rtol=1e-10, atol=1e-12
            )
        np.testing.assert_allclose(parts.interval_, whole.interval_, rtol=1e-10)


def test_intervals_are_a_table_with_times():
    day = np.datetime64("2026-01-01") + np.arange(40) // 10
    logs = uniform_logs(40, np.arange(40) % 2, timestamp=day)
    sequence = ConfidenceSequence()
    for start in range(0, 40, 10):
        sequence.update(logs[start : start + 10], ConstantPolicy(1))
    found = sequence.intervals_
    assert found.dtype.names == ("n_rounds", "time", "low", "high", "estimate")
    assert found["time"].tolist() == day[9::10].tolist()
    assert found["low"][-1], found["high"][-1] == sequence.interval_
    found["low"] = 7  # a copy
    assert (sequence.intervals_["low"] < 1).all()
    untimed = ConfidenceSequence().update(make_bandit_logs(50), UniformPolicy())
    assert np.isnan(untimed.intervals_["time"]).all()


@pytest.mark.filterwarnings("ignore:all weighted rewards so far are equal")
def test_gains_over_the_logger_and_over_itself(world):
    logs, policy, truth = world
    for method in METHODS:
        sequence = ConfidenceSequence(method, baseline="logger").update(logs, policy)
        low, high = sequence.interval_
        assert 0 < low < truth.value - 0.505 < high < 0.35
        value = ConfidenceSequence(method).update(logs, policy)
        gain = value.estimate_ - logs.reward.mean()
        assert sequence.estimate_ == pytest.approx(gain)
        make = ConfidenceSequence(method, baseline=UniformPolicy(), max_weight=60)
        low, high = make.update(logs, UniformPolicy()).interval_
        if method == "asymptotic":
            assert low == high == 0
        assert low <= 0 <= high
        assert make.estimate_ == 0
        assert make.interval_.max_weight == (None if method == "asymptotic" else 60)


def test_doubly_robust_terms(world):
    logs, policy, _ = world
    early, late = logs[:1500], logs[1500:]
    model = ActionRewardModel(LinearRegression()).fit(early)
    frozen = FrozenEstimator(model)
    value = DoublyRobust(reward_model=frozen).fit(early).evaluate(policy, late)
    sequence = ConfidenceSequence("asymptotic", reward_model=frozen)
    sequence.update(late, policy)
    assert sequence.estimate_ == pytest.approx(value.value)
    plain = ConfidenceSequence("asymptotic").update(late, policy)
    assert sequence.interval_.width < 0.8 * plain.interval_.width
    named = late.with_columns(q_hat=model.predict(late.context))
    column = ConfidenceSequence("asymptotic", reward_model="q_hat")
    assert column.update(named, policy).interval_ == sequence.interval_


def test_intersections():
    rng = np.random.default_rng(0)
    logs = uniform_logs(4000, rng.integers(0, 2, 4000), reward_range=(0, 1))
    both = (ConfidenceSequence(every=50, intersect=how) for how in (False, True))
    plain, inside = (one.update(logs, ConstantPolicy(1)) for one in both)
    lows = np.maximum.accumulate(plain.intervals_["low"])
    np.testing.assert_array_equal(inside.intervals_["low"], lows)
    highs = np.minimum.accumulate(plain.intervals_["high"])
    np.testing.assert_array_equal(inside.intervals_["high"], highs)
    assert (lows != plain.intervals_["low"]).any()


def test_a_value_that_changes_is_noticed_once():
    reward = np.repeat([0.0, 1.0], 2000)
    logs = uniform_logs(4000, reward, reward_range=(0, 1))
    sequence = ConfidenceSequence()
    sequence.update(logs[:2000], ConstantPolicy(1))
    with pytest.warns(LogsWarning, match="the value changed along the log"):
        sequence.update(logs[2000:3000], ConstantPolicy(1))
    low, high = sequence.interval_
    assert low < 1 / 3 < high  # the average so far
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sequence.update(logs[3000:], ConstantPolicy(1))
    assert [type(one) for one in sequence.warnings_] == [LogsWarning]
    assert sequence.interval_.warnings == sequence.warnings_
    together = ConfidenceSequence(intersect=True, every=1000)
    with pytest.warns(LogsWarning, match="Intersections are NaN"):
        together.update(logs, ConstantPolicy(1))
    assert np.isnan(together.interval_).all()
    assert np.isnan(together.intervals_["low"]).tolist() == [False, False, True, True]


def test_weights_that_do_not_average_one():
    half = uniform_logs(4000, np.ones(4000)).replace(propensity=np.full(4000, 0.4))
    with pytest.warns(PropensityWarning, match="average at least 1"):
        ConfidenceSequence("asymptotic").update(half, ConstantPolicy(1))
    high = half.replace(propensity=np.full(4000, 0.7))
    with pytest.warns(SupportWarning, match="the interval allows for them"):
        sequence = ConfidenceSequence("empirical_bernstein", max_weight=2)
        sequence.update(high, ConstantPolicy(1))
    assert sequence.interval_.max_weight is None
    assert sequence.interval_.low < 0.75 and sequence.interval_.high > 0.99
    for parameters in ({"method": "asymptotic"}, {"max_weight": 2}):
        with pytest.warns(SupportWarning, match="and so does the interval"):
            ConfidenceSequence(**parameters).update(high, ConstantPolicy(1))
    wrong = uniform_logs(400, np.arange(400) % 2).replace(propensity=np.full(400, 0.2))
    with pytest.warns(PropensityWarning, match="no value agrees with the rounds"):
        sequence = ConfidenceSequence().update(wrong, ConstantPolicy(1))
    assert np.isnan(sequence.interval_).all()


@pytest.mark.parametrize("method", ["betting", "asymptotic"])
def test_a_baseline_beyond_the_support(method):
    # the gain is -0.4; the weighted rewards of the baseline leave 0.9 of it out
    reward = (np.random.default_rng(1).random(4000) < 0.5).astype(float)
    logs = uniform_logs(4000, reward, actions=[0, 1, 2])
    logs = logs.with_columns(beyond=np.tile([0, 0.1, 0.9], (4000, 1)))
    sequence = ConfidenceSequence(method, baseline="beyond", max_weight=2)
    with pytest.warns(SupportWarning, match="weights of the baseline average at most"):
        sequence.update(logs, ConstantPolicy(0))
    assert [type(one) for one in sequence.warnings_] == [SupportWarning]


def test_tails_that_a_normal_approximation_does_not_bear():
    reward = np.zeros(2000)
    logs = uniform_logs(2000, reward)
    with pytest.warns(TailWarning, match="all weighted rewards so far are equal"):
        sequence = ConfidenceSequence("asymptotic").update(logs, ConstantPolicy(1))
    assert np.isnan(sequence.warnings_[0].value)
    reward[::100] = 1
    logs = logs.replace(reward=reward)
    early = ConfidenceSequence("asymptotic", start=5000)
    early.update(logs, ConstantPolicy(1))  # it promises nothing yet
    with pytest.warns(TailWarning, match="few rounds make most of the spread"):
        ConfidenceSequence("asymptotic").update(logs, ConstantPolicy(1))
    ConfidenceSequence("betting").update(logs.replace(reward=reward), ConstantPolicy(1))


def test_a_policy_that_learned_from_the_rounds(world):
    logs, _, _ = world
    policy = ClassifierPolicy().fit(logs[:1000])
    sequence = ConfidenceSequence().update(logs[1000:2000], policy)
    with pytest.warns(LearnedRoundsWarning):
        clone(sequence).update(logs[:1000], policy)
    gain = ConfidenceSequence(baseline=policy, max_weight=60)
    with pytest.warns(LearnedRoundsWarning):
        gain.update(logs[:1000], UniformPolicy())


def test_a_wrong_or_interrupted_part_changes_nothing(world):
    logs, policy, _ = world
    sequence = ConfidenceSequence(max_weight=30).update(logs[:1000], policy)
    before = sequence.interval_

    class Stopped(type(policy)):
        def predict_proba(self, X, available=None):
            raise KeyboardInterrupt

    heavy = logs[1000:].replace(propensity=np.full(2000, 1e-3))
    for part in (heavy, logs[500:1500], logs[:0]):
        with pytest.raises(ValueError):
            sequence.update(part, policy)
    with pytest.raises(KeyboardInterrupt):
        sequence.update(logs[1000:], Stopped.__new__(Stopped))
    assert sequence.interval_ is before
    assert sequence.n_rounds_ == 1000
    sequence.update(logs[1000:2000], policy)
    whole = ConfidenceSequence(max_weight=30).update(logs[:2000], policy)
    np.testing.assert_allclose(sequence.interval_, whole.interval_, rtol=1e-10)
    # nor does what a copy is given
    copy = pickle.loads(pickle.dumps(sequence))
    assert copy.update(logs[2000:], policy).n_rounds_ == 3000
    assert sequence.n_rounds_ == 2000
    with pytest.raises(NotFittedError, match="no rounds yet"):
        clone(sequence).interval_  # noqa: B018


def test_no_click_yet_and_one_range_for_all_parts():
    logs = uniform_logs(100, np.zeros(100))
    with pytest.raises(ValueError, match=r"reward_range=\(low, high\)"):
        ConfidenceSequence().update(logs, ConstantPolicy(1))
    stated = uniform_logs(100, np.zeros(100), reward_range=(0, 1))
    low, high = ConfidenceSequence().update(stated, ConstantPolicy(1)).interval_
    assert low == 0 < high < 1
    ConfidenceSequence("asymptotic").update(logs, ConstantPolicy(1))
    first = uniform_logs(50, np.arange(50) % 2)
    quiet = uniform_logs(50, np.zeros(50))
    ConfidenceSequence().update(first, UniformPolicy()).update(quiet, UniformPolicy())
    other = uniform_logs(50, np.full(50, 3.0))
    stated = uniform_logs(50, np.zeros(50), reward_range=(0, 5))
    for part, message in (
        (other, "reward 3 lies outside .* at row 0"),
        (stated, r"reward_range=\(0.0, 5.0\), those before"),
    ):
        sequence = ConfidenceSequence().update(first, UniformPolicy())
        with pytest.raises(ValueError, match=message):
            sequence.update(part, UniformPolicy())
    asymptotic = ConfidenceSequence("asymptotic", start=10)
    asymptotic.update(first, UniformPolicy())
    with pytest.warns(LogsWarning, match="value changed"):
        asymptotic.update(other, UniformPolicy())
    assert asymptotic.interval_.high > 1
    assert asymptotic.interval_.reward_range is None


NORMAL = {"method": "asymptotic", "reward_model": LinearRegression()}


@pytest.mark.parametrize(
    ("parameters", "fields", "message"),
    [
        ({"level": 1.0}, {}, "'level'"),
        ({"method": "student"}, {}, "'method'"),
        ({"max_weight": 0.5}, {}, "'max_weight'"),
        ({"start": 1}, {}, "'start'"),
        ({"every": 0}, {}, "'every'"),
        ({"baseline": UniformPolicy()}, {}, "a policy as baseline needs max_weight"),
        ({"baseline": [0.5, 0.5]}, {}, "baseline must be a policy"),
        ({"reward_model": 0.5}, {}, "or method='asymptotic'"),
        (NORMAL, {}, "must not be used to fit it"),
        ({}, {"group": np.arange(3000) // 2}, "rounds of a group are not"),
        ({}, {"sample_weight": 1.0 + np.arange(3000) % 2}, "sample weights"),
        ({}, {"propensity": None}, "needs the propensities"),
    ],
)
def test_bad_parameters_and_logs(parameters, fields, message, world):
    logs, policy, _ = world
    with pytest.raises(ValueError, match=message):
        ConfidenceSequence(**parameters).update(logs.replace(**fields), policy)


def test_what_is_no_log_or_no_stationary_policy(world):
    logs, policy, _ = world
    sequence = ConfidenceSequence().update(logs[:1000], policy)
    for given, error, message in (
        ((policy, logs), TypeError, r"update\(logs, policy\)"),
        ((logs[1000:], EpsilonGreedy()), TypeError, "learns while it acts"),
        ((logs[1000:], np.ones((5, 3)) / 3), ValueError, "shape"),
    ):
        with pytest.raises(error, match=message):
            sequence.update(*given)
    with pytest.raises(ValueError, match="level changed after the first part"):
        sequence.set_params(level=0.9).update(logs[1000:], policy)


# -- parts in their order, of memory and of files alike ----------------------------
N = 800
BOUNDS = (0, 300, 310, 700, N)


def rounds_of(n, time=None):
    """Rounds that only their place and time tell apart."""
    rows = np.zeros((n, 1)), np.zeros(n, int), np.zeros(n), np.full(n, 0.5)
    return BanditLogs(*rows, actions=[0, 1], reward_range=(0, 1), timestamp=time)


def after(*parts):
    sequence = ConfidenceSequence("empirical_bernstein")
    for part in parts:
        sequence.update(part, UniformPolicy())
    return sequence


TIMED, PLAIN = rounds_of(10, np.arange(10) // 2), rounds_of(10)
DATES = rounds_of(2, np.array(["2026-01-01", "2026-01-02"], dtype="datetime64[D]"))


def test_parts_that_follow():
    for logs in (TIMED, PLAIN):
        parts = [logs[start:stop] for start, stop in ((0, 1), (1, 4), (4, 5), (6, 10))]
        assert after(*parts).n_rounds_ == 9
    assert after(rounds_of(3), rounds_of(3)).n_rounds_ == 6  # built anew each day


@pytest.mark.parametrize(
    ("logs", "key", "message"),
    [
        (TIMED, [2, 3], "2 of these rows were already given, the first at row 0"),
        (TIMED, [6, 7, 6], "1 of these rows were already given, the first at row 2"),
        (TIMED, [5, 8, 7], "the timestamps decrease from 4 to 3 at row 2"),
        (PLAIN, [3, 7], "do not come after those that were already given"),
        (PLAIN, [6, 8, 7], "not in the order .* before it is at row 2"),
        (PLAIN, [6, 6], "not in the order .* before it is at row 1"),
    ],
)
def test_rows_that_do_not_follow(logs, key, message):
    sequence = after(logs[:5])
    with pytest.raises(ValueError, match=message):
        sequence.update(logs[key], UniformPolicy())
    assert sequence.n_rounds_ == 5


@pytest.mark.parametrize(
    ("first", "then", "message"),
    [
        (TIMED, rounds_of(2, [3, 5]), "the part before ended at 4, .* starts at 3"),
        (TIMED, PLAIN, "these logs have no timestamps, those before"),
        (PLAIN, TIMED, "these logs have timestamps, those before"),
        (TIMED, DATES, "same type of timestamps"),
    ],
)
def test_times_that_do_not_follow(first, then, message):
    with pytest.raises(ValueError, match=message):
        after(first, then)


def test_rows_that_stand_anywhere_count_once(global_random_seed):
    """Sorted by time their places are any; each is known again."""
    rng = np.random.default_rng(global_random_seed)
    logs = rounds_of(60, rng.permutation(60))
    order, sequence = np.argsort(logs.timestamp), after()
    start = 0
    while start < 60:
        stop = min(start + int(rng.integers(1, 20)), 60)
        sequence.update(logs[order[start:stop]], UniformPolicy())
        start = stop
        assert sequence.n_rounds_ == start
        for k in range(1, 4):
            again = order[max(start - k, 0) : start + 2]
            known = min(k, start)
            told = f"{known} of these rows were already given"
            with pytest.raises(ValueError, match=told):
                sequence.update(logs[again], UniformPolicy())


@pytest.fixture
def logs():
    return make_bandit_logs(N, random_state=0)


@pytest.fixture(params=["timed", "untimed"])
def lazy(request, logs, tmp_path):
    time = np.arange(N) // 3 if request.param == "timed" else None
    return written(logs, tmp_path, time=time)


def written(logs, folder, time=None, **about):
    about |= {"size": N, "reward_range": (0, 1)}
    return written_parts(logs.replace(timestamp=time), folder, BOUNDS, **about)


@pytest.mark.frames
@pytest.mark.few_cases
@pytest.mark.filterwarnings("ignore:few rounds make")
@pytest.mark.parametrize("method", ["betting", "asymptotic"])
@pytest.mark.parametrize("every", [None, 90])
def test_partitions_are_parts(method, every, lazy, logs):
    policy = UniformPolicy().fit(logs)
    setting = {"method": method, "every": every, "start": 200}
    expected = ConfidenceSequence(**setting)
    for partition in lazy.partitions:
        expected.update(partition.read(), policy)
    whole = ConfidenceSequence(**setting).update(lazy, policy)
    one_by_one = ConfidenceSequence(**setting)
    for partition in lazy.partitions:
        one_by_one.update(partition, policy)
    for found in (whole, one_by_one):
        assert found.n_rounds_ == N
        for name in expected.intervals_.dtype.names:
            one, other = found.intervals_[name], expected.intervals_[name]
            np.testing.assert_array_equal(one, other)
        assert tuple(found.interval_) == tuple(expected.interval_)
    if every is None:
        assert whole.intervals_["n_rounds"].tolist() == list(BOUNDS[1:])


@pytest.mark.frames
def test_no_round_comes_twice(lazy, logs):
    policy = UniformPolicy().fit(logs)
    sequence = ConfidenceSequence().update(lazy.partitions[0], policy)
    before = sequence.interval_
    for again in (lazy, lazy.partitions[0], lazy.partitions[0].read()):
        with pytest.raises(ValueError, match=r"already given|timestamps decrease"):
            sequence.update(again, policy)
    assert sequence.n_rounds_ == BOUNDS[1]
    assert sequence.interval_ is before
    with pytest.raises(ValueError, match=f"{BOUNDS[1]} of these rows .*already given"):
        sequence.update(lazy.partitions[0], policy)


@pytest.mark.frames
def test_another_scan_of_the_same_files_is_the_same_rounds(logs, tmp_path):
    lazy, policy = written(logs, tmp_path), UniformPolicy().fit(logs)
    about = {name: name for name in ("action", "reward", "propensity")}
    about["actions"] = lazy.actions
    files = [scan_logs(file, **about) for file in sorted(tmp_path.glob("**/*.parquet"))]
    sequence = ConfidenceSequence().update(files[0], policy)
    with pytest.raises(ValueError, match=r"row group 0.* by another scan of the file"):
        sequence.update(lazy, policy)
    for file in files[1:]:
        sequence.update(file, policy)
    whole = ConfidenceSequence().update(lazy, policy)
    assert sequence.n_rounds_ == N and sequence.interval_ == whole.interval_


def test_models_need_all_actions_of_every_policy(logs):
    some = logs.with_columns(pi=np.full(N, 0.5))
    for policy, baseline in (("pi", None), (UniformPolicy().fit(logs), "pi")):
        sequence = ConfidenceSequence("asymptotic", reward_model=0.5, baseline=baseline)
        with pytest.raises(ValueError, match="needs the probabilities of all actions"):
            sequence.update(some, policy)


@pytest.mark.frames
def test_what_raises_changes_nothing(logs, tmp_path):
    reward = logs.reward.copy()
    reward[500] = 7.0  # outside of the stated range, in the third file
    rounds = logs.context, logs.action, reward, logs.propensity
    lazy = written(BanditLogs(*rounds), tmp_path)
    sequence, policy = ConfidenceSequence(), UniformPolicy().fit(logs)
    with pytest.raises(ValueError, match=r"part2.parquet, row group 0.*row 190"):
        sequence.update(lazy, policy)
    with pytest.raises(NotFittedError, match="no rounds yet"):
        sequence.interval_  # noqa: B018
    sequence.update(lazy.partitions[0], policy)
    with pytest.raises(ValueError, match=r"part2.parquet"):
        sequence.update(lazy.partitions[2], policy)
    assert sequence.n_rounds_ == BOUNDS[1]


@pytest.mark.frames
def test_errors_of_the_sequence_name_the_partition(logs, tmp_path):
    time = np.arange(N)
    time[305] = 0
    lazy = written(logs, tmp_path, time=time)
    with pytest.raises(ValueError, match=r"part1.parquet.*timestamps decrease"):
        ConfidenceSequence().update(lazy, UniformPolicy().fit(logs))


@pytest.mark.frames
def test_a_lazy_frame_has_no_order(logs):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"a": [0, 1], "r": [0.0, 1.0], "p": [0.5, 0.5]}).lazy()
    lazy = scan_logs(frame, action="a", reward="r", propensity="p")
    with pytest.raises(TypeError, match=r"no order.*parquet"):
        ConfidenceSequence().update(lazy, UniformPolicy().fit(logs))

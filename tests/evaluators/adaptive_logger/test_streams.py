# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""A confidence sequence eats parts in their order, of memory and of files alike."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from skope_ope import BanditLogs, ConfidenceSequence, UniformPolicy, scan_logs
from skope_ope.datasets import make_bandit_logs
from tests.evaluators.sequential._worlds import written as written_parts

N = 800
BOUNDS = (0, 300, 310, 700, N)


# -- the order of rounds in memory --------------------------------------------------
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


# -- files --------------------------------------------------------------------------
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

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""A confidence sequence eats lazy logs as it eats their partitions in memory."""

from itertools import pairwise

import numpy as np
import pytest

from skope_ope import ConfidenceSequence, UniformPolicy, scan_logs
from skope_ope.datasets import make_bandit_logs
from skope_ope.evaluators.adaptive_logger._stream_order import Runs

pytestmark = pytest.mark.frames
N = 800
BOUNDS = (0, 300, 310, 700, N)


@pytest.fixture
def logs():
    return make_bandit_logs(N, random_state=0)


@pytest.fixture(params=["timed", "untimed"])
def lazy(request, logs, tmp_path):
    time = np.arange(N) // 3 if request.param == "timed" else None
    return written(logs, tmp_path, time=time)


def written(logs, folder, time=None, reward=None):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {
        "a": logs.action,
        "r": logs.reward if reward is None else reward,
        "p": logs.propensity,
        **{f"x{j}": column for j, column in enumerate(logs.context.T)},
    }
    about = {"context": [name for name in columns if name.startswith("x")]}
    if time is not None:
        columns["t"], about["timestamp"] = time, "t"
    for number, (low, high) in enumerate(pairwise(BOUNDS)):
        table = pa.table({name: values[low:high] for name, values in columns.items()})
        parquet.write_table(table, folder / f"part{number}.parquet")
    about |= {"reward_range": (0, 1), "actions": [0, 1, 2]}
    return scan_logs(folder, action="a", reward="r", propensity="p", **about)


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


def test_another_scan_of_the_same_files_is_the_same_rounds(logs, tmp_path):
    lazy, policy = written(logs, tmp_path), UniformPolicy().fit(logs)
    about = {"action": "a", "reward": "r", "propensity": "p", "actions": lazy.actions}
    files = [scan_logs(file, **about) for file in sorted(tmp_path.glob("**/*.parquet"))]
    sequence = ConfidenceSequence().update(files[0], policy)
    with pytest.raises(
        ValueError, match=r"row group 0: .* by another scan of the file"
    ):
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


def test_what_raises_changes_nothing(logs, tmp_path):
    reward = logs.reward.copy()
    reward[500] = 7.0  # outside of the stated range, in the third file
    lazy = written(logs, tmp_path, reward=reward)
    sequence, policy = ConfidenceSequence(), UniformPolicy().fit(logs)
    with pytest.raises(ValueError, match=r"part2.parquet, row group 0.*row 190"):
        sequence.update(lazy, policy)
    assert not hasattr(sequence, "_state")
    sequence.update(lazy.partitions[0], policy)
    with pytest.raises(ValueError, match=r"part2.parquet"):
        sequence.update(lazy.partitions[2], policy)
    assert sequence.n_rounds_ == BOUNDS[1]


def test_errors_of_the_sequence_name_the_partition(logs, tmp_path):
    time = np.arange(N)
    time[305] = 0
    lazy = written(logs, tmp_path, time=time)
    with pytest.raises(ValueError, match=r"part1.parquet.*timestamps decrease"):
        ConfidenceSequence().update(lazy, UniformPolicy().fit(logs))


def test_a_lazy_frame_has_no_order(logs):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"a": [0, 1], "r": [0.0, 1.0], "p": [0.5, 0.5]}).lazy()
    lazy = scan_logs(frame, action="a", reward="r", propensity="p")
    with pytest.raises(TypeError, match=r"no order.*parquet"):
        ConfidenceSequence().update(lazy, UniformPolicy().fit(logs))


def test_runs_are_sets(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    for _ in range(20):
        numbers = rng.permutation(60)[: rng.integers(1, 60)]
        runs, start = Runs(), 0
        while start < len(numbers):
            stop = start + int(rng.integers(1, 20))
            some = numbers[start:stop]
            assert not runs.hold(some).any()
            runs, start = runs.with_more(some), stop
        everything = np.arange(-2, 62)
        expected = np.isin(everything, numbers)
        np.testing.assert_array_equal(runs.hold(everything), expected)
        edges = np.flatnonzero(np.diff(expected.astype(int)))
        assert len(runs.first) == len(runs.stop) == len(edges) // 2

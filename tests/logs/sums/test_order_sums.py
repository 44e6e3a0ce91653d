# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The order of the rounds, from parts that are given in any order."""

import numpy as np
import pytest

from skope_ope import BanditLogs
from skope_ope.logs.sums._order_sums import OrderSums
from tests.logs._worlds import parts_of


def logs_of(seed, rate=0.05, **fields):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(20, 300))
    reward = (rng.random(n) < rate).astype(float)
    return BanditLogs(np.zeros((n, 0)), np.zeros(n, int), reward, **fields)


def merged(parts):
    found = OrderSums.of(parts[0])
    for part in parts[1:]:
        found = found + OrderSums.of(part)
    return found


@pytest.mark.few_cases(10)
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("join", [False, True])
def test_any_parts_tell_the_order_of_the_whole(seed, join):
    logs = logs_of(seed, rate=(0.02, 0.3, 1.0)[seed % 3])
    found = merged(parts_of(logs, 1 + seed % 8, seed))
    found = found.joined() if join else found
    rewarded = np.flatnonzero(logs.reward)
    last = rewarded[-1] if len(rewarded) else -1
    n, n_rewarded, n_last, (lengths, counts) = found.units()
    assert found.is_known
    assert (n, n_rewarded, found.n, found.stop) == (
        len(logs),
        len(rewarded),
        len(logs),
        len(logs),
    )
    assert (found.last_rewarded, n_last) == (last, len(logs) - 1 - last)
    expected = np.unique(np.diff(rewarded), return_counts=True)
    np.testing.assert_array_equal(lengths, expected[0])
    np.testing.assert_array_equal(counts, expected[1])
    if join:
        assert len(found.stretches) == 1


@pytest.mark.parametrize("seed", range(6))
def test_last_rounds_of_groups(seed):
    rng = np.random.default_rng(seed)
    logs = logs_of(seed)
    logs = logs.replace(group=rng.integers(0, 12, len(logs)))
    n, n_rewarded, n_last, gaps = merged(parts_of(logs, 4, seed)).units()
    ends = [np.flatnonzero(logs.group == one)[-1] for one in np.unique(logs.group)]
    ends = np.sort(ends)
    rewarded = np.flatnonzero(logs.reward)
    last = rewarded[-1] if len(rewarded) else -1
    assert n == len(ends)
    assert n_rewarded == np.count_nonzero(logs.reward[ends])
    assert n_last == np.count_nonzero(ends > last)
    gap = np.diff(np.flatnonzero(logs.reward[ends]))
    assert int(gaps[1].sum()) == len(gap)
    few = merged(parts_of(logs, 4, seed)).with_fewer_ends(5)
    assert few.units()[0] == min(5, n)


@pytest.mark.parametrize("join", [False, True])
def test_timestamps_that_decrease(join):
    logs = logs_of(3)
    rng = np.random.default_rng(0)
    for time in (np.arange(len(logs)), rng.integers(0, 9, len(logs))):
        found = merged(parts_of(logs.replace(timestamp=time), 5, 1))
        found = found.joined() if join else found
        assert found.n_backwards == np.count_nonzero(np.diff(time) < 0)
    assert merged([logs]).n_backwards == 0


def test_rows_that_were_left_out_are_no_gaps():
    logs = logs_of(4, rate=0.5)
    kept = logs[np.flatnonzero(np.arange(len(logs)) % 3)]
    found = merged(parts_of(kept, 4, 0))
    whole = OrderSums.of(kept)
    assert found.is_known
    for one, other in zip(found.units()[3], whole.units()[3], strict=True):
        np.testing.assert_array_equal(one, other)


def test_rows_in_another_order_are_put_in_order():
    logs = logs_of(5)
    mixed = logs[np.random.default_rng(0).permutation(len(logs))]
    one, other = (OrderSums.of(each) for each in (logs, mixed))
    np.testing.assert_array_equal(one.stretches, other.stretches)


def test_overlapping_parts_tell_nothing():
    logs = logs_of(6)
    found = OrderSums.of(logs[::2]) + OrderSums.of(logs[1::2])
    assert not found.is_known
    assert found.joined() is found

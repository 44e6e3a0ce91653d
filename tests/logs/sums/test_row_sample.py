# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Rows that are kept of a log, however it is cut."""

import numpy as np
import pytest
from scipy import stats

from skope_ope import BanditLogs
from skope_ope.logs._row_container import is_drawn
from skope_ope.logs.sums._row_sample import RowSample, hashed
from tests.logs._worlds import parts_of


def logs_of(n=2_000, origin=None):
    logs = BanditLogs(np.zeros((n, 0)), np.zeros(n, int), np.arange(n) % 7.0)
    if origin is not None:
        logs.__dict__["_origin"] = origin
    return logs


def columns(logs, rows):
    return {"reward": logs.reward[rows]}


@pytest.mark.parametrize("how", [RowSample.by_lot, RowSample.first])
@pytest.mark.parametrize("seed", range(3))
def test_the_same_rows_of_any_parts(how, seed):
    logs = logs_of()
    whole = how(100, logs, columns)
    parts = [how(100, part, columns) for part in parts_of(logs, 9, seed)]
    merged = parts[0]
    for part in parts[1:]:
        merged = merged + part
    assert len(merged) == len(whole) == 100
    places = [one.position[one.order()] for one in (merged, whole)]
    np.testing.assert_array_equal(*places)
    in_order = merged.order()
    assert (merged.columns["reward"][in_order] == logs.reward[places[0]]).all()
    if how == RowSample.first:
        np.testing.assert_array_equal(places[0], np.arange(100))


def test_rows_of_a_mixed_order():
    logs = logs_of()[np.random.default_rng(0).permutation(2_000)]
    first = RowSample.first(50, logs, columns)
    assert sorted(first.position) == list(range(50))
    by_lot, whole = (RowSample.by_lot(50, one, columns) for one in (logs, logs_of()))
    assert sorted(by_lot.position) == sorted(whole.position)


def test_fewer_rows_are_those_that_had_been_kept():
    whole = RowSample.by_lot(500, logs_of(), columns)
    few = RowSample.by_lot(60, logs_of(), columns)
    assert sorted(whole.reduced(60).position) == sorted(few.position)
    # whoever kept fewer says how many are kept
    assert len(whole + few) == 60
    assert len(RowSample.by_lot(3_000, logs_of(), columns)) == 2_000


@pytest.mark.parametrize("origin", ["monday", "tuesday"])
def test_hashes_are_uniform_and_rows_apart(origin):
    logs = logs_of(60_000, origin)
    position = RowSample.by_lot(3_000, logs, columns).position
    position.sort()
    assert stats.kstest(position / 60_000, "uniform").pvalue > 1e-4
    gaps = np.diff(position)
    assert gaps.var() == pytest.approx(gaps.mean() ** 2, rel=0.2)  # geometric
    for period in (2, 7, 64):
        counts = np.bincount(position % period, minlength=period)
        assert stats.chisquare(counts).pvalue > 1e-4


def test_origins():
    drawn = logs_of()._origin
    assert is_drawn(drawn) and not is_drawn("monday")
    one = RowSample.by_lot(100, logs_of(), columns)
    again = RowSample.by_lot(100, logs_of(), columns)  # another origin, by lot
    np.testing.assert_array_equal(one.position, again.position)
    days = [RowSample.by_lot(100, logs_of(origin=o), columns) for o in ("mon", "tue")]
    assert set(days[0].position) != set(days[1].position)
    both = days[0] + days[1]
    assert both.origins == ["mon", "tue"]
    assert 30 < np.count_nonzero(both.origin) < 70
    other = days[1] + days[0]
    assert sorted(zip(both.origin, both.position, strict=True)) == sorted(
        zip(other.origin, other.position, strict=True)
    )


def test_the_first_rows_of_several_origins():
    days = [RowSample.first(30, logs_of(20, o), columns) for o in ("tue", "mon")]
    both = days[0] + days[1]
    counts = np.bincount(both.origin)
    assert (both.origins, counts.tolist()) == (["mon", "tue"], [20, 10])


def test_ties_go_to_the_first_origin():
    # positions of origins that were drawn have the same hash
    origins = ["0" * 32, "1" * 32]
    days = [RowSample.by_lot(5, logs_of(20, o), columns) for o in origins]
    both = days[0] + days[1]
    assert len(both) == 5
    assert both.origins[0] == origins[0]
    assert np.bincount(both.origin).tolist() == [3, 2]


def test_hashes_differ():
    words = np.array([0, 2**40, 2**50 + 3], dtype=np.uint64)
    keys = [hashed(np.arange(10_000), word) for word in words]
    assert len(np.unique(np.concatenate(keys))) == 30_000

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

from dataclasses import dataclass

import numpy as np
import pytest

from skope_ope import BanditLogs
from skope_ope.evaluators._counted import Counted


@dataclass
class Part:
    key: tuple


def logs_of(n=20):
    zeros = np.zeros(n)
    return BanditLogs(np.zeros((n, 1)), np.arange(n) % 2, zeros, zeros + 0.5)


def test_row_groups_add_up_and_count_once():
    monday = Counted.of_partitions([Part(("/data/a.parquet", 0, 0))])
    rest = Counted.of_partitions(
        [Part(("/data/a.parquet", 1, 0)), Part(("/data/b.parquet", 0, 0))]
    )
    whole = monday + rest
    assert repr(whole) == "3 row groups of 2 files"
    assert whole == rest + monday
    with pytest.raises(ValueError, match=r"count a\.parquet, row group 0\. Add"):
        whole + monday
    with pytest.raises(
        ValueError, match=r"a\.parquet, row group 0; a\.parquet, row gr"
    ):
        whole + whole
    stretch = Counted.of_partitions([Part(("/data/a.parquet", 0, 1_000_000))])
    twice = whole + stretch
    with pytest.raises(ValueError, match="row group 0, from row 1,000,000"):
        twice + stretch


def test_folders_that_are_columns_name_a_file():
    day = Counted.of_partitions([Part(("/data/y=1/day=2/part-0.parquet", 0, 0))])
    with pytest.raises(ValueError, match=r"count y=1/day=2/part-0.*per day"):
        day + day


def test_a_file_that_is_read_in_two_ways_counts_once():
    blocks = Counted.of_partitions([Part(("/data/a.csv", "block", k)) for k in (0, 1)])
    more = Counted.of_partitions([Part(("/data/a.csv", "block", 2))])
    with pytest.raises(ValueError, match=r"count a\.csv, block 2\. Add"):
        (blocks + more) + more
    dataset = Counted.of_partitions([Part(("/data/a.csv", "file", 0))])
    with pytest.raises(ValueError, match=r"count a\.csv, block 0; a\.csv, block 1\."):
        blocks + dataset
    with pytest.raises(ValueError, match=r"count a\.csv\. Add"):
        dataset + dataset


def test_a_frame_counts_once():
    frame = Counted.of_frame()
    assert repr(frame + Counted.of_frame()) == "2 lazy frames"
    with pytest.raises(ValueError, match="count the same lazy frame"):
        frame + frame


def test_many_places_are_not_all_named():
    some = Counted({"a.parquet": {(k, 0) for k in range(10)}})
    with pytest.raises(ValueError, match=r"row group 2 and 7 more\. Add"):
        some + some


def test_rows_in_memory_count_once():
    logs = logs_of()
    first, rest = Counted.of_logs(logs[:8]), Counted.of_logs(logs[8:])
    whole = first + rest
    assert whole == Counted.of_logs(logs)
    assert repr(whole) == "20 rows in memory"
    with pytest.raises(ValueError, match="rows 5 to 7 of the same logs in memory"):
        first + Counted.of_logs(logs[5:12])
    even, odd = Counted.of_logs(logs[::2]), Counted.of_logs(logs[1::2])
    assert even + odd == whole
    with pytest.raises(ValueError, match="rows 8 to 8 of"):
        Counted.of_logs(logs[[3, 8]]) + even
    other = Counted.of_logs(logs_of())  # built anew: other rounds
    assert repr(whole + other) == "40 rows in memory"
    # a resample has rows twice by itself, and that is no parts added twice
    assert Counted.of_logs(logs[[1, 1, 2]]) == Counted.of_logs(logs[1:3])


def test_nothing_counted_adds_nothing():
    logs = logs_of()
    some = Counted.of_logs(logs)
    assert not Counted() and not Counted.of_logs(logs[:0])
    assert some + Counted() == some and Counted() + some == some
    assert repr(Counted()) == "no rounds"
    with pytest.raises(TypeError):
        some + 1


def test_a_text_holds_all():
    some = Counted({"ä/a.parquet": {(0, 0), (3, 5)}, "b.csv": {(7,)}})
    some += Counted.of_logs(logs_of()[[1, 2, 3, 9]])
    again = Counted.from_text(some.to_text())
    assert again == some
    with pytest.raises(ValueError, match=r"b\.csv, row group 7"):
        again + Counted({"b.csv": {(7,)}})

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skope_ope import BanditLogs, SlateLogs
from skope_ope.logs._groups import check_group

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")


def bandit_logs(group):
    n = len(group)
    return BanditLogs(np.zeros((n, 1)), np.arange(n) % 2, np.ones(n), group=group)


def slate_logs(group):
    n = len(group)
    return SlateLogs(np.zeros((n, 1)), np.zeros((n, 2), int), np.ones(n), group=group)


LOGS = pytest.mark.parametrize("logs_of", [bandit_logs, slate_logs])


@LOGS
def test_groups_are_numbered_among_the_rows_at_hand(logs_of):
    logs = logs_of(["u", "w", "v", "u"])
    assert_array_equal(logs.group_index, [0, 2, 1, 0])
    assert logs.n_groups == 3
    assert logs.group_index is logs.group_index  # computed once
    assert not logs.group_index.flags.writeable
    part = logs[[1, 2]]
    assert_array_equal(part.group_index, [1, 0])
    assert part.n_groups == 2
    assert logs[:0].n_groups == 0
    other = logs.replace(group=[7, 7, 7, 7])
    assert_array_equal(other.group_index, [0, 0, 0, 0])
    assert (other.n_groups, logs.n_groups) == (1, 3)


@LOGS
def test_logs_without_groups_have_none(logs_of):
    logs = logs_of([0, 1]).replace(group=None)
    assert logs.group_index is None
    assert logs.n_groups is None


@LOGS
def test_numbering_groups_leaves_the_logs_as_they_were(logs_of):
    logs = logs_of(["u", "v", "u"])
    before = pickle.dumps(logs)
    assert logs.n_groups == 2
    assert pickle.dumps(logs) == before
    assert pickle.loads(before).n_groups == 2


PAIRS = [("u", 1), ("v", 1), ("u", 2), ("u", 1)]
COLUMNS = {"user": ["u", "v", "u", "u"], "day": [1, 1, 2, 1]}


@LOGS
@pytest.mark.parametrize(
    "group",
    [
        PAIRS,
        tuple(PAIRS),
        [list(pair) for pair in PAIRS],
        np.array(PAIRS, dtype=object),
        np.array(PAIRS, dtype=[("user", "U1"), ("day", int)]),
        pd.MultiIndex.from_tuples(PAIRS),
        pd.Series(PAIRS),
        pd.DataFrame(COLUMNS),
        pl.DataFrame(COLUMNS),
        pa.table(COLUMNS),
    ],
    ids=lambda group: type(group).__module__ + "." + type(group).__name__,
)
def test_composite_labels_are_tuples(logs_of, group):
    logs = logs_of(group)
    assert logs.group.tolist() == PAIRS
    assert_array_equal(logs.group_index, [0, 2, 1, 0])
    assert logs[[1, 3]].group.tolist() == [PAIRS[1], PAIRS[3]]


def test_rows_of_numbers_are_tuples_and_a_single_column_is_the_labels():
    assert check_group(np.array([[1, 2], [1, 3]]), 2).tolist() == [(1, 2), (1, 3)]
    assert_array_equal(check_group(np.array([[1], [3]]), 2), [1, 3])
    assert_array_equal(check_group(pd.DataFrame({"user": ["u", "v"]}), 2), ["u", "v"])


MISSING = [None, np.nan, pd.NA, pd.NaT]


@LOGS
@pytest.mark.parametrize("missing", MISSING, ids=str)
def test_missing_labels_are_refused(logs_of, missing):
    for values in (["a", "b", missing], np.array(["a", "b", missing], dtype=object)):
        with pytest.raises(ValueError, match=r"group has a missing label .* at row 2"):
            logs_of(values)
    with pytest.raises(ValueError, match=r"label .* at row 1, in \('b', .*\)\. Drop"):
        logs_of([("a", 1), ("b", missing)])
    with pytest.raises(ValueError, match=r"group \(column 1\) has a missing .* row 1"):
        logs_of([["a", 1], ["b", missing]])


@pytest.mark.parametrize(
    ("group", "error", "match"),
    [
        (
            pd.DataFrame({"user": ["u", None]}),
            ValueError,
            r"column 'user'.* row 1",
        ),
        (
            pl.DataFrame({"user": ["u", None]}),
            ValueError,
            r"column 'user'.* row 1",
        ),
        (pa.table({"user": [1, None]}), ValueError, r"column 'user'.* row 1"),
        (pd.Series([1, None], dtype="Int64"), ValueError, "missing label .* row 1"),
        (pd.Categorical(["a", None]), ValueError, "missing label .* row 1"),
        (np.array(["2020", "NaT"], "M8[D]"), ValueError, "missing label .* row 1"),
        ([("a", 1), ("b",)], ValueError, r"\('b',\) at row 1: .* tuples of 2 parts"),
        ([("a", 1), 3], ValueError, "3 at row 1: .* tuples of 2 parts"),
        ([{"a"}, {"b"}], TypeError, r"holds \{'a'\} at row 0, .*\(unhashable"),
        (pd.DataFrame(index=[0, 1]), ValueError, "group is a table without columns"),
        (np.zeros((2, 2, 2)), ValueError, r"group must be 1-d .* shape \(2, 2, 2\)"),
        ([1, 2, 3], ValueError, "group has 3 rows, action has 2"),
    ],
    ids=str,
)
def test_what_cannot_tell_groups_apart_is_refused(group, error, match):
    with pytest.raises(error, match=match):
        check_group(group, 2)

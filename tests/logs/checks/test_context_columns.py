# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

from decimal import Decimal

import numpy as np
import pytest
from scipy import sparse

from skope_ope.logs.checks._context_columns import (
    ContextColumn,
    binned,
    context_columns,
    in_words,
    sampled_rows,
)


def numbers(values):
    return ContextColumn(0, np.asarray(values, dtype=float), False, False)


def test_columns_of_arrays_and_sparse_matrices():
    X = np.arange(12.0).reshape(4, 3)
    for context in (X, sparse.csr_matrix(X)):
        columns = context_columns(context, np.array([1, 3]))
        assert [one.name for one in columns] == [0, 1, 2]
        assert columns[1].label == "context column 1"
        np.testing.assert_array_equal(columns[1].values, [4, 10])


def test_columns_of_frames():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {
            "text": ["b", "a", None, "b"],
            "kind": pd.Categorical(["u", "v", "v", "v"]),
            "count": pd.array([1, None, 3, 4], dtype="Int64"),
            "price": [Decimal("1.5"), None, Decimal(2), Decimal(3)],
            "day": pd.to_datetime(["2026-01-02", None, "2026-01-01", "2026-01-03"]),
            7: [True, False, True, True],
        }
    )
    text, kind, count, price, day, flag = context_columns(frame)
    assert text.label == "column 'text'"
    assert [one.categorical for one in (text, kind)] == [True, True]
    np.testing.assert_array_equal(text.values, [0, 1, np.nan, 0])  # by frequency
    np.testing.assert_array_equal(kind.values, [1, 0, 0, 0])
    assert not any(one.categorical for one in (count, price, day, flag))
    np.testing.assert_array_equal(count.values, [1, np.nan, 3, 4])
    np.testing.assert_array_equal(price.values, [1.5, np.nan, 2, 3])
    assert np.isnan(day.values[1])
    assert day.values[2] < day.values[0] < day.values[3]
    np.testing.assert_array_equal(flag.values, [1, 0, 1, 1])
    assert flag.label == "column 7"


def test_bins_hold_equal_counts():
    values = np.random.default_rng(0).permutation(1600.0 * np.arange(1600))
    codes = binned(numbers(values))
    assert set(np.bincount(codes)[1:]) <= {99, 100, 101}
    order = np.argsort(values)
    assert (np.diff(codes[order]) >= 0).all()


def test_bins_of_few_heavy_and_missing_values():
    few = binned(numbers([3, 1, np.nan, 3, 2]))
    np.testing.assert_array_equal(few, [3, 1, 0, 3, 2])
    values = np.append(np.zeros(5000), np.random.default_rng(0).random(5000) - 0.5)
    codes = binned(numbers(values))
    assert len(set(codes[:5000])) == 1
    assert codes[0] not in codes[5000:]  # what is frequent is a bin of its own
    assert binned(numbers(np.full(9, np.nan))).tolist() == [0] * 9
    infinite = binned(numbers([np.inf, -np.inf, 0.0, np.inf]))
    assert infinite[0] == infinite[3] > infinite[2] > infinite[1]


def test_rare_categories_count_as_one():
    codes = binned(ContextColumn("a", np.arange(1000.0), True, True))
    assert codes.max() == 513
    assert (codes[512:] == 513).all()


def test_sampled_rows():
    rng = np.random.RandomState(0)
    np.testing.assert_array_equal(sampled_rows(5, 5, rng), np.arange(5))
    rows = sampled_rows(1_000_000, 1000, rng)
    assert 950 < len(rows) <= 1000
    assert (np.diff(rows) > 0).all()


def test_listed():
    assert in_words(["a"]) == "a"
    assert in_words(["a", "b", "c"]) == "a, b and c"
    assert in_words(list("abcdefgh")) == "a, b, c, d, e and 3 more"

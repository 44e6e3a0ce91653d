# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Equal rows have equal hashes, whatever they lie in."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from skope_ope.logs._known_rows import column_words, combined, context_words, mixed

TABLE = np.array([[0, 1, -3], [2, 0, 4], [0, 0, 0], [1, 1, 2], [0, 1, -3]])


def test_splitmix():
    # the first numbers of the generator from state 0 (Steele, Lea, Flood 2014)
    step = np.uint64(0x9E3779B97F4A7C15)
    state = np.array([0, step], dtype=np.uint64)
    assert [hex(word) for word in mixed(state)] == [
        "0xe220a8397b1dcdaf",
        "0x6e789e6aa1b965f4",
    ]


def test_equal_rows_alone_have_equal_hashes():
    words = context_words(TABLE)
    assert words[0] == words[4]
    assert len(set(words.tolist())) == 4
    assert words[2] == context_words(np.zeros((1, 3)))[0]


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.float32, np.float16])
def test_dtypes_of_tables(dtype):
    assert_array_equal(context_words(TABLE.astype(dtype)), context_words(TABLE))


@pytest.mark.parametrize("dtype", [np.int8, np.float32, object])
def test_dtypes_of_columns(dtype):
    for column in TABLE.T:
        assert_array_equal(column_words(column.astype(dtype)), column_words(column))
    words = combined([column_words(column) for column in TABLE.T])
    assert words[0] == words[4]
    assert len(set(words.tolist())) == 4


def test_flags_and_signs_of_zero():
    flags = np.array([[True, False], [False, False]])
    assert_array_equal(context_words(flags), context_words(flags.astype(float)))
    assert_array_equal(
        context_words(-np.zeros((1, 2))), context_words(np.zeros((1, 2)))
    )


@pytest.mark.parametrize("kind", ["csr", "csc", "lil"])
def test_sparse_rows_are_those_of_dense_ones(kind):
    rng = np.random.RandomState(0)
    table = rng.normal(size=(40, 30)) * (rng.random_sample((40, 30)) < 0.1)
    table[7] = 0
    rows = sparse.csr_array(table)
    table[tuple(where[3] for where in rows.nonzero())] = 0.0
    rows.data[3] = 0.0  # a zero that is stored
    assert_array_equal(context_words(rows.asformat(kind)), context_words(table))
    assert_array_equal(
        context_words(sparse.csr_matrix(rows[:, :0])), context_words(table[:, :0])
    )


def test_layout_and_blocks():
    table = np.random.RandomState(0).normal(size=(700, 300))  # several blocks
    words = context_words(table)
    assert_array_equal(context_words(np.asfortranarray(table)), words)
    assert_array_equal(context_words(table[::-1])[::-1], words)
    assert_array_equal(context_words(table[650:]), words[650:])


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames(library):
    module = pytest.importorskip(library)
    data = {"a": TABLE[:, 0], "b": TABLE[:, 1] * 0.5, "c": TABLE[:, 2]}
    make = module.table if library == "pyarrow" else module.DataFrame
    words = context_words(np.column_stack(list(data.values())))
    assert_array_equal(context_words(make(data)), words)
    other = make({name: data[name] for name in "cab"} | {"z": TABLE[:, 0]})
    assert_array_equal(context_words(other, ["a", "b", "c"]), words)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames_of_texts_dates_and_missing_values(library):
    module = pytest.importorskip(library)
    texts = ["x", "yy", "x", None]
    times = [datetime(2020, 1, 2, 3), datetime(2021, 1, 1), datetime(2020, 1, 2, 3)]
    data = {"text": texts, "time": [*times, None], "number": [1, 2, 1, None]}
    make = module.table if library == "pyarrow" else module.DataFrame
    expected = [
        column_words(np.array(texts, dtype=object)),
        column_words(np.array([*times, "NaT"], dtype="datetime64[s]")),
        column_words(np.array([1, 2, 1, np.nan])),
    ]
    frame = make(data)
    for name, words in zip(data, expected, strict=True):
        assert_array_equal(column_words(frame[name]), words)
        assert words[0] == words[2]
        assert words[3] == column_words([None])[0]
    assert len(set(context_words(frame).tolist())) == 3


def test_categories_are_their_labels():
    pandas = pytest.importorskip("pandas")
    labels = ["b", "a", None, "b"]
    series = pandas.Series(labels, dtype="category")
    assert_array_equal(column_words(series), column_words(labels))
    reordered = series.cat.set_categories(["b", "a", "never"])
    assert_array_equal(column_words(reordered), column_words(labels))
    assert_array_equal(
        column_words(pandas.Series([3, 5], dtype="category")), column_words([3, 5])
    )


@pytest.mark.parametrize(
    "alike",
    [
        [1, 1.0, True, np.float32(1), np.int8(1), Decimal(1), Fraction(1)],
        [None, float("nan"), np.nan, np.datetime64("NaT"), np.timedelta64("NaT")],
        ["1", np.str_("1")],
        [(1, "a"), (1.0, "a")],
        [
            datetime(2020, 1, 1, 1, tzinfo=UTC),
            datetime(2020, 1, 1, 1),
            np.datetime64("2020-01-01T01", "h"),
            np.datetime64("2020-01-01T01", "ns"),
        ],
        [date(2020, 1, 1), np.datetime64("2020-01-01", "D")],
        [timedelta(hours=1), np.timedelta64(60, "m")],
        [10**400, 10**400],
        [object(), object()],
        [[1, 2], [1, 2]],
    ],
    ids=lambda labels: type(labels[0]).__name__,
)
def test_labels_that_are_alike(alike):
    words = set()
    for label in alike:
        column = np.empty(1, dtype=object)
        column[0] = label
        words.add(int(column_words(column)[0]))
        if isinstance(label, np.generic) or not hasattr(label, "__len__"):
            words.add(int(column_words(np.array([label]))[0]))
    assert len(words) == 1


def test_labels_that_are_not():
    labels = [0, 1, -1, 0.5, "0", "", "a", b"b", (1,), (1, 1), None, 10**400, 10**401]
    labels += [date(2020, 1, 1), timedelta(days=1), np.inf, 2**53]
    column = np.empty(len(labels), dtype=object)
    column[:] = labels
    assert len(set(column_words(column).tolist())) == len(labels)


def test_texts_of_any_width():
    texts = np.array(["a", "long text"])
    assert column_words(texts[:1].astype("U1"))[0] == column_words(texts)[0]
    assert column_words(np.array(["a\udc80"], dtype=object))[0] != 0


def test_small_numbers_do_not_collide():
    # ones and zeros differ in few bits: all rows of sixteen flags
    flags = (np.arange(1 << 16)[:, None] >> np.arange(16)) & 1
    words = context_words(flags)
    for part in (words >> np.uint64(24), words & np.uint64(2**40 - 1)):
        assert len(np.unique(part)) == 1 << 16
    counts = np.bincount((words >> np.uint64(56)).astype(int), minlength=256)
    # Pearson's test of the first byte: 256 cells of 256, four standard errors
    assert abs(((counts - 256) ** 2 / 256).sum() - 255) < 4 * np.sqrt(2 * 255)


def test_the_hash_is_the_same_in_every_process():
    labels = np.empty(4, dtype=object)
    labels[:] = ["a", 1, None, (2, "b")]
    assert column_words(labels).tolist() == [
        3405396810240292928,
        4607182418800017408,
        9221120237041090560,
        130803003359244181,
    ]
    assert context_words(np.array([[1.0, 2.0]])) == 16855015047286240264

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skope_ope.logs._factorise import (
    among,
    distinct_labels,
    factorise,
    in_order,
    rows_of_codes,
)

RNG = np.random.default_rng(0)
TEXTS = np.array(["ann", "bob", "", "ann ", "élan", "ann"])
VALUES = {
    "counted integers": RNG.integers(-5, 5, 200),
    "wide integers": RNG.integers(0, 20, 200) * 10**12 - 7,
    "unsigned": np.array([2**64 - 1, 0, 2**64 - 1], np.uint64),
    "fractions": RNG.integers(0, 9, 200) / 4,
    "booleans": RNG.integers(0, 2, 200) == 1,
    "dates": RNG.integers(0, 9, 200).astype("M8[D]"),
    "texts": TEXTS[RNG.integers(0, 6, 200)],
    "of another byte order": TEXTS[RNG.integers(0, 6, 200)].astype(">U5"),
    "every other text": TEXTS[RNG.integers(0, 6, 200)][::2],
    "bytes": TEXTS[[0, 1, 2, 0]].astype("S5"),
    "long texts": np.array(["a" * 100 + str(i) for i in RNG.integers(0, 9, 50)]),
    "objects": TEXTS[RNG.integers(0, 6, 200)].astype(object),
}
if np.lib.NumpyVersion(np.__version__) >= "2.0.0":
    VALUES["texts of any length"] = TEXTS.astype(np.dtypes.StringDType())


@pytest.mark.parametrize("name", VALUES)
def test_labels_and_codes_are_those_of_unique(name):
    labels, codes = factorise(VALUES[name])
    expected, codes_expected = np.unique(VALUES[name], return_inverse=True)
    assert_array_equal(labels, expected)
    assert_array_equal(codes, codes_expected)
    assert codes.dtype.kind == "i"


def test_texts_with_equal_hashes_are_told_apart(monkeypatch):
    monkeypatch.setattr("skope_ope.logs._factorise._MULTIPLIER", np.uint64(0))
    labels, codes = factorise(TEXTS)
    assert_array_equal(labels[codes], TEXTS)
    assert len(labels) == 5


def test_labels_that_cannot_be_ordered_stay_in_the_order_of_appearance():
    labels, codes = factorise(np.array(["b", 3, "a", 3, "b"], dtype=object))
    assert labels.tolist() == ["b", 3, "a"]
    assert_array_equal(codes, [0, 1, 2, 1, 0])


@pytest.mark.parametrize("n_labels", [1, 7, 300, 100_000])
@pytest.mark.parametrize("dtype", ["U", "S", "O", float, "M8[s]", np.int64, np.uint64])
def test_many_labels_are_told_apart(n_labels, dtype):
    # of 3,000 rows with nearly as many labels some look for a slot several times
    values = RNG.integers(0, n_labels, 3000)
    if dtype in (np.int64, np.uint64):
        values = (values * 10**13).astype(dtype)
    elif isinstance(dtype, str) and dtype in "USO":
        values = np.array([f"label {v}" for v in values]).astype(dtype)
    else:
        values = values.astype(dtype)
    labels, codes = factorise(values)
    expected, codes_expected = np.unique(values, return_inverse=True)
    assert_array_equal(labels, expected)
    if labels.dtype.kind not in "iu":  # integers that lie close are counted
        assert labels.dtype == expected.dtype
    assert_array_equal(codes, codes_expected)


def test_texts_that_differ_in_one_character_or_in_length_are_told_apart():
    letters = [chr(k) for k in (*range(32, 127), 0x3A9, 0x10FFFF)]
    texts = [place * "a" + letter for letter in letters for place in range(17)]
    values = np.array(texts)[RNG.integers(0, len(texts), 5000)]
    labels, codes = factorise(values)
    assert_array_equal(labels, np.unique(values))
    assert_array_equal(labels[codes], values)


def test_numbers_that_are_equal_have_one_code():
    labels, codes = factorise(np.array([0.0, -0.0, 1.5, 0.0]))
    assert_array_equal(labels, [0.0, 1.5])
    assert_array_equal(codes, [0, 0, 1, 0])
    values = np.array([1, True, 1.0, 0], dtype=object)
    labels, codes = factorise(values)
    assert_array_equal(codes, [1, 1, 1, 0])
    assert type(labels[1]) is int  # the first of them


@pytest.mark.parametrize("values", [[], np.zeros(0, "U3"), np.zeros(3, "S0")], ids=repr)
def test_few_labels_or_none(values):
    values = np.asarray(values)
    labels, codes = factorise(values)
    assert_array_equal(labels, np.unique(values))
    assert len(codes) == len(values)


def test_labels_that_cannot_be_looked_up_raise():
    values = np.empty(2, dtype=object)
    values[:] = [[1], [2]]
    with pytest.raises(TypeError, match="unhashable"):
        distinct_labels(values)


def test_labels_in_no_row_are_left_out():
    labels, codes = in_order(np.array(["b", "c", "a"]), np.array([2, 0, 0]))
    assert labels.tolist() == ["a", "b"]
    assert_array_equal(codes, [0, 1, 1])


@pytest.mark.parametrize("kind", ["ints", "texts", "objects", "mixed"])
def test_codes_of_some_rows_are_those_of_their_labels(kind):
    values = RNG.integers(0, 30, 200)
    if kind in ("texts", "objects"):
        values = np.array(
            [f"{v}" for v in values], dtype=object if kind == "objects" else str
        )
    if kind == "mixed":
        values = np.array([v if v % 2 else f"{v}" for v in values], dtype=object)
    labels, codes = factorise(values)
    for rows in (slice(None), slice(0, 0), [7], [0, 7, 7, 3, 180], slice(40, None, -1)):
        counts = np.bincount(codes[rows], minlength=len(labels))
        found = among(labels, codes[rows], counts)
        expected = factorise(values[rows])
        assert found[0].tolist() == expected[0].tolist()
        assert_array_equal(found[1], expected[1])


@pytest.mark.few_cases(2)
@pytest.mark.parametrize("n_codes", [1, 5, 1000, 200_000])
def test_rows_of_codes_rise_and_are_all_there(n_codes):
    codes = RNG.integers(0, n_codes, 2000)
    rows = rows_of_codes(codes, n_codes)
    assert len(rows) == n_codes
    for code in (*codes[:20].tolist(), n_codes - 1):
        assert_array_equal(rows[code], np.flatnonzero(codes == code))

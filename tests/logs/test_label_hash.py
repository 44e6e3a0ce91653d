# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import datetime
import zlib

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skope_ope.logs._labels import PRIME, label_hash

INTEGERS = [0, 1, 7, 200, -3, 2**31, -(2**40), 2**62]


def of_integer(g):
    return (g % 2147483647) * 48271 % 2147483647


def test_integers_follow_the_arithmetic_of_data_frames():
    assert label_hash(np.array(INTEGERS)).tolist() == [of_integer(g) for g in INTEGERS]


@pytest.mark.parametrize(
    "dtype", [np.int8, np.uint8, np.int16, np.int32, np.uint32, np.uint64, float]
)
def test_the_width_of_integers_does_not_matter(dtype):
    small = np.array([0, 1, 7, 100])
    assert_array_equal(label_hash(small.astype(dtype)), label_hash(small))
    assert_array_equal(label_hash(small.astype(object)), label_hash(small))


def test_large_integers():
    labels = np.array([2**64 - 1, 2**63], np.uint64)
    assert label_hash(labels).tolist() == [of_integer(g) for g in labels.tolist()]
    assert label_hash(np.array([10**30], object))[0] == of_integer(10**30)


def test_texts_are_replaced_by_their_checksum():
    texts = ["ann", "bob", "", "élan", "ann"]
    expected = [of_integer(zlib.crc32(text.encode())) for text in texts]
    assert label_hash(np.array(texts)).tolist() == expected
    assert label_hash(np.array(texts, dtype=object)).tolist() == expected
    if hasattr(np, "dtypes") and hasattr(np.dtypes, "StringDType"):  # numpy 2
        of_any_length = np.array(texts, np.dtypes.StringDType())
        assert label_hash(of_any_length).tolist() == expected
    assert label_hash(np.array(["ann"], "S5"))[0] == expected[0]


KNOWN = [1667458923, 1865266870, 225354208, 48271, 1285566909]


def test_known_values():
    """They must never change: folds of logs that are stored depend on them."""
    labels = np.empty(6, dtype=object)
    labels[:] = [("u", 1), "ann", 2.5, True, datetime.date(2020, 1, 1), ("u", 1.0)]
    assert label_hash(labels).tolist() == [*KNOWN, KNOWN[0]]


def test_equal_times_have_equal_hashes():
    days = np.array(["2020-01-01", "2021-06-05"], "M8[D]")
    assert_array_equal(label_hash(days), label_hash(days.astype("M8[ms]")))


def test_hashes_lie_below_the_prime():
    found = label_hash(np.arange(-(10**5), 10**5))
    assert found.min() >= 0 and found.max() < PRIME
    assert len(np.unique(found)) == 2 * 10**5


def test_labels_whose_text_changes_are_refused():
    with pytest.raises(TypeError, match=r"a label is <object .* memory address"):
        label_hash(np.array([object()], dtype=object))

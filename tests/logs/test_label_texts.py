# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import datetime
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from skope_ope.logs._labels import (
    arrays_of_labels,
    label_of_text,
    labels_of_arrays,
    labels_of_texts,
    text_of_label,
    texts_of_labels,
)

LABELS = [
    None,
    True,
    -3,
    2**62,
    0.1,
    float("inf"),
    -float("inf"),
    "a",
    "date 2026-01-01",
    'it\'s "ä"\n',
    b"\xff",
    ("a", 1, None),
    (datetime.date(2026, 1, 31), ("b", 0.5)),
    (),
    Decimal("1.50"),
    datetime.timedelta(days=-1, seconds=5, microseconds=7),
    datetime.date(2026, 1, 31),
    datetime.datetime(2026, 1, 31, 23, 59, 59, 999_999),
    datetime.datetime(2026, 1, 31, tzinfo=datetime.UTC),
]


@pytest.mark.parametrize("label", LABELS, ids=repr)
def test_labels_come_back(label):
    again = label_of_text(text_of_label(label))
    assert again == label and type(again) is type(label)


def test_labels_of_arrays_come_back():
    for labels in (
        np.arange(3),
        np.array(["a", "b"]),
        np.array([0.5, 1.0], np.float32),
        np.array(["2026-01-01", "2026-01-02"], "M8[D]"),
    ):
        texts = texts_of_labels(labels)
        assert texts.dtype.kind == "U"
        assert labels_of_texts(texts) == labels.tolist()
    assert labels_of_texts(texts_of_labels([])) == []
    assert np.isnan(label_of_text(text_of_label(float("nan"))))


def test_no_text_is_run():
    with pytest.raises(ValueError):
        label_of_text("__import__('os').getcwd()")


@pytest.mark.parametrize(
    "labels, stored",
    [
        (["a", "b"], "group_text"),
        (["a", "b\0"], "group_repr"),
        ([(1, "a"), (2, "b")], "group_tuple"),
        ([(1, 0.5), (2**70, 0.5)], "group_repr"),
        ([(1, "a"), ("1", "a")], "group_repr"),
        ([(1,), (1, 2)], "group_repr"),
        ([Decimal("1.5"), None], "group_repr"),
    ],
)
def test_objects_come_back_from_arrays(labels, stored):
    given = np.empty(len(labels), dtype=object)
    given[:] = labels
    table = arrays_of_labels("group", given)
    assert list(table) == [stored] and table[stored].dtype.kind != "O"
    again = labels_of_arrays("group", table)
    assert again.dtype == object and again.tolist() == labels
    assert [*map(type, again)] == [*map(type, labels)]


@pytest.mark.parametrize("label", [Fraction(1, 2), (1, Fraction(1, 2)), object()])
def test_other_labels_are_refused(label):
    with pytest.raises(TypeError, match="cannot be written to a file: use numbers"):
        text_of_label(label)

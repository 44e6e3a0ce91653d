# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import datetime

import numpy as np
import pytest

from skope_ope.logs._label_texts import (
    label_of_text,
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

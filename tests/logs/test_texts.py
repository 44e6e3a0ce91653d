# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest

from skope_ope.logs._texts import Texts, parse_labels


def test_texts_are_kept_once():
    column = Texts(np.array([1, 0, 1]), ["a", "b"])
    assert len(column) == 3
    assert column.array().tolist() == ["b", "a", "b"]


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["0", "12", "-3"], "i"),
        (["0", "1.5", "1e-05"], "f"),
        (["0.0", "1.5", "2.0"], "f"),
        (["True", "False"], "b"),
        (["true", "false"], "b"),
        (["TRUE"], "b"),
        (["007", "7"], "U"),
        (["true", "True"], "U"),
        (["true", "1"], "U"),
        (["1", "1.0", "1.5"], "U"),
        (["1.10", "1.1"], "U"),
        (["0.5", "1e-3"], "U"),
        (["0", "-0"], "U"),
        (["0.0", "-0.0"], "U"),
        ([f"{2**53 + 1}", "0.5"], "U"),
        (["nan", "0.5"], "U"),
        (["10:00", "10:00:00"], "U"),
        (["1", "a"], "U"),
        (["12345678901234567890", "12345678901234567891"], "U"),
        (["1" * 5000, "2"], "U"),
        (["1e999"], "U"),
        (["1_0", "2"], "U"),
        (["\u0661", "1"], "U"),
    ],
)
def test_labels_are_what_all_of_them_look_like(texts, kind):
    assert parse_labels(texts).dtype.kind == kind
    assert len(set(parse_labels(texts).tolist())) == len(texts)

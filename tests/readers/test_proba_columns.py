# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest

from skope_ope.readers._table_logs import labels_told, order_of, proba_columns


def test_what_columns_are_called():
    names = ["p.1", "p.2", "odd=name", "x.a", "y.a"]
    assert proba_columns(["p"], names) == {"1": "p.1", "2": "p.2"}
    assert proba_columns(["odd=name"], names) == {"odd=name": "odd=name"}
    assert proba_columns(["a=p.1"], names) == {"a": "p.1"}
    assert list(proba_columns(["x.a", "y.a"], names)) == ["a", "y.a"]


def test_numbers_stay_in_the_order_of_numbers():
    columns = {"10": "p.10", "9": "p.9"}
    labels = labels_told(columns, np.array([9, 9]))
    assert labels == ["9", "10"]
    assert order_of(columns, np.array([9, 10])) == [1, 0]
    assert labels_told(columns, np.array([3, 4])) == ["3", "4"]


def test_the_order_of_the_actions():
    assert order_of({"u": "u", "v": "v"}, np.array(["a", "b"])) == [0, 1]
    with pytest.raises(ValueError, match="in this order, or as LABEL=COLUMN"):
        order_of({"p_b": "p_b", "p_a": "p_a"}, np.array(["a", "b"]))

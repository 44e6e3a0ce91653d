# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest

from skope_ope.exceptions import LogsWarning
from skope_ope.logs._texts import Texts
from skope_ope.readers import _table_logs as _table_encoder
from skope_ope.readers._table_logs import TableEncoder


def test_rare_texts_share_a_column(monkeypatch):
    monkeypatch.setattr(_table_encoder, "MAX_CATEGORIES", 3)
    texts = Texts(np.array([0, 0, 1, 1, 2, 3]), ["b", "a", "c", "d"])
    with pytest.warns(LogsWarning, match="'x' holds 4 different texts") as caught:
        encoder = TableEncoder({"x": texts})
    assert caught[0].message.value == 4
    expected = [[0, 1, 0], [0, 1, 0], [1, 0, 0], [1, 0, 0], [0, 0, 1], [0, 0, 1]]
    np.testing.assert_array_equal(encoder.transform({"x": texts}), expected)


def test_constant_and_missing_columns_stay_finite_or_missing():
    features = {"one": np.ones(3), "none": np.full(3, np.nan)}
    out = TableEncoder(features).transform(features)
    np.testing.assert_array_equal(out, [[0, np.nan]] * 3)

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np

from skope_ope.selection._scored_splits import chosen, param_columns, ranks


def test_ranks():
    nan = float("nan")
    assert ranks(np.array([0.5, nan, 0.7, 0.5, nan])).tolist() == [2, 4, 1, 2, 4]
    assert ranks(np.array([nan, nan])).tolist() == [1, 1]
    assert ranks(np.array([-np.inf, 0.0, nan])).tolist() == [2, 1, 2]
    assert chosen(True, {"rank_test_score": np.array([2, 1]), "params": [{}, {}]}) == 1


def test_columns_of_parameters():
    columns = param_columns([{"a": 1, "b": None}, {"a": 2.5}])
    assert columns["param_a"].dtype == float
    assert columns["param_b"].tolist() == [None, None]
    assert columns["param_b"].mask.tolist() == [False, True]

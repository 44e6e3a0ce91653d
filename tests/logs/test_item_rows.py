# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest

from skope_ope import SlateLogs
from skope_ope.logs._slate_fields import item_rows


@pytest.mark.parametrize("order", ["C", "F"])
def test_features_of_candidates_of_rounds(order):
    rng = np.random.default_rng(0)
    table = np.asarray(rng.random((5, 4, 3)), order=order)
    slates = rng.permuted(np.tile(np.arange(4), (5, 1)), axis=1)[:, :2]
    logs = SlateLogs(np.zeros((5, 1)), slates, np.ones(5), item_features=table)
    rounds, candidates = np.array([0, 3, 3, 4]), np.array([3, 0, 2, 3])
    want = [table[i, a] for i, a in zip(rounds, candidates, strict=True)]
    np.testing.assert_array_equal(item_rows(logs, rounds, candidates), want)
    part = logs[2:]
    np.testing.assert_array_equal(
        item_rows(part, np.array([1]), np.array([2])), table[3, 2][None]
    )
    # an empty slot of the first round has some row
    assert item_rows(logs, np.array([0]), np.array([-1])).shape == (1, 3)

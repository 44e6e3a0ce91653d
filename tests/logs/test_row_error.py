# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pickle

import numpy as np
import pytest

from skope_ope import BanditLogs
from skope_ope.exceptions import RowError


def test_a_row_can_be_told_by_another_name():
    error = RowError("reward {x} is odd", np.int64(3), " (1 such row).")
    assert str(error) == "reward {x} is odd at row 3 (1 such row)."
    assert error.told_of("line 7") == "reward {x} is odd at line 7 (1 such row)."
    assert type(error.row) is int
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize(
    ("field", "values", "row"),
    [
        ("propensity", [0.5, 0.0, 0.5], 1),
        ("propensity", [0.5, 0.5, 1.5], 2),
        ("reward", [0, np.nan, 0], 1),
        ("reward", [0, 0, 7], 2),
        ("sample_weight", [1, -1, 1], 1),
        ("timestamp", [0, 1, np.inf], 2),
        ("logger", ["a", "b", None], 2),
        ("group", [(1, 2), (1, None), (1, 3)], 1),
        ("available", [[True, True], [True, True], [False, True]], 2),
        ("logging_proba", [[0.5, 0.5], [0.5, 0.6], [0.5, 0.5]], 1),
        ("actions", [1, 2], 0),
    ],
)
def test_rounds_that_cannot_be_are_told_with_their_row(field, values, row):
    fields = {"action": [0, 1, 0], "reward": [0, 1, 0], "reward_range": (0, 1)}
    fields[field] = np.array(values) if field == "available" else values
    with pytest.raises(RowError, match=rf"at row {row}\b") as caught:
        BanditLogs(np.zeros((3, 1)), **fields)
    assert caught.value.row == row


def test_features_of_actions_have_no_rows():
    features = [[0.0], [np.inf]]
    with pytest.raises(ValueError, match="got inf at action 1") as caught:
        BanditLogs(np.zeros((2, 1)), [0, 1], [0, 1], action_context=features)
    assert not isinstance(caught.value, RowError)

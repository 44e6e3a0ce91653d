# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pickle
from copy import copy

import pytest

from skope_ope._pairs import KeysAndValues, WithPairs


class Holder(WithPairs):
    def __init__(self, **held):
        self.__dict__.update(held)


HELD = {
    "texts": {"a": 1, "b": 2},
    "tuples": {("a", 1): 1, None: 2, True: 3, False: 4},
    "nested": {"a": {1: {("b", 2): "c"}}},
    "empty": {},
    "other": [1, 2],
}


def test_keys_that_are_no_texts_leave_as_pairs():
    state = Holder(**HELD).__getstate__()
    assert state["texts"] == HELD["texts"]
    assert isinstance(state["tuples"], KeysAndValues)
    assert state["tuples"].keys == [("a", 1), None, True, False]
    assert state["other"] is HELD["other"]


@pytest.mark.parametrize("through", ["pickle", "skops", "copy"])
def test_they_come_back_as_dicts(through):
    one = Holder(**HELD)
    if through == "skops":
        io = pytest.importorskip("skops.io")
        data = io.dumps(one)
        back = io.loads(data, trusted=io.get_untrusted_types(data=data))
    else:
        back = copy(one) if through == "copy" else pickle.loads(pickle.dumps(one))
    assert vars(back) == HELD
    assert [type(key) for key in back.tuples] == [tuple, type(None), bool, bool]

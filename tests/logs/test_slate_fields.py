# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pytest
from numpy.testing import assert_array_equal

from skope_ope.logs._slate_fields import check_slate, check_slot_reward


def test_slates_are_read_only_indices():
    slate = check_slate([[0, -1], [2.0, 1]])
    assert_array_equal(slate, [[0, -1], [2, 1]])
    assert slate.dtype.kind == "i"
    assert not slate.flags.writeable
    with pytest.raises(ValueError, match=r"got 0\.5 at row 0, slot 1"):
        check_slate([[0, 0.5]])


def test_an_empty_slot_earns_nothing():
    slate = check_slate([[0, -1]])
    assert_array_equal(check_slot_reward([[2, 0]], slate), [[2, 0]])
    with pytest.raises(ValueError, match="zero in an empty slot, got 1 at row 0"):
        check_slot_reward([[2, 1]], slate)

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skope_ope.logs._frame_pages import Pages
from skope_ope.logs._frames import opened

pytestmark = pytest.mark.frames
pytest.importorskip("narwhals")


def pages_of(**data):
    pandas = pytest.importorskip("pandas")
    frame = opened(pandas.DataFrame(data))
    return Pages(frame, "page", "place", True, 1)


def test_pages_come_in_the_order_of_their_first_rows():
    pages = pages_of(page=["z", "a", "z", "m"], place=[3, 1, 1, 3])
    assert pages.labels.tolist() == ["z", "a", "m"]
    assert_array_equal(pages.page, [0, 1, 0, 2])
    assert_array_equal(pages.slot, [1, 0, 0, 1])
    assert_array_equal(pages.first, [0, 1, 3])
    assert (pages.n_pages, pages.n_slots, len(pages.frame)) == (3, 2, 3)
    spread = pages.spread(np.array([1.0, 2.0, 3.0, 4.0]), 0.0)
    assert_array_equal(spread, [[3, 1], [2, 0], [0, 4]])


def test_pages_are_called_by_their_names():
    pages = pages_of(page=["z", "a"], place=[1, 1])
    assert pages.called(1) == "page 'a'"
    frame = pages.rows
    assert Pages(frame, None, None, False, 1).called(1) == "row 1"
    assert Pages(frame, "page", None, False, 1).called(1) == "page 'a'"


def test_what_belongs_to_a_page_is_constant():
    pages = pages_of(page=[1, 1, 2], place=[1, 2, 1], x=[1, 1, 2], y=[1, 2, 2])
    pages.check_constant(["x"])
    with pytest.raises(ValueError, match="column 'y' changes within page 1: 1 at row"):
        pages.check_constant(["x", "y"])

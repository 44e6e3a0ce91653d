# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skope_ope.logs._frame_items import Items, Shown, item_features_of
from skope_ope.logs._frame_pages import Pages
from skope_ope.logs._frames import opened

pytestmark = pytest.mark.frames
pytest.importorskip("narwhals")
SHOWN = Shown(["b", "a", "b"], np.array([0, 0, 1]), np.array([0, 1, 1]))


@pytest.fixture
def pages():
    """Two pages of two slots."""
    pandas = pytest.importorskip("pandas")
    return Pages(opened(pandas.DataFrame({"x": [0, 1]})), None, None, False, 2)


def test_items_are_sorted(pages):
    items = Items.of(SHOWN, None, None, pages)
    assert items.labels.tolist() == ["a", "b"]
    assert_array_equal(items.slate, [[1, 0], [-1, 1]])
    assert items.candidates is None


def test_items_are_in_the_order_of_a_list(pages):
    items = Items.of(SHOWN, None, ["c", "b", "a"], pages)
    assert_array_equal(items.slate, [[1, 2], [-1, 1]])
    with pytest.raises(ValueError, match="row 0 shows 'a', which is not among"):
        Items.of(SHOWN, None, ["b"], pages)
    with pytest.raises(TypeError, match=r"lists True; items are texts"):
        Items.of(SHOWN, None, ["b", True], pages)


def test_offers_of_all_slots_and_of_one(pages):
    offered = Shown(
        ["a", "b", "b", "c"], np.array([0, 0, 1, 1]), np.array([1, 0, -1, -1])
    )
    items = Items.of(SHOWN, offered, None, pages)
    assert_array_equal(
        items.candidates,
        [
            [[False, True, False], [True, False, False]],
            [[False, True, True], [False, True, True]],
        ],
    )
    less = Shown(["b", "b"], np.array([0, 1]), np.array([-1, -1]))
    with pytest.raises(ValueError, match="row 0 shows 'a' in slot 2, which is not"):
        Items.of(SHOWN, less, None, pages)


def test_arrays_of_features_stay_as_they_are():
    features = np.zeros((2, 3))
    assert item_features_of(features, np.array(["a", "b"]), None) is features
    assert item_features_of(None, np.array(["a", "b"]), None) is None

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import warnings

import numpy as np
import pytest

from skope_ope import SlateLogs
from skope_ope.exceptions import LogsWarning
from skope_ope.logs._frame_pages import warn_of_page_reward

SLATE = np.tile([[0, 1, 2], [1, 0, -1], [2, -1, -1]], (20, 1))
BOUGHT = (np.arange(60) % 4 == 0).astype(float)


def told(slot_reward, slate=SLATE):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        warn_of_page_reward(np.where(slate < 0, 0.0, slot_reward), slate, ["bought"])
    return [str(one.message) for one in found]


def test_a_reward_of_the_page_is_seen():
    (text,) = told(BOUGHT[:, None])
    assert "the 40 pages with several items" in text
    assert text.endswith("Pass reward='bought' and no slot_reward.")


def test_what_tells_nothing_is_quiet():
    one = BOUGHT[:, None] * np.ones(3)
    one[0, 0] = 0.0  # a single slot differs
    assert not told(one)
    assert not told(0.0) and not told(1.0)
    assert not told(BOUGHT[:24, None], SLATE[:24])  # few pages with a reward
    assert not told(BOUGHT[:, None], np.where(np.arange(3) == 0, SLATE, -1))


@pytest.mark.frames
def test_from_frame_warns_at_the_line_of_the_user():
    pd = pytest.importorskip("pandas")
    pytest.importorskip("narwhals")
    page, slot = np.nonzero(SLATE >= 0)
    rows = {"page": page, "slot": slot, "item": SLATE[page, slot]}
    frame = pd.DataFrame({**rows, "bought": BOUGHT[page]})
    names = {"round": "page", "slot": "slot", "item": "item", "context": []}
    with pytest.warns(LogsWarning, match="the reward of the page") as record:
        SlateLogs.from_frame(frame, slot_reward="bought", **names)
    assert record[0].filename == __file__
    logs = SlateLogs.from_frame(frame, reward="bought", **names)
    assert logs.reward.tolist() == BOUGHT.tolist()
    wide = pd.DataFrame(SLATE, columns=["a", "b", "c"])
    wide["bought"] = BOUGHT
    wide["again"] = wide["third"] = wide["bought"]
    with pytest.warns(LogsWarning, match="the column with the reward of the page"):
        SlateLogs.from_frame(
            wide.assign(
                again=BOUGHT * (SLATE[:, 1] >= 0), third=BOUGHT * (SLATE[:, 2] >= 0)
            ),
            item=["a", "b", "c"],
            slot_reward=["bought", "again", "third"],
            context=[],
        )

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Rows that were written only for rewarded items make a page shorter."""

import warnings

import numpy as np
import pytest

from skope_ope import SlateLogs, UniformSlatePolicy
from skope_ope.datasets import make_search_frame
from skope_ope.exceptions import LogsWarning

pytest.importorskip("pandas")
pytestmark = pytest.mark.frames


@pytest.fixture(scope="module")
def tables():
    shown, results = make_search_frame(8000, random_state=0)
    return shown[shown["shuffled"] == 1], results


def read(shown, results, **changed):
    roles = {
        "round": "page",
        "slot": "position",
        "item": "doc",
        "slot_reward": "clicked",
        "context": ["query"],
        "candidates": results,
        "candidates_by": "query",
        "logging_policy": UniformSlatePolicy(n_slots=4),
    }
    return SlateLogs.from_frame(shown, **(roles | changed))


def test_a_last_slot_that_is_always_rewarded(tables):
    shown, results = tables
    lost = (shown["position"] == 4) & (shown["clicked"] == 0)
    with pytest.warns(LogsWarning, match=r"items in slot 4 have a reward, and .* Add"):
        read(shown[~lost], results)


def test_pages_that_end_with_their_reward(tables):
    shown, results = tables
    clicks = shown.groupby("page")["clicked"].cumsum() - shown["clicked"]
    with pytest.warns(LogsWarning, match=r"pages with 1 items have a reward in the l"):
        read(shown[clicks == 0], results)


def test_right_pages_are_silent(tables):
    shown, results = tables
    depth = np.random.default_rng(0).integers(1, 5, shown["page"].max() + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(shown, results)
        read(shown[shown["position"] <= depth[shown["page"]]], results)
        read(shown.assign(clicked=0), results)
        read(shown.assign(clicked=shown["clicked"] + 1), results)  # stars
        lost = (shown["position"] == 4) & (shown["clicked"] == 0)
        read(shown[~lost & (shown["page"] < 60)], results)  # few

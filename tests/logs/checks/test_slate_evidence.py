# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The algebra of the checks of slates: fair bets, and the level that evidence keeps."""

from itertools import permutations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope.logs.checks import _slate_pages
from tests.logs.checks.test_shared_pages import (
    MASKS,
    pages,
    pages_without,
    right_logs,
    short_pages,
)
from tests.logs.checks.test_slate_order import with_slates


def test_ratios_have_mean_one():
    z = np.array([0.3, -1.0, 0.0, 1.5])
    orders = np.array(list(permutations(range(4))))
    for tilt in (0.5, 3.0):
        ratio = _slate_pages._order_ratio(z[orders], np.ones((24, 4), dtype=bool), tilt)
        assert_allclose(ratio.mean(), 1)
    # of empty slots: those that are shown count
    shown = np.tile([True, False, True, False], (2, 1))
    z = np.array([[1, 0, 2, 0], [2, 0, 1, 0.0]])
    ratio = _slate_pages._order_ratio(z, shown, 1.0)
    assert_allclose(ratio, [2 / (1 + np.e), 2 * np.e / (1 + np.e)])


def test_pages_are_told_by_those_of_other_blocks():
    """The score of a page does not depend on its order, or on later blocks."""
    logs = pages(400, 12, 4, 1, 12, passed=True)
    block = _slate_pages._page_blocks(400, None)
    assert (np.bincount(block) > 20).all() and block.max() == 3
    slate = logs.slate.copy()
    slate[block >= 2] = slate[block >= 2][:, ::-1]
    scores = []
    for one in (logs.slate, slate):
        items = _slate_pages._Items(with_slates(logs, one), np.arange(400))
        scores.append(items.learned(block, np.ones(400)))
    assert_allclose(scores[1][block == 1], scores[0][block == 1])
    assert_allclose(scores[1][block == 2], scores[0][block == 2][:, ::-1])
    assert (scores[0][block == 0] == 0).all()


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("mask", MASKS)
def test_pairs_that_are_expected_of_short_pages(mask):
    """The mean over many logs of one law is the expected number of pages."""
    total = expected = 0.0
    for seed in range(200):
        logs = short_pages(60, True, 12, 0, mask)
        slate = logs.logging_policy.sample(logs, seed)
        logs = with_slates(logs, slate)
        rows, offers = _slate_pages._offers(logs, 1000)
        some = _slate_pages._Pages(logs, rows, 12)
        kept = offers.kinds[:, some.kept].astype(float)
        place = np.ix_(np.argsort(some.kept), np.argsort(some.kept))
        total = total + some.together(some.all)[place]
        expected = expected + offers.together(some, some.all, kept)[place]
    np.fill_diagonal(expected, 0)
    spread = np.sqrt(np.maximum(expected, 1))
    assert np.abs((total - expected) / spread).max() < 4.5


@pytest.mark.theory
def test_evidence_of_right_logs_keeps_its_level(monkeypatch):
    monkeypatch.setattr(_slate_pages, "ORDER_EFFECT", -1.0)
    for module in (_slate_pages, _slate_pages):
        monkeypatch.setattr(module, "SURE_OF_PAGES", np.log(20))
    finds = _slate_pages.uniform_pair_findings, _slate_pages.uniform_order_findings
    logs = map(right_logs, range(1000))
    alarms = np.array([[bool(find(one)[1]) for find in finds] for one in logs])
    assert alarms.sum(axis=0).max() <= 50


@pytest.mark.theory
def test_pairs_that_are_never_seen_keep_their_level(monkeypatch):
    """A bound of one half is kept: of right logs fewer than half have such a pair."""
    monkeypatch.setattr(_slate_pages, "SURE_OF_PAGES", -np.log(0.5))
    monkeypatch.setattr(_slate_pages, "_pair_evidence", lambda *args: ({}, []))
    alarms = [
        bool(_slate_pages.uniform_pair_findings(pages_without(n, seed=seed))[1])
        for n in (1000, 1500)
        for seed in range(200)
    ]
    assert np.mean(alarms) < 0.55


def test_many_short_pages_are_drawn_from(monkeypatch):
    logs = short_pages(500, True)
    monkeypatch.setattr(_slate_pages, "MOST_OFFERED_CELLS", 4 * 40 * 100)
    told = _slate_pages.uniform_pair_findings(logs)[0]
    assert told == {"candidates on the same page": "100 pages of 500 compared"}
    monkeypatch.setattr(_slate_pages, "MOST_OFFERED_CELLS", 4 * 40 * 1000)
    monkeypatch.setattr(_slate_pages, "MOST_WORK", 40**2 * 5)
    told = _slate_pages.uniform_pair_findings(short_pages(500))[0]
    assert told == {"candidates on the same page": "500 pages compared"}
    many = short_pages(500, True, mask="by slot")  # 72 kinds of slots
    told = _slate_pages.uniform_pair_findings(many)[0]
    assert told == {"candidates on the same page": "30 pages of 500 compared"}
    # of very many pages some are drawn
    monkeypatch.setattr(_slate_pages, "MOST_OFFERED_BYTES", 4 * 40 * 100)
    assert " of 500 compared" in str(_slate_pages.uniform_order_findings(logs)[0])

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest

from skope_ope import IndependentSlotIPS, RankingPolicy
from skope_ope.datasets import make_search_frame
from tests._search_pages import search_pages

pytest.importorskip("pandas")
pytestmark = pytest.mark.frames


def test_pages_are_those_that_the_words_describe():
    shown, results = make_search_frame(2000, random_state=0)
    by_page = shown.groupby("page")
    assert len(by_page) == 2000
    assert not by_page["doc"].apply(lambda docs: docs.duplicated().any()).any()
    slots = by_page["position"].max()
    assert (slots == by_page["device"].first().map({"desktop": 4, "phone": 3})).all()
    ranked = shown[shown["shuffled"] == 0].merge(results, on=["query", "doc"])
    falls = ranked.sort_values("position").groupby("page")["score"].diff().dropna()
    assert (falls <= 0).all()
    assert len(shown.merge(results, on=["query", "doc"])) == len(shown)


def test_truth_is_that_of_the_pages():
    shown, results, truth = make_search_frame(
        200_000, random_state=1, return_truth=True
    )
    clicks = shown.groupby("page")["clicked"].sum()
    shuffled = shown.groupby("page")["shuffled"].first() == 1
    random, ranked = clicks[shuffled], clicks[~shuffled]
    for name, some in {"random": random, "score": ranked}.items():
        error = some.std() / np.sqrt(len(some))
        assert some.mean() == pytest.approx(truth.clicks_per_page[name], abs=4 * error)
    rates = results.assign(rate=truth.click_rate)
    seen = shown.merge(rates, on=["query", "doc"])
    expected = seen["rate"] * truth.attention[seen["position"] - 1]
    assert seen["clicked"].sum() == pytest.approx(expected.sum(), rel=0.02)


def test_seeds_draw_other_pages_of_the_same_world():
    one, same, other = (make_search_frame(50, random_state=k) for k in (3, 3, 4))
    assert one[0].equals(same[0])
    assert not one[0].equals(other[0])
    assert one[1].equals(other[1])


def test_intervals_cover_the_truth():
    covered = 0
    for seed in range(20):
        shown, results, truth = make_search_frame(
            3000, random_state=seed, return_truth=True
        )
        evaluator = IndependentSlotIPS().fit(search_pages(shown, results))
        value = evaluator.evaluate(RankingPolicy("new_score", n_slots=4))
        low, high = value.confidence_interval()
        covered += low <= truth.clicks_per_page["new_score"] <= high
    assert covered >= 17


def test_a_page_is_needed():
    with pytest.raises(ValueError, match="n_rounds"):
        make_search_frame(0)

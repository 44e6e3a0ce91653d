# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Reports about slates: which weights they judge, and what they warn of."""

import warnings

import pytest

from skope_ope import RankingPolicy, report
from skope_ope.datasets import make_search_frame
from tests._search_pages import search_pages

pytest.importorskip("pandas")
pytestmark = pytest.mark.frames


@pytest.fixture(scope="module")
def decision():
    pages = search_pages(*make_search_frame(28_000, random_state=0))
    names = {"new": "new_score", "in use": "score"}
    rankings = {name: RankingPolicy(score, n_slots=4) for name, score in names.items()}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = report(rankings, pages, baseline="in use")
    return found, caught


def test_weights_that_nobody_uses_are_no_doubt(decision):
    """Few whole pages agree with a ranking; the evaluator weights their slots."""
    found, _ = decision
    low = [one for one in found.audits["in use"].alarms if "slates" in one.found]
    assert low  # SlateIPS would rest on few pages
    assert found.decision == "deploy" and found.alarms == ()


def test_warnings_are_those_of_the_evaluator_that_decides(decision):
    found, caught = decision
    assert found.values["in use", "SlateIPS"].warnings
    assert caught == []
    assert f"effective rounds of {found.comparison.n_rounds}" in found.to_html()

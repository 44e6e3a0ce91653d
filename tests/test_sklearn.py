# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import re
from importlib.metadata import Distribution, PackageNotFoundError
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.ensemble import BaggingClassifier, BaggingRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import skope_ope
import skope_ope as ope
from skope_ope._sklearn import is_search
from skope_ope.datasets import make_slate_logs

DOCS_URL = "SKOPE_OPE_DOCS_URL"
LOGS = ope.BanditLogs(
    np.zeros((60, 1)), np.arange(60) % 2, np.arange(60) % 3 / 2, np.full(60, 0.5)
)
SLATES = make_slate_logs(60, random_state=0)


def test_all_estimators_lead_to_our_pages():
    named = [getattr(skope_ope, name) for name in skope_ope.__all__]
    classes = [one for one in named if isinstance(one, type)]
    ours = [one for one in classes if issubclass(one, BaseEstimator)]
    assert len(ours) > 50
    assert {one._doc_link_module for one in ours} == {"skope_ope"}


def links(html):
    return re.findall(r'href="([^"]*)"', html)


def test_links_lead_to_our_pages(monkeypatch):
    monkeypatch.setenv(DOCS_URL, "https://example.org/ope{1}/")
    page = "https://example.org/ope{1}/generated/skope_ope.IPS.html"
    assert ope.IPS()._get_doc_link() == page
    found = links(make_pipeline(ope.PropensityClipper(), ope.IPS())._repr_html_())
    ours = [url for url in found if "skope_ope" in url]
    assert any(url.startswith(page) for url in ours)
    assert all(url.startswith("https://example.org/") for url in ours)
    # without an address there is no link
    monkeypatch.setenv(DOCS_URL, "")
    assert ope.IPS()._get_doc_link() == ""
    assert not [url for url in links(ope.IPS()._repr_html_()) if "skope_ope" in url]
    assert "sklearn" in Ridge()._get_doc_link() or "scikit" in Ridge()._get_doc_link()


def test_the_address_of_the_package(monkeypatch):
    def stated(urls):
        metadata = SimpleNamespace(get_all=urls.__getitem__)
        return SimpleNamespace(metadata=metadata)

    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.delenv(DOCS_URL, raising=False)
    urls = ["Source, https://a.org", "Documentation, https://example.org/docs/"]
    page = "https://example.org/docs/generated/skope_ope.IPS.html"
    for known, address in ((urls, page), (None, "")):
        found = stated({"Project-URL": known})
        monkeypatch.setattr(Distribution, "from_name", lambda _, found=found: found)
        assert ope.IPS()._get_doc_link() == address
    monkeypatch.setattr(Distribution, "from_name", missing)
    assert ope.IPS()._get_doc_link() == ""


def fitted():
    static = (
        ope.IPS,
        ope.DirectMethod,
        ope.DoublyRobust,
        ope.SNDR,
        ope.SwitchDR,
        ope.MRDR,
    )
    for one in (*static, ope.DRns, ope.AdaptiveDR, ope.MultiLoggerDR):
        yield one().fit(LOGS)
    yield ope.AdaptiveDR(reward_model=Ridge()).fit(LOGS)
    for one in (
        ope.SlateDirectMethod,
        ope.SlateDoublyRobust,
        ope.CascadeDR,
        ope.PseudoInverse,
    ):
        yield one().fit(SLATES)
    frozen = ope.ActionRewardModel(Ridge()).fit(LOGS)
    yield ope.DoublyRobust(reward_model=frozen, cv="prefit").fit(LOGS)


def test_fitted_evaluators_show_no_address():
    for evaluator in fitted():
        for value in vars(evaluator).values():
            assert " object at 0x" not in repr(value)
        assert " object at 0x" not in evaluator._repr_html_()


def test_reward_models_tell_what_they_are():
    for model, text in (
        (Ridge(), "Ridge(), cross-fitted in 5 folds"),
        (None, "mean reward of every action, cross-fitted in 5 folds"),
        (0.25, "0.25 everywhere"),
        (np.zeros((60, 2)), "array of shape (60, 2)"),
    ):
        fitted = ope.DoublyRobust(reward_model=model).fit(LOGS)
        assert repr(fitted.reward_model_) == text


def test_what_fits_clones_of_an_estimator_is_not_always_a_search():
    scorer = ope.EvaluatorScorer(ope.UniformPolicy())
    ours = ope.OPESearchCV(ope.IPS(), {}, scoring=scorer)
    found = SimpleNamespace(best_estimator_=ope.IPS())  # whatever it derives from
    for search in (GridSearchCV(ope.IPS(), {}), ours, found):
        assert is_search(search)
    assert not is_search(BaggingClassifier())
    with pytest.raises(TypeError, match=r"got the BaggingRegressor\."):
        ope.EvaluatorScorer(ope.UniformPolicy(), BaggingRegressor(ope.DoublyRobust()))

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What every evaluator shares; test_common.py holds each of them to it."""

import warnings

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.utils import Tags, get_tags
from sklearn.utils.metadata_routing import get_routing_for_object

from skope_ope import IPS, BanditLogs, DirectMethod, DoublyRobust, UniformPolicy
from skope_ope.base import BaseEvaluator, EvaluatorTags
from skope_ope.exceptions import OPEWarning
from tests._values import stated_value

N = 60
RNG = np.random.RandomState(0)
LOGS = BanditLogs(
    RNG.normal(size=(N, 3)),
    np.array(["a", "b"])[np.arange(N) % 2],
    RNG.random_sample(N),
    np.full(N, 0.5),
)


class MeanReward(BaseEvaluator):
    """The least that a subclass must write."""

    def _evaluate(self, policy, logs, sample_weight):
        warning = OPEWarning("the policy is ignored", 1.0)
        value = float(np.average(logs.reward, weights=sample_weight))
        return stated_value(value, 0.1, len(logs), estimator="mean", warnings=[warning])


def test_a_subclass_writes_one_method():
    fitted = MeanReward().fit(LOGS)
    with pytest.warns(OPEWarning, match="the policy is ignored") as caught:
        result = fitted.evaluate(UniformPolicy())
    assert result.value == pytest.approx(LOGS.reward.mean())
    assert caught[0].filename == __file__
    with pytest.warns(OPEWarning):
        assert fitted.score(None, LOGS[:5]) == pytest.approx(LOGS.reward[:5].mean())
    with pytest.warns(OPEWarning):
        weighted = fitted.score(None, sample_weight=np.arange(N))
    assert weighted == pytest.approx(np.average(LOGS.reward, weights=np.arange(N)))


def test_fit_sets_what_it_learned():
    fitted = IPS().fit(LOGS)
    assert fitted.logs_ is LOGS
    assert fitted.actions_.tolist() == ["a", "b"]
    assert fitted.n_actions_ == 2
    assert fitted.n_features_in_ == 3
    assert not hasattr(clone(fitted), "logs_")
    with pytest.raises(NotFittedError):
        clone(fitted).score(UniformPolicy())


def test_parameters_are_validated_in_fit_not_before():
    evaluator = IPS(cmax="large")
    with pytest.raises(ValueError, match="'cmax' parameter of IPS must be a float"):
        evaluator.fit(LOGS)


def test_tags():
    tags = get_tags(DoublyRobust())
    assert isinstance(tags, EvaluatorTags)
    assert isinstance(tags, Tags)
    assert tags.estimator_type == "policy_evaluator"
    assert tags.handles == ("bandit",)
    assert tags.needs_propensity
    assert tags.needs_reward_model
    assert not tags.order_dependent
    assert not get_tags(IPS()).needs_reward_model
    assert not get_tags(DirectMethod()).needs_propensity


def test_logs_and_policies_are_no_metadata():
    with config_context(enable_metadata_routing=True):
        requests = get_routing_for_object(DoublyRobust())
        assert requests.fit.requests == {}
        assert set(requests.score.requests) == {"sample_weight"}
        assert not hasattr(DoublyRobust(), "set_fit_request")


def test_evaluators_without_a_model_ignore_one():
    fitted = IPS().fit(LOGS, Ridge())
    assert fitted.score(UniformPolicy()) == IPS().fit(LOGS).score(UniformPolicy())


def test_a_model_may_be_given_to_fit_or_to_the_constructor():
    first = DoublyRobust(reward_model=Ridge(), cv=3).fit(LOGS)
    second = DoublyRobust(cv=3).fit(LOGS, Ridge())
    assert first.score(UniformPolicy()) == second.score(UniformPolicy())
    assert second.reward_model is None  # fit does not write to parameters
    with pytest.raises(ValueError, match="constructor and to fit; give it once"):
        first.fit(LOGS, Ridge())


def test_a_refit_forgets_the_logs_before():
    evaluator = DoublyRobust().fit(LOGS)
    evaluator.fit(LOGS[:20])
    expected = DoublyRobust().fit(LOGS[:20]).score(UniformPolicy())
    assert evaluator.score(UniformPolicy()) == expected


def test_a_warning_is_given_for_every_evaluation():
    fitted = DirectMethod().fit(LOGS, 0.5)
    for _ in range(2):
        with pytest.warns(OPEWarning):
            fitted.evaluate(UniformPolicy())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)
        assert len(fitted.evaluate(UniformPolicy()).warnings) == 1  # they are kept


def test_html():
    html = IPS(cmax=2.0).fit(LOGS)._repr_html_()
    assert "cmax" in html
    assert len(html) < 100_000

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
import warnings

import joblib
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge

from skope_ope import (
    IPS,
    MRDR,
    SNDR,
    SNIPS,
    BanditLogs,
    ConstantPolicy,
    DirectMethod,
    DoublyRobust,
    DRos,
    FunctionPolicy,
    SwitchDR,
    UniformPolicy,
)
from skope_ope.base import BaseEvaluator
from skope_ope.exceptions import OPEWarning
from tests._quiet import quiet
from tests._values import stated_value
from tests.evaluators.core._asked import quietly

N = 60
RNG = np.random.RandomState(0)
ROWS = RNG.normal(size=(N, 3)), list("ab") * (N // 2), RNG.random_sample(N)
LOGS = BanditLogs(*ROWS, np.full(N, 0.5))


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
    omega = np.arange(N)
    for given, expected in (
        ({"logs": LOGS[:5]}, LOGS.reward[:5].mean()),
        ({"sample_weight": omega}, np.average(LOGS.reward, weights=omega)),
    ):
        with pytest.warns(OPEWarning):
            assert fitted.score(None, **given) == pytest.approx(expected)


def test_fit_sets_what_it_learned_and_forgets_what_was():
    fitted = IPS().fit(LOGS)
    assert fitted.logs_ is LOGS
    assert fitted.actions_.tolist() == ["a", "b"]
    assert (fitted.n_actions_, fitted.n_features_in_) == (2, 3)
    assert not hasattr(clone(fitted), "logs_")
    with pytest.raises(NotFittedError):
        clone(fitted).score(UniformPolicy())
    fitted.left_over_ = 1
    assert not hasattr(fitted.fit(LOGS[:20]), "left_over_")
    again = DoublyRobust().fit(LOGS).fit(LOGS[:20])
    assert value_of(again) == value_of(DoublyRobust().fit(LOGS[:20]))


def test_a_model_may_be_given_to_fit_or_to_the_constructor():
    first = DoublyRobust(reward_model=Ridge(), cv=3).fit(LOGS)
    second = DoublyRobust(cv=3).fit(LOGS, Ridge())
    assert value_of(first) == value_of(second)
    assert second.reward_model is None  # fit does not write to parameters
    with pytest.raises(ValueError, match="constructor and to fit; give it once"):
        first.fit(LOGS, Ridge())
    # what needs none ignores it
    assert value_of(IPS().fit(LOGS, Ridge())) == value_of(IPS().fit(LOGS))


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
def test_only_fit_changes_a_fitted_evaluator():
    for evaluator in (
        IPS(),
        IPS(cmax="auto"),
        SNIPS(),
        DoublyRobust(cmax="auto", cv=3),
        SwitchDR(tau="auto"),
        DRos(lam="auto"),
        MRDR(),
        DirectMethod(reward_model=Ridge()),
    ):
        fitted = evaluator.fit(LOGS)
        before = joblib.hash(fitted), vars(fitted).keys()
        result = fitted.evaluate(UniformPolicy())
        fitted.score(UniformPolicy(), LOGS[:30], np.arange(30))
        dict(result.diagnostics)
        assert len(result.round_values) == N
        assert (joblib.hash(fitted), vars(fitted).keys()) == before


class Raises(Ridge):
    """A model that cannot learn from many rounds."""

    def fit(self, X, y, sample_weight=None):
        if len(X) > 10:  # of one action, in a fold
            raise RuntimeError("too many rounds")
        return super().fit(X, y, sample_weight)


@pytest.mark.parametrize("cls", [DoublyRobust, DirectMethod, SNDR])
def test_an_interrupted_refit_leaves_the_old_one_whole(cls):
    evaluator = cls(reward_model=Raises(), cv=2)
    with pytest.raises(RuntimeError, match="too many rounds"):
        evaluator.fit(LOGS)
    with pytest.raises(NotFittedError):
        evaluator.score(UniformPolicy())
    evaluator.fit(LOGS[:30])
    before = dict(vars(evaluator))
    value = value_of(evaluator)
    with pytest.raises(RuntimeError, match="too many rounds"):
        evaluator.fit(LOGS)
    assert all(vars(evaluator)[name] is old for name, old in before.items())
    assert value_of(evaluator) == value


def value_of(evaluator):
    return quiet(evaluator, UniformPolicy()).value


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
    assert "cmax" in html and len(html) < 100_000


# -- what stands for a policy ---------------------------------------------------------
PI = RNG.dirichlet(np.ones(2), N)
WITH_PI = LOGS.with_columns(pi=PI, logged=PI[np.arange(N), LOGS.action_index])


def rows_of_pi(X):
    return PI[[np.flatnonzero(LOGS.context[:, 0] == x)[0] for x in X[:, 0]]]


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
def test_what_stands_for_a_policy():
    fitted, single = IPS().fit(WITH_PI), PI.astype(np.float32)
    expected = fitted.evaluate(PI).round_values
    for policy in (
        "pi",
        PI.tolist(),
        sparse.csr_matrix(PI),
        FunctionPolicy(rows_of_pi),
        FrozenEstimator(FunctionPolicy(rows_of_pi)),
        WITH_PI.columns["logged"],
        "logged",
    ):
        assert_array_equal(fitted.evaluate(policy).round_values, expected)
    found, expected = (fitted.evaluate(pi) for pi in (single, single.astype(float)))
    assert_array_equal(found.round_values, expected.round_values)


def test_columns_and_logged_probabilities_alone():
    fitted = IPS().fit(WITH_PI)
    whole, logged = (quiet(fitted, name) for name in ("pi", "logged"))
    assert whole.diagnostics["unsupported_mass"] == 0
    assert np.isnan(logged.diagnostics["unsupported_mass"])
    part = quiet(fitted, "pi", WITH_PI[3:7])
    assert part.value == pytest.approx(whole.round_values[3:7].mean())


def test_policies_follow_the_actions_of_the_logs():
    fitted = SNIPS().fit(LOGS)
    assert value_of(fitted) == pytest.approx(LOGS.reward.mean())
    taken = LOGS.reward[LOGS.action == "b"].mean()
    assert fitted.score(ConstantPolicy("b")) == pytest.approx(taken)
    with pytest.raises(TypeError, match="a policy is expected, got BanditLogs"):
        fitted.evaluate(LOGS)
    with pytest.raises(ValueError, match="60 rounds and 2 actions"):
        fitted.evaluate(PI[:5])


# -- sample weights -------------------------------------------------------------------
def test_sample_weights_are_multiplied():
    a, b = np.arange(1.0, N + 1), np.linspace(2.0, 1.0, N)
    w = 2 * PI[np.arange(N), LOGS.action_index] * LOGS.reward

    def found(own=None, given=None):
        fitted = IPS().fit(LOGS.replace(sample_weight=own))
        return quietly(fitted.evaluate, PI, sample_weight=given)

    for own, given, omega in ((None, a, a), (a, None, a), (a, b, a * b)):
        expected = np.average(w, weights=omega)
        assert found(own, given).value == pytest.approx(expected, rel=1e-12)
    plain = found()
    for own, given in ((None, np.full(N, 3.0)), (a, 1 / a)):  # equal: no matter
        one = found(own, given)
        assert (one.value, one.standard_error) == (plain.value, plain.standard_error)


def test_sample_weights_that_leave_no_round():
    logs = LOGS.replace(sample_weight=1.0 * (np.arange(N) < 9))
    with pytest.raises(ValueError, match="is zero in every round: no round counts"):
        IPS().fit(logs).evaluate(UniformPolicy(), sample_weight=np.arange(N) >= 9)

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Loggers that cannot be used, or not as they are."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import IPS, BanditLogs, EpsilonGreedy, MultiLoggerIPS
from skope_ope.exceptions import (
    LoggerWarning,
    LowOverlapWarning,
    PropensityWarning,
    SupportWarning,
)
from tests.evaluators.multi_logger._logs import POOLINGS, several, without_support
from tests.evaluators.multi_logger._toy import toy_logs


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():  # of four rounds
        warnings.simplefilter("ignore", LowOverlapWarning)
        warnings.simplefilter("ignore", PropensityWarning)
        yield


def test_a_logger_without_rounds():
    logs, pi = several()
    rows = np.flatnonzero(logs.logger != 1)
    part = logs[rows]
    assert len(part.loggers) == 3
    two = BanditLogs(
        part.context,
        part.action,
        part.reward,
        actions=range(4),
        logger=part.logger,
        logger_proba=part.logger_proba[:, [0, 2]],
    )
    for pooling in POOLINGS:
        evaluator = MultiLoggerIPS(pooling=pooling)
        found, expected = (evaluator.fit(x).evaluate(pi[rows]) for x in (part, two))
        assert found.value == expected.value
        assert found.diagnostics["logger_rounds"] == {
            0: int((part.logger == 0).sum()),
            2: int((part.logger == 2).sum()),
        }
    oracle = MultiLoggerIPS(pooling="weighted", divergences=[1.0, 7.0, 3.0])
    expected = MultiLoggerIPS(pooling="weighted", divergences={0: 1.0, 2: 3.0})
    assert oracle.fit(part).score(pi[rows]) == expected.fit(two).score(pi[rows])
    alone = logs[np.flatnonzero(logs.logger == 1)].replace(logger_proba=None)
    pi = pi[np.flatnonzero(logs.logger == 1)]
    for pooling in POOLINGS:  # one is left: nothing to pool
        assert_allclose(
            MultiLoggerIPS(pooling=pooling).fit(alone).score(pi),
            IPS().fit(alone).score(pi),
        )


@pytest.mark.parametrize(
    "params", [{"pooling": "balanced"}, {"pooling": "weighted"}], ids=str
)
def test_unknown_probabilities_of_the_others(params):
    logs, pi = several()
    blind = logs.replace(logger_proba=None)
    with pytest.raises(ValueError, match="with_logger_policies"):
        MultiLoggerIPS(**params).fit(blind)
    with pytest.raises(ValueError, match=r"under all loggers.*LoggerPropensity"):
        MultiLoggerIPS(**params).fit(logs).evaluate(pi, blind)
    MultiLoggerIPS().fit(blind).evaluate(pi)
    MultiLoggerIPS(pooling="weighted", divergences="per_logger").fit(blind).score(pi)


def test_contradictions_are_refused_by_the_logs():
    logs, _ = several(n=6)
    with pytest.raises(ValueError, match=r"propensity .* at row 0 contradicts logger_"):
        several(n=6, propensity=np.full(6, 1e-3))
    bad = np.array(logs.logger_proba)
    bad[4] = np.nan
    with pytest.raises(ValueError, match=r"logger_proba must be finite.*row 4"):
        several(n=6, logger_proba=bad)


def test_no_logger_could_have_acted():
    logs, pi = several()
    proba = np.array(logs.logger_proba)
    proba[7] = 0
    with pytest.raises(ValueError, match="at row 7 contradicts logger_proba"):
        logs.replace(logger_proba=proba)
    tiny = np.where(np.arange(300) == 7, 1e-9, logs.propensity)  # 0 but for rounding
    broken = logs.replace(propensity=tiny).replace(logger_proba=proba)
    with pytest.raises(ValueError, match="logger_proba is 0 for every logger at row 7"):
        MultiLoggerIPS(pooling="balanced").fit(broken).score(pi)


def test_zero_divergence_is_raised_with_a_warning():
    logs, pi = toy_logs([(0, 0, 1), (0, 1, 0), (1, 0, 0), (1, 1, 0)])
    evaluator = MultiLoggerIPS(pooling="weighted", divergences="per_logger").fit(logs)
    with pytest.warns(LoggerWarning, match="logger 0 are all equal") as caught:
        result = evaluator.evaluate(pi)
    assert [w.message.value for w in caught if w.category is LoggerWarning] == [0.0]
    divergences = result.diagnostics["logger_divergences"]
    assert_allclose(divergences[0], 1e-12 * divergences[1])
    with pytest.warns(LoggerWarning, match="divergence given for logger 0 is 0 and"):
        MultiLoggerIPS(pooling="weighted", divergences=[0.0, 1.0]).fit(logs).score(pi)


def test_equal_terms_of_all_loggers_need_no_choice():
    logs, pi = several()
    zero = logs.replace(reward=np.zeros(300))
    for divergences in ("pooled", "per_logger"):
        evaluator = MultiLoggerIPS(pooling="weighted", divergences=divergences)
        result = evaluator.fit(zero).evaluate(pi)
        assert result.value == result.standard_error == 0
        assert not any(isinstance(w, LoggerWarning) for w in result.warnings)


@pytest.mark.parametrize(
    ("divergences", "match"),
    [
        ([1.0, 2.0], "a number per logger"),
        ([1.0, -2.0, 3.0], "must not be negative, got -2 for logger 1"),
        ([1.0, np.nan, 3.0], "must not be negative, got nan for logger 1"),
        (["a", "b", "c"], "a number per logger"),
        ({0: 1.0, 1: 2.0}, "must name every logger"),
        ({0: 1.0, 1: 2.0, 2: 1.0, 9: 1.0}, "must name every logger"),
    ],
)
def test_given_divergences_are_checked(divergences, match):
    logs, pi = several()
    evaluator = MultiLoggerIPS(pooling="weighted", divergences=divergences).fit(logs)
    with pytest.raises(ValueError, match=match):
        evaluator.score(pi)


def test_an_array_of_divergences_belongs_to_the_loggers_of_fit():
    logs, pi = several(logger=np.array(["a", "b", "c"] * 100))
    evaluator = MultiLoggerIPS(pooling="weighted", divergences=[1.0, 2.0, 5.0]).fit(
        logs
    )

    def built(rows, names):
        part = logs[rows]
        labels = [names[label] for label in part.logger]
        order = [list("abc").index(k) for k in sorted(names, key=names.get)]
        return BanditLogs(
            part.context,
            part.action,
            part.reward,
            actions=range(4),
            logger=labels,
            logger_proba=part.logger_proba[:, order],
        )

    rows = np.flatnonzero(logs.logger != "b")
    same = dict(zip("ac", "ac", strict=True))
    expected = MultiLoggerIPS(pooling="weighted", divergences={"a": 1.0, "c": 5.0})
    assert_allclose(
        evaluator.score(pi[rows], built(rows, same)),
        expected.fit(built(rows, same)).score(pi[rows]),
        rtol=1e-12,
    )
    renamed = built(np.arange(300), {"a": "z", "b": "b", "c": "c"})
    with pytest.raises(ValueError, match=r"of fit \(\['a', 'b', 'c'\]\).*include 'z'"):
        evaluator.score(pi, renamed)


def test_all_loggers_dropped_is_nan_with_a_warning():
    logs, pi = several()
    evaluator = MultiLoggerIPS(pooling="weighted", divergences=[np.inf] * 3).fit(logs)
    with pytest.warns(SupportWarning, match="cannot form an estimate"):
        result = evaluator.evaluate(pi)
    assert np.isnan(result.value)


def test_a_policy_that_learns_is_refused():
    logs, _ = several()
    with pytest.raises(TypeError, match=r"MultiLoggerIPS evaluates stationary"):
        MultiLoggerIPS().fit(logs).evaluate(EpsilonGreedy())


@pytest.mark.parametrize(
    "fields",
    [{}, {"logging_proba": None}, {"logging_proba": None, "logger_proba": None}],
    ids=["whole distribution", "logger_proba", "propensity alone"],
)
def test_support_is_asked_of_every_logger(fields):
    logs, pi = without_support(**fields)
    with pytest.warns(SupportWarning, match="logger 1 never took") as caught:
        result = MultiLoggerIPS(pooling="naive").fit(logs).evaluate(pi)
    [mass] = [w.message.value for w in caught if w.category is SupportWarning]
    lost = result.diagnostics["logger_unsupported_mass"]
    assert lost[0] == 0
    assert lost[1] == mass
    if fields.get("logging_proba", 1) is None and "logger_proba" not in fields:
        assert_allclose(mass, 0.3, atol=0.1)  # from the rounds of the other logger
    else:
        assert_allclose(mass, 0.3)
    assert_allclose(result.diagnostics["unsupported_mass"], mass / 2)


def test_what_a_logger_misses_is_at_most_all():
    """Few rounds of logger 0 carry large weights: their sum says 150%."""
    action = np.r_[1, 1, 1, np.zeros(997, int)]
    mu = np.array([[0.8, 0.2], [1.0, 0.0]])
    logs = BanditLogs(
        np.zeros((1000, 1)),
        action,
        np.ones(1000),
        logger=np.r_[[0] * 10, [1] * 990],
        logger_proba=mu[:, action].T,
    )
    with pytest.warns(SupportWarning, match="gives 100.00% of its prob") as caught:
        result = MultiLoggerIPS().fit(logs).evaluate(np.tile([0.0, 1.0], (1000, 1)))
    assert len([w for w in caught if w.category is SupportWarning]) == 1
    assert_allclose(result.value, 3 / 0.2 / 1000)
    assert result.diagnostics["logger_unsupported_mass"] == {0: 0.0, 1: 1.0}
    # half of the wishes that the weights tell of are for what logger 1 cannot do
    with pytest.warns(SupportWarning, match="logger 1 never took"):
        result = MultiLoggerIPS().fit(logs).evaluate(np.tile([0.5, 0.5], (1000, 1)))
    b = 0.5 / np.where(action == 1, 0.01 * 0.2, 0.01 * 0.8 + 0.99)
    lost = result.diagnostics["logger_unsupported_mass"][1]
    assert_allclose(lost, b[:3].sum() / b.sum())


def test_support_of_the_mixture_is_enough_for_balanced():
    logs, pi = without_support()
    result = MultiLoggerIPS(pooling="balanced").fit(logs).evaluate(pi)
    assert not any(isinstance(w, SupportWarning) for w in result.warnings)
    # a weighted estimate leaves out whom it does not trust
    dropped = MultiLoggerIPS(pooling="weighted", divergences=[1.0, np.inf]).fit(logs)
    assert not any(isinstance(w, SupportWarning) for w in dropped.evaluate(pi).warnings)
    pooled = MultiLoggerIPS(pooling="weighted").fit(logs).evaluate(pi)
    assert pooled.diagnostics["logger_divergences"][1] == np.inf
    assert pooled.diagnostics["logger_shares"] == {0: 1.0, 1: 0.0}
    first = logs[np.flatnonzero(logs.logger == 0)]
    assert_allclose(pooled.value, IPS().fit(first).score(pi[:200]), rtol=1e-12)
    assert_allclose(pooled.value, dropped.score(pi), rtol=1e-12)


def test_an_action_of_nobody_warns_for_the_mixture():
    logs, _ = without_support(actions=range(4), logging_proba=None)
    pi = np.tile([0.3, 0.4, 0.2, 0.1], (400, 1))
    with pytest.warns(SupportWarning) as caught:
        MultiLoggerIPS(pooling="balanced").fit(logs).evaluate(pi)
    masses = [w.message.value for w in caught if w.category is SupportWarning]
    assert masses == pytest.approx([0.1])
    never = np.tile([0.0, 0.0, 0.0, 1.0], (400, 1))
    with pytest.warns(SupportWarning):
        assert np.isnan(MultiLoggerIPS(pooling="balanced").fit(logs).score(never))

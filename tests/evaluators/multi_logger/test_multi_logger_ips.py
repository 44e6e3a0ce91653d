# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags

from skope_ope import (
    IPS,
    SNIPS,
    BanditLogs,
    MultiLoggerDR,
    MultiLoggerIPS,
    PropensityClipper,
    evaluate,
)
from skope_ope.evaluators import pooling_variance_ratio
from skope_ope.exceptions import LowOverlapWarning, PropensityWarning
from tests.evaluators.multi_logger._logs import POOLINGS, several
from tests.evaluators.multi_logger._toy import ml4


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():  # of four rounds
        warnings.simplefilter("ignore", LowOverlapWarning)
        warnings.simplefilter("ignore", PropensityWarning)
        yield


# -- the paper's numbers --------------------------------------------------------------
@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, 14.5069444444),
        ({"pooling": "balanced"}, 11.0202020202),
        ({"pooling": "weighted", "divergences": (252.81, 4.2711111111)}, 9.0755641324),
        ({"pooling": "weighted"}, 8.9479069237),
        ({"self_normalized": True}, 9.6267281106),
        ({"self_normalized": True, "pooling": "balanced"}, 9.1680672269),
        (
            {
                "self_normalized": True,
                "pooling": "weighted",
                "divergences": (252.81, 4.2711111111),
            },
            9.9794479045,
        ),
    ],
)
def test_four_rows(params, expected):
    logs, pi = ml4()
    assert_allclose(MultiLoggerIPS(**params).fit(logs).score(pi), expected, rtol=1e-9)


# -- one logger, names, order ---------------------------------------------------------
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("normalized", [False, True])
def test_a_single_logger(pooling, normalized, named):
    logs, pi = several(m=1)
    if not named:
        logs = BanditLogs(
            logs.context, logs.action, logs.reward, logs.propensity, actions=range(4)
        )
    found = MultiLoggerIPS(pooling=pooling, self_normalized=normalized).fit(logs)
    found, expected = found.evaluate(pi), (SNIPS() if normalized else IPS()).fit(logs)
    expected = expected.evaluate(pi)
    assert_allclose(found.value, expected.value, rtol=1e-12)
    assert_allclose(found.standard_error, expected.standard_error, rtol=1e-12)
    assert_allclose(found.round_values, expected.round_values, rtol=1e-9)
    assert found.confidence_interval() == pytest.approx(expected.confidence_interval())
    assert_allclose(found.effective_sample_size, expected.effective_sample_size)


def textbook(logs, pi, pooling, divergences):
    """Value and stratified standard error, with loops over the loggers."""
    i, n = np.arange(len(logs)), len(logs)
    target, codes = pi[i, logs.action_index], logs.logger_index
    sizes = np.bincount(codes)
    if pooling == "balanced":
        terms = target / (logs.logger_proba @ (sizes / n)) * logs.reward
    else:
        terms = target / logs.propensity * logs.reward
    lam = np.full(len(sizes), 1 / n)
    if pooling == "weighted":
        lam = 1 / np.asarray(divergences)
        lam /= sizes @ lam
    value = variance = 0.0
    for k, size in enumerate(sizes):
        own = terms[codes == k]
        value += lam[k] * own.sum()
        variance += lam[k] ** 2 * size * own.var(ddof=1)
    return value, np.sqrt(variance)


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("m", [2, 3, 12])
def test_against_loops(pooling, m, global_random_seed):
    logs, pi = several(m=m, seed=global_random_seed)
    given = np.linspace(1, 4, m)
    evaluator = MultiLoggerIPS(pooling=pooling, divergences=dict(enumerate(given)))
    result = evaluator.fit(logs).evaluate(pi)
    value, error = textbook(logs, pi, pooling, given)
    assert_allclose(result.value, value, rtol=1e-12)
    assert_allclose(result.standard_error, error, rtol=1e-10)
    z = result.round_values
    assert_allclose(z.mean(), value, rtol=1e-12)
    assert_allclose(z.std(ddof=1) / np.sqrt(len(z)), error, rtol=1e-10)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_difference_is_paired_within_loggers(pooling):
    logs, pi = several()
    other = np.roll(pi, 1, axis=1)
    fitted = MultiLoggerIPS(pooling=pooling, divergences=[1.0, 2.0, 5.0]).fit(logs)
    a, b = fitted.evaluate(pi), fitted.evaluate(other)
    assert_allclose((a - b).value, a.value - b.value)
    # the same difference as one estimate: IPS is linear in the policy
    sizes, codes = np.bincount(logs.logger_index), logs.logger_index
    share = sizes / len(logs)
    p = logs.propensity if pooling != "balanced" else logs.logger_proba @ share
    t = (pi - other)[np.arange(300), logs.action_index] / p * logs.reward
    lam = np.full(3, 1 / 300)
    if pooling == "weighted":
        lam = np.array([1, 0.5, 0.2]) / (sizes @ np.array([1, 0.5, 0.2]))
    variance = sum(lam[k] ** 2 * sizes[k] * t[codes == k].var(ddof=1) for k in range(3))
    assert_allclose((a - b).standard_error, np.sqrt(variance), rtol=1e-9)


@pytest.mark.parametrize("params", [{}, {"self_normalized": True}])
@pytest.mark.parametrize("pooling", POOLINGS)
def test_laws_with_several_loggers(pooling, params):
    logs, pi = several(seed=1)
    evaluator = MultiLoggerIPS(pooling=pooling, **params)
    expected = evaluator.fit(logs).evaluate(pi)
    assert_allclose(
        expected.round_values.std(ddof=1) / np.sqrt(300), expected.standard_error
    )
    order = np.random.RandomState(0).permutation(300)
    found = evaluator.fit(logs[order]).evaluate(pi[order])
    assert_allclose(found.value, expected.value, rtol=1e-12)
    assert_allclose(found.round_values, expected.round_values[order], rtol=1e-9)
    times = np.random.RandomState(1).randint(0, 4, 300)
    rows = np.repeat(np.arange(300), times)
    repeated = evaluator.fit(logs[rows]).score(pi[rows])
    assert_allclose(
        evaluator.fit(logs).score(pi, sample_weight=times), repeated, rtol=1e-10
    )
    weighted = evaluator.fit(logs).evaluate(pi, sample_weight=times + 0.5)
    z = weighted.round_values
    assert_allclose(z.mean(), weighted.value, rtol=1e-12)
    assert_allclose(z.std(ddof=1) / np.sqrt(300), weighted.standard_error, rtol=1e-9)
    tripled = evaluator.fit(logs.replace(reward=3 * logs.reward)).evaluate(pi)
    assert_allclose(tripled.value, 3 * expected.value, rtol=1e-10)
    if get_tags(evaluator).shift_equivariant:
        for shift in (2.0, 1e7):
            moved = evaluator.fit(logs.replace(reward=logs.reward + shift)).evaluate(pi)
            assert_allclose(moved.value - shift, expected.value, rtol=1e-7)
            assert_allclose(moved.standard_error, expected.standard_error, rtol=1e-6)
    stored = pickle.loads(pickle.dumps(expected))
    assert_array_equal(stored.round_values, expected.round_values)
    assert stored.diagnostics["logger_shares"] == expected.diagnostics["logger_shares"]


def test_the_mixture_of_the_loggers_is_worth_the_mean_reward():
    rng = np.random.RandomState(0)
    mu = rng.dirichlet(np.ones(3), 2)
    logger = np.arange(100) % 2
    action = rng.randint(0, 3, 100)
    logs = BanditLogs(
        np.zeros((100, 1)),
        action,
        rng.random_sample(100),
        actions=range(3),
        logger=logger,
        logger_proba=mu[:, action].T,
    )
    mixture = np.tile(mu.mean(axis=0), (100, 1))
    result = MultiLoggerIPS(pooling="balanced").fit(logs).evaluate(mixture)
    assert_allclose(result.value, logs.reward.mean())
    result = MultiLoggerIPS().fit(logs).evaluate(mu[logger])
    assert_allclose(result.value, logs.reward.mean())


def test_cross_fitting_follows_the_rows_of_each_logger():
    logs, pi = several(n=101)
    for divergences in ("pooled", "per_logger"):
        evaluator = MultiLoggerIPS(
            pooling="weighted", divergences=divergences, cross_fit=4
        )
        result = evaluator.fit(logs).evaluate(pi)
        plain = clone(evaluator).set_params(cross_fit=None).fit(logs).evaluate(pi)
        assert result.value != plain.value
        assert_allclose(result.value, plain.value, atol=4 * plain.standard_error)
        assert_allclose(result.round_values.mean(), result.value, rtol=1e-12)
        shares = result.diagnostics["logger_shares"]
        assert_allclose(sum(shares.values()), 1)
        # the loggers one after the other: the same folds
        order = np.argsort(logs.logger_index, kind="stable")
        again = evaluator.fit(logs[order]).score(pi[order])
        assert_allclose(again, result.value, rtol=1e-12)


@pytest.mark.parametrize("divergences", ["pooled", "per_logger", {0: 1.0, 1: 2, 2: 5}])
@pytest.mark.parametrize("cross_fit", [None, 3])
def test_weighted_far_from_zero_has_an_error(divergences, cross_fit):
    """Rewards r + 1e6: divergences are those of the rewards themselves."""
    logs, pi = several()
    far = logs.replace(reward=logs.reward + 1e6)
    evaluator = MultiLoggerIPS(
        pooling="weighted",
        self_normalized=True,
        divergences=divergences,
        cross_fit=cross_fit,
    )
    result = evaluator.fit(far).evaluate(pi)
    shares = np.array(list(result.diagnostics["logger_shares"].values()))
    if cross_fit is None:
        # the ratio by hand, of rewards that have their digits
        w = pi[np.arange(300), logs.action_index] / logs.propensity
        code, sizes = logs.logger_index, np.bincount(logs.logger_index)
        s2 = np.array(list(result.diagnostics["logger_divergences"].values()))
        lam = 1 / s2 / (sizes / s2).sum()
        if divergences == "per_logger":
            own = [(w * far.reward)[code == k].var(ddof=1) for k in range(3)]
            assert_allclose(s2, own, rtol=1e-9)
        value = (lam[code] * w * logs.reward).sum() / (lam[code] * w).sum()
        line = w * (logs.reward - value) / (lam[code] * w).sum()
        variance = sum(
            lam[k] ** 2 * sizes[k] * line[code == k].var(ddof=1) for k in range(3)
        )
        assert_allclose(result.value - 1e6, value, rtol=1e-8)
        assert_allclose(result.standard_error, np.sqrt(variance), rtol=1e-8)
        assert_allclose(shares, lam * sizes, rtol=1e-9)
    assert 0.01 < result.standard_error < 1
    z = result.round_values
    assert_allclose(z.mean(), result.value, rtol=1e-14)
    assert_allclose(z.std(ddof=1) / np.sqrt(300), result.standard_error, rtol=1e-6)


def test_a_logger_that_is_left_out_gives_no_degrees_of_freedom():
    logs, pi = several()
    evaluator = MultiLoggerIPS(pooling="weighted", divergences=[1.0, np.inf, 2.0])
    result = evaluator.fit(logs).evaluate(pi)
    count = np.bincount(logs.logger_index)
    assert result.degrees_of_freedom == count[0] + count[2] - 2
    for name in ("logger_rounds", "logger_weights", "logger_unsupported_mass"):
        assert list(result.diagnostics[name]) == [0, 1, 2]
    assert result.diagnostics["logger_shares"][1] == 0
    rows = np.flatnonzero(logs.logger != 1)
    alone = MultiLoggerIPS(pooling="weighted", divergences={0: 1.0, 1: 9.0, 2: 2.0})
    alone = alone.fit(logs[rows]).evaluate(pi[rows])
    assert_allclose(result.value, alone.value, rtol=1e-12)
    assert_allclose(result.standard_error, alone.standard_error, rtol=1e-12)
    assert result.degrees_of_freedom == alone.degrees_of_freedom


# -- one call, groups, other logs -----------------------------------------------------
def test_one_call_shares_sums():
    logs, pi = several()
    evaluators = {name: MultiLoggerIPS(pooling=name) for name in POOLINGS}
    evaluators["IPS"] = IPS()
    evaluators["DR"] = MultiLoggerDR(pooling="weighted", reward_model=1.0)
    table = evaluate(pi, logs, evaluators=evaluators)
    for name, evaluator in evaluators.items():
        alone = clone(evaluator).fit(logs).evaluate(pi)
        assert_allclose(table[name].value, alone.value, rtol=1e-13)
        assert_allclose(table[name].standard_error, alone.standard_error, rtol=1e-13)
        assert_allclose(table[name].round_values, alone.round_values, rtol=1e-12)
    far = logs.replace(reward=logs.reward + 1e6)  # where some take rewards less that
    normalized = {
        name: MultiLoggerIPS(pooling=name, self_normalized=True) for name in POOLINGS
    }
    table_of_far = evaluate(pi, far, evaluators=normalized)
    for name, evaluator in normalized.items():
        alone = clone(evaluator).fit(far).evaluate(pi)
        assert_allclose(table_of_far[name].value, alone.value, rtol=1e-14)
    both = evaluate({"a": pi, "b": np.roll(pi, 1, axis=1)}, logs, evaluators=evaluators)
    assert both["a", "weighted"].value == table["weighted"].value
    assert both["b", "weighted"].value != table["weighted"].value
    assert evaluate(pi, logs, evaluators=["MultiLoggerIPS"])["MultiLoggerIPS"].value


def test_values_of_groups_keep_the_weights():
    logs, pi = several()
    fitted = MultiLoggerIPS(pooling="weighted", divergences=[1.0, 2.0, 5.0]).fit(logs)
    result = fitted.evaluate(pi)
    groups = result.by(np.arange(300) % 2)
    for k, group in groups.items():
        rows = np.arange(300) % 2 == k
        w = (pi[np.arange(300), logs.action_index] / logs.propensity * logs.reward)[
            rows
        ]
        lam = np.array([1, 0.5, 0.2])[logs.logger_index[rows]]
        assert_allclose(group.value, (lam * w).sum() / lam.sum(), rtol=1e-12)
        z = group.round_values
        assert_allclose(z.mean(), group.value)
        assert_allclose(z.std(ddof=1) / np.sqrt(len(z)), group.standard_error)


def test_other_logs_and_logged_probabilities_alone():
    logs, pi = several()
    fitted = MultiLoggerIPS(pooling="balanced").fit(logs)
    rows = np.arange(0, 300, 2)
    other = MultiLoggerIPS(pooling="balanced").fit(logs[rows]).score(pi[rows])
    assert fitted.score(pi[rows], logs[rows]) == other
    given = pi[np.arange(300), logs.action_index]
    for pooling in POOLINGS:
        fitted = MultiLoggerIPS(pooling=pooling).fit(logs)
        assert fitted.score(given) == fitted.score(pi)


def test_a_search_chooses_the_pooling():
    logs, pi = several()
    logs = logs.with_columns(target=pi)

    def precision(evaluator, held_out, y=None):
        return -evaluator.evaluate("target", held_out).standard_error

    search = GridSearchCV(
        MultiLoggerIPS(),
        {"pooling": list(POOLINGS), "self_normalized": [False, True]},
        scoring=precision,
        cv=2,
    ).fit(logs)
    assert search.best_params_["pooling"] in POOLINGS
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    pipeline = make_pipeline(PropensityClipper(0.05), MultiLoggerIPS()).fit(logs)
    assert np.isfinite(pipeline.score("target"))


# -- diagnostics ----------------------------------------------------------------------
def test_diagnostics_by_logger():
    logs, pi = ml4()
    pooled = {0: 372.369421, 1: 1.966210}
    for pooling in POOLINGS:
        result = MultiLoggerIPS(pooling=pooling).fit(logs).evaluate(pi)
        found = result.diagnostics
        assert found["logger_divergences"] == pytest.approx(pooled, rel=1e-6)
        assert found["logger_rounds"] == {0: 2, 1: 2}
        gamma = pooling_variance_ratio(list(pooled.values()), [2, 2])
        assert found["predicted_variance_ratio"] == pytest.approx(gamma, rel=1e-6)
        if pooling != "weighted":
            assert found["logger_weights"] == {0: 0.25, 1: 0.25}
            assert found["logger_shares"] == {0: 0.5, 1: 0.5}
        else:
            assert found["logger_weights"][1] > 0.49
        assert all(name in found for name in found)
        assert len(dict(found)) == len(found)


def test_weights_as_they_enter():
    logs, pi = several()
    i = np.arange(300)
    target = pi[i, logs.action_index]
    naive = target / logs.propensity
    sizes = np.bincount(logs.logger_index)
    lam = np.array([1, 0.5, 0.2]) / (sizes @ np.array([1, 0.5, 0.2]))
    for pooling, w in (
        ("naive", naive),
        ("balanced", target / (logs.logger_proba @ (sizes / 300))),
        ("weighted", 300 * lam[logs.logger_index] * naive),
    ):
        fitted = MultiLoggerIPS(pooling=pooling, divergences=[1.0, 2.0, 5.0]).fit(logs)
        result = fitted.evaluate(pi)
        found = result.diagnostics
        assert_allclose(result.effective_sample_size, w.sum() ** 2 / (w * w).sum())
        assert_allclose(found["max_weight"], w.max())
        assert_allclose(found["mean_weight"], w.mean())
        z = (w.mean() - 1) / (w.std(ddof=1) / np.sqrt(300))
        if pooling != "weighted":
            assert_allclose(found["mean_weight_z"], z)
        assert_allclose(found["large_weight_mass"], (w * (w > 20)).mean())
        assert_allclose(found["altered_rows"], 0)
        own = [naive[logs.logger == k] for k in range(3)]
        assert_allclose(
            list(found["logger_effective_sample_size"].values()),
            [v.sum() ** 2 / (v * v).sum() for v in own],
        )


def test_without_propensities_those_of_all_loggers_are_to_be_estimated():
    logs = BanditLogs(np.zeros((4, 1)), [0, 1, 0, 1], np.ones(4), logger=[0, 0, 1, 1])
    with pytest.raises(ValueError, match="estimate them with LoggerPropensityEst"):
        MultiLoggerIPS().fit(logs)

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Means and variances over all logs, and weights of loggers from other folds."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.model_selection import GroupKFold

from skope_ope import MultiLoggerIPS, evaluate
from skope_ope.evaluators import pooling_variance_ratio
from skope_ope.exceptions import LoggerWarning
from tests.evaluators.core._asked import bare_logs
from tests.evaluators.multi_logger._logs import POOLINGS, several
from tests.evaluators.multi_logger._toy import (
    DIVERGENCES,
    ONE_CONTEXT,
    TOY,
    VALUE,
    World,
    exact_moments,
    score,
)

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
ORACLE = MultiLoggerIPS(pooling="weighted", divergences=DIVERGENCES)
TOY_VARIANCES = [
    (MultiLoggerIPS(), 64.270278),
    (MultiLoggerIPS(pooling="balanced"), 12.427405),
    (ORACLE, 4.200151),
    (MultiLoggerIPS(pooling="weighted", divergences=[np.inf, 1.0]), 4.271111),
]


@pytest.mark.parametrize(("evaluator", "variance"), TOY_VARIANCES)
def test_the_toy_exactly(evaluator, variance):
    mean, found = exact_moments(score(evaluator))
    assert_allclose(mean, VALUE, rtol=1e-12)
    assert_allclose(found, variance, rtol=1e-6)


@pytest.mark.parametrize(
    ("divergences", "mean", "variance"),
    [("per_logger", 6.175914, 9.713273), ("pooled", 8.152088, 1.374033)],
)
def test_estimated_weights_exactly(divergences, mean, variance):
    evaluator = MultiLoggerIPS(pooling="weighted", divergences=divergences)
    found = exact_moments(score(evaluator), size=4)
    assert_allclose(found, (mean, variance), rtol=1e-6)


@pytest.mark.parametrize(
    ("divergences", "variance"), [("per_logger", 19.154489), ("pooled", 1.755308)]
)
def test_cross_fitted_weights_are_exactly_unbiased(divergences, variance):
    evaluator = MultiLoggerIPS(pooling="weighted", divergences=divergences, cross_fit=2)
    mean, found = exact_moments(score(evaluator), size=4, ordered_parts=2)
    assert_allclose(mean, VALUE, rtol=1e-11)
    assert_allclose(found, variance, rtol=1e-6)


def value_and_squared_error(evaluator):
    """As a statistic of logs; of a pair the moments are pairs as well."""

    def statistic(logs, pi):
        result = evaluator.fit(logs).evaluate(pi)
        return result.value, result.standard_error**2

    return statistic


@pytest.mark.parametrize(("evaluator", "variance"), TOY_VARIANCES[:3])
def test_the_stratified_variance_is_unbiased(evaluator, variance):
    (_, found), _ = exact_moments(value_and_squared_error(evaluator), 2)
    assert_allclose(found, variance / 2, rtol=1e-6)


@pytest.mark.parametrize("sizes", [(2, 1), (1, 3), (1, 1)], ids=str)
@pytest.mark.parametrize(
    "evaluator",
    [
        MultiLoggerIPS(),
        MultiLoggerIPS(pooling="balanced"),
        MultiLoggerIPS(pooling="weighted", divergences=[2.0, 1.0]),
        MultiLoggerIPS(pooling="weighted", divergences=[1.0, 3.0]),
        ORACLE,
    ],
    ids=["naive", "balanced", "2 to 1", "1 to 3", "oracle"],
)
def test_cells_of_one_round_never_understate_the_variance(evaluator, sizes):
    """Over all logs: an error that is too large on average, or none."""
    statistic = value_and_squared_error(evaluator)
    (_, error), (variance, _) = ONE_CONTEXT.exact_moments(statistic, sizes)
    # a round that weighs more than all rounds of the other: nothing tells its spread
    weights = np.ones(2)
    if evaluator.pooling == "weighted":
        weights = 1 / np.asarray(evaluator.divergences)
    heavier = weights.max() > (weights * sizes).sum() - weights.max()
    alone = heavier and sizes[np.argmax(weights)] == 1
    if sizes == (1, 1):
        alone = weights[0] != weights[1]
    assert np.isnan(error) == alone
    if not alone:
        assert error >= variance * (1 - 1e-9)


def test_a_round_that_nothing_tells_the_spread_of_is_named():
    """Two rounds of logger 0, one of logger 1, which has 97% of the weight."""
    logs, pi = TOY.logs([(0, 0, 1), (0, 1, 1), (1, 0, 0)])
    with pytest.warns(LoggerWarning, match="logger 1 has a single round, so") as seen:
        result = ORACLE.fit(logs).evaluate(pi)
    [warned] = [w.message for w in seen if w.category is LoggerWarning]
    assert warned.value == 1 and warned in result.warnings
    assert "The standard error is NaN" in str(warned)
    assert np.isnan(result.standard_error) and np.isfinite(result.value)
    balanced = MultiLoggerIPS(pooling="balanced").fit(logs).evaluate(pi)
    assert not any(isinstance(w, LoggerWarning) for w in balanced.warnings)
    assert np.isfinite(balanced.standard_error)


# -- worlds by the terms of all their cells --------------------------------------------
def random_world(rng, k, x, m):
    loggers = rng.dirichlet(np.full(k, rng.choice([0.3, 1, 5])), (m, x))
    p, target = rng.dirichlet(np.ones(x)), rng.dirichlet(np.ones(k), x)
    delta = rng.normal(size=(x, k)) + rng.choice([0, 3])
    return World(p, loggers * 0.9 + 0.1 / k, target, delta)


def population(world, sizes):
    """Logs with every cell of every logger, weighted by how often it is met."""
    rows = [(i, *cell) for i in range(len(sizes)) for cell in world.cells]
    weight = [sizes[i] * world.p[x] * world.loggers[i, x, a] for i, x, a in rows]
    return world.logs(rows, sample_weight=weight)


def exact_variance(name, result, logs, pi, sizes):
    """Variance of an estimate from `sizes` rounds, by its terms of all cells."""
    p = logs.propensity
    if name == "balanced":
        p = logs.logger_proba @ (np.array(sizes) / np.sum(sizes))
    terms = pi[np.arange(len(logs)), logs.action_index] / p * logs.reward
    variance = 0.0
    for i, size in enumerate(sizes):
        own = logs.logger == i
        weight = logs.sample_weight[own] / size
        mean = weight @ terms[own]
        share = result.diagnostics["logger_shares"][i]
        variance += share**2 / size * (weight @ (terms[own] - mean) ** 2)
    return variance


def variances(world, sizes, **others):
    """Exact variances by pooling, and the divergences: all from the evaluators."""
    logs, pi = population(world, sizes)
    evaluators = {name: MultiLoggerIPS(pooling=name) for name in POOLINGS}
    for name, divergences in others.items():
        evaluators[name] = MultiLoggerIPS(pooling="weighted", divergences=divergences)
    table = evaluate(pi, logs, evaluators=evaluators)
    for name in evaluators:  # all are unbiased, whatever the weights
        assert_allclose(table[name].value, world.value, rtol=1e-9, atol=1e-12)
    found = {k: exact_variance(k, r, logs, pi, sizes) for k, r in table.items()}
    s2 = table["weighted"].diagnostics["logger_divergences"]
    return found, np.array([s2[i] for i in range(len(sizes))])


def test_the_toy_has_the_divergences_of_the_paper():
    found, s2 = variances(TOY, (1, 1))
    assert_allclose(s2, DIVERGENCES, rtol=1e-9)
    expected = {"naive": 64.270278, "balanced": 12.427405, "weighted": 4.200151}
    assert found == pytest.approx(expected, rel=1e-6)
    assert_allclose(pooling_variance_ratio(s2, [1, 1]), 0.0653514, rtol=1e-6)


@pytest.mark.thorough
def test_terms_of_all_cells_have_the_variance_of_all_logs():
    rng = np.random.RandomState(0)
    shapes = [(2, 2, 2), (3, 1, 2), (2, 1, 3), (4, 1, 2), (2, 1, 4)]
    for k, x, m in shapes:
        world, sizes = random_world(rng, k, x, m), rng.randint(1, 3, m)
        expected, s2 = variances(world, sizes)
        for name in POOLINGS:
            evaluator = MultiLoggerIPS(pooling=name, divergences=s2)
            mean, variance = world.exact_moments(score(evaluator), sizes)
            assert_allclose(mean, world.value, rtol=1e-9, atol=1e-12)
            assert_allclose(variance, expected[name], rtol=1e-8)


@pytest.mark.theory
def test_balanced_never_loses_and_weighted_is_optimal():
    rng = np.random.RandomState(0)
    better = 0
    for _ in range(250):
        m = rng.randint(2, 5)
        world = random_world(rng, rng.randint(2, 5), rng.randint(1, 4), m)
        sizes = rng.randint(1, 20, m)
        others = {f"other {k}": 10 ** rng.normal(size=m) for k in range(3)}
        found, s2 = variances(world, sizes, **others)
        naive, balanced, weighted = (found[name] for name in POOLINGS)
        assert balanced <= naive * (1 + 1e-9)
        for name in ("naive", *others):
            assert weighted <= found[name] * (1 + 1e-9)
        gain = weighted / naive
        assert_allclose(gain, pooling_variance_ratio(s2, sizes), rtol=1e-7)
        better += weighted < balanced
    assert 0 < better < 250  # neither is always the better one


# -- divergences of a fold from the other folds -------------------------------------
WANTED = np.array([0.4, 0.6])
MU = np.array([[0.5, 0.5], [0.3, 0.7], [0.6, 0.4]])


def per_logger(cross_fit):
    given = {"pooling": "weighted", "divergences": "per_logger"}
    return MultiLoggerIPS(cross_fit=cross_fit, **given)


def rounds_of(n, group, seed=0):
    """`n` rounds of each of three loggers, one after the other."""
    rng = np.random.RandomState(seed)
    logger = np.repeat([0, 1, 2], n)
    action = (rng.random_sample(3 * n) < MU[logger, 1]).astype(int)
    known = {"logger": logger, "logger_proba": MU[:, action].T, "group": group}
    logs = bare_logs(action, rng.normal(1, 1, 3 * n), actions=range(2), **known)
    return logs, np.tile(WANTED, (3 * n, 1))


def by_hand(logs, pi, fold, estimate):
    """Value from `estimate(rows)`, the divergences of all loggers on some rows."""
    w = pi[np.arange(len(logs)), logs.action_index] / logs.propensity
    total = np.zeros(len(logs))
    for k in range(fold.max() + 1):
        inside = fold == k
        sizes = np.bincount(logs.logger_index[inside], minlength=3)
        s2 = estimate(w * logs.reward, ~inside)
        lam = inside.sum() / len(logs) / s2 / (sizes / s2).sum()
        total[inside] = lam[logs.logger_index[inside]]
    return (total * w * logs.reward).sum(), total


def own_variances(logs):
    def estimate(terms, rows):
        own = [terms[rows & (logs.logger == k)] for k in range(3)]
        s2 = np.array([t.var(ddof=1) if len(t) > 1 else np.nan for t in own])
        known = s2[np.isfinite(s2)]
        return np.where(np.isnan(s2), known.mean() if known.size else 1.0, s2)

    return estimate


def test_groups_are_held_out_together():
    group = np.random.RandomState(3).randint(0, 12, 300)
    logs, pi = several(group=group)
    result = per_logger(4).fit(logs).evaluate(pi)
    fold = np.empty(300, dtype=int)
    for k, (_, test) in enumerate(GroupKFold(4).split(logs, groups=group)):
        fold[test] = k
    value, rounds = by_hand(logs, pi, fold, own_variances(logs))
    assert_allclose(result.value, value, rtol=1e-10)
    shares = [rounds[logs.logger == k].sum() for k in range(3)]
    found = result.diagnostics["logger_shares"]
    assert_allclose([found[k] for k in range(3)], shares, rtol=1e-10)
    assert_allclose(result.round_values.mean(), result.value, rtol=1e-12)
    # other folds, other weights
    ungrouped = per_logger(4).fit(logs.replace(group=None)).score(pi)
    assert abs(ungrouped - result.value) > 1e-6


def test_a_logger_in_no_other_fold_takes_the_mean_of_the_others():
    # each group holds whole loggers: every fold is weighted evenly, none is dropped
    for group in (np.repeat([0, 1, 2], 30), np.repeat([0, 1, 0], 30)):
        logs, pi = rounds_of(30, group)
        with pytest.warns(
            LoggerWarning, match="the other loggers' divergences"
        ) as seen:
            result = per_logger(5).fit(logs).evaluate(pi)
        assert len([w for w in seen if w.category is LoggerWarning]) == 3
        assert_allclose(result.value, MultiLoggerIPS().fit(logs).score(pi), rtol=1e-12)
        shares = result.diagnostics["logger_shares"]
        assert_allclose(list(shares.values()), 1 / 3)
    # logger 2 is in one fold only, together with others
    logs, pi = rounds_of(30, np.r_[np.arange(60) % 3, np.full(30, 1)])
    with pytest.warns(LoggerWarning, match="divergence of logger 2 cannot be") as seen:
        result = per_logger(3).fit(logs).evaluate(pi)
    assert len([w for w in seen if w.category is LoggerWarning]) == 1
    value, rounds = by_hand(logs, pi, logs.group, own_variances(logs))
    assert_allclose(result.value, value, rtol=1e-10)
    assert rounds[60:].sum() > 0.2
    found = result.diagnostics["logger_shares"]
    assert_allclose(found[2], rounds[60:].sum(), rtol=1e-10)


def test_pooled_divergences_know_of_every_logger():
    logs, pi = rounds_of(30, np.repeat([0, 1, 0], 30))
    evaluator, naive = MultiLoggerIPS(pooling="weighted", cross_fit=2), MultiLoggerIPS()
    result = evaluator.fit(logs).evaluate(pi)
    assert not any(isinstance(w, LoggerWarning) for w in result.warnings)
    assert_allclose(result.value, naive.fit(logs).score(pi), rtol=0.05)
    # unless nothing that the others did was possible for it
    one, half = np.repeat([0, 1], 20), np.full((40, 2), 0.5)
    known = {"logger": np.array(list("ab"))[one], "logger_proba": np.eye(2)[one]}
    alone = bare_logs(one, np.arange(40.0), group=one, **known)
    with pytest.warns(LoggerWarning, match="of the other loggers' divergences"):
        found = evaluator.fit(alone).score(half)
    assert_allclose(found, naive.fit(alone).score(half), rtol=1e-12)


def test_grouped_cross_fitting_is_exactly_unbiased():
    """All logs of two loggers with three rounds each, one of them in another group.

    The other folds never hold two rounds of logger 0, and those of logger 1 depend on
    what is drawn: the mean over all logs is the value all the same.
    """
    mu, wanted = np.array([[0.5, 0.5], [0.2, 0.8]]), np.array([0.7, 0.3])
    reward, logger = np.array([3.0, 1.0]), np.repeat([0, 1], 3)
    mean = total = 0.0
    for action in map(np.array, product([0, 1], repeat=6)):
        known = {"logger": logger, "logger_proba": mu[:, action].T, "actions": [0, 1]}
        logs = bare_logs(action, reward[action], group=[0, 0, 0, 0, 1, 1], **known)
        p = mu[logger, action].prod()
        mean += p * score(per_logger(2))(logs, np.tile(wanted, (6, 1)))
        total += p
    assert_allclose((mean, total), (wanted @ reward, 1), rtol=1e-12)


def test_single_rounds_tell_no_divergence():
    logs, pi = rounds_of(1, None)
    with pytest.warns(LoggerWarning, match="All rounds weigh the same") as seen:
        value = per_logger(None).fit(logs).score(pi)
    assert len([w for w in seen if w.category is LoggerWarning]) == 3
    assert_allclose(value, MultiLoggerIPS().fit(logs).score(pi), rtol=1e-12)

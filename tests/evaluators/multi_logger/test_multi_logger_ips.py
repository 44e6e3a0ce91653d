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
    EpsilonGreedy,
    MultiLoggerDR,
    MultiLoggerIPS,
    PropensityClipper,
    evaluate,
    pooling_variance_ratio,
)
from skope_ope.exceptions import (
    LoggerWarning,
    LowOverlapWarning,
    PropensityWarning,
    SupportWarning,
)
from tests.evaluators.multi_logger._toy import (
    DELTA,
    DIVERGENCES,
    LOGGERS,
    TARGET,
    VALUE,
    exact_moments,
    ml4,
    toy_logs,
)

ORACLE = MultiLoggerIPS(pooling="weighted", divergences=DIVERGENCES)
POOLINGS = ("naive", "balanced", "weighted")


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():  # of four rounds
        warnings.simplefilter("ignore", LowOverlapWarning)
        warnings.simplefilter("ignore", PropensityWarning)
        yield


def score(evaluator):
    def statistic(logs, pi):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return evaluator.fit(logs).score(pi)

    return statistic


def several(n=300, m=3, k=4, seed=0, **fields):
    """Rounds of `m` loggers in random order, and a policy."""
    rng = np.random.RandomState(seed)
    mu = 0.7 * rng.dirichlet(np.ones(k), (m, n)) + 0.3 / k
    pi = rng.dirichlet(np.ones(k), n)
    logger = rng.choice(m, n, p=np.arange(1, m + 1) / (m * (m + 1) / 2))
    logger[:m] = np.arange(m)
    rows = np.arange(n)
    drawn = mu[logger, rows].cumsum(axis=1) > rng.random_sample((n, 1))
    action = np.where(drawn.any(axis=1), drawn.argmax(axis=1), k - 1)
    arguments = {
        "context": np.column_stack([rows, rng.normal(size=n)]),
        "action": action,
        "reward": action + rng.random_sample(n),
        "actions": np.arange(k),
        "logger": logger,
        "logger_proba": mu[:, rows, action].T,
        **fields,
    }
    return BanditLogs(**arguments), pi


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


@pytest.mark.parametrize(
    ("evaluator", "variance"),
    [
        (MultiLoggerIPS(), 64.270278),
        (MultiLoggerIPS(pooling="balanced"), 12.427405),
        (ORACLE, 4.200151),
        (MultiLoggerIPS(pooling="weighted", divergences=[np.inf, 1.0]), 4.271111),
    ],
)
def test_the_toy_exactly(evaluator, variance):
    mean, found = exact_moments(score(evaluator))
    assert_allclose(mean, VALUE, rtol=1e-12)
    assert_allclose(found, variance, rtol=1e-6)


@pytest.mark.parametrize(
    ("evaluator", "mean", "variance"),
    [
        (MultiLoggerIPS(), VALUE, 16.067569),
        (ORACLE, VALUE, 1.050038),
        (
            MultiLoggerIPS(pooling="weighted", divergences="per_logger"),
            6.175914,
            9.713273,
        ),
        (MultiLoggerIPS(pooling="weighted"), 8.152088, 1.374033),
    ],
)
def test_estimated_weights_exactly(evaluator, mean, variance):
    found = exact_moments(score(evaluator), size=4)
    assert_allclose(found, (mean, variance), rtol=1e-6)


@pytest.mark.theory
@pytest.mark.parametrize(
    ("divergences", "variance"), [("per_logger", 19.154489), ("pooled", 1.755308)]
)
def test_cross_fitted_weights_are_exactly_unbiased(divergences, variance):
    evaluator = MultiLoggerIPS(pooling="weighted", divergences=divergences, cross_fit=2)
    mean, found = exact_moments(score(evaluator), size=4, ordered_parts=2)
    assert_allclose(mean, VALUE, rtol=1e-11)
    assert_allclose(found, variance, rtol=1e-6)


def test_the_stratified_variance_is_unbiased():
    for evaluator, variance in (
        (MultiLoggerIPS(), 64.270278 / 2),
        (MultiLoggerIPS(pooling="balanced"), 12.427405 / 2),
        (ORACLE, 4.200151 / 2),
    ):

        def squared_error(logs, pi, evaluator=evaluator):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return evaluator.fit(logs).evaluate(pi).standard_error ** 2

        assert_allclose(exact_moments(squared_error, 2)[0], variance, rtol=1e-6)


def random_instance(rng):
    k, x, m = rng.randint(2, 5), rng.randint(1, 4), rng.randint(2, 5)
    p = rng.dirichlet(np.ones(x))
    pis = rng.dirichlet(np.full(k, rng.choice([0.3, 1, 5])), (m, x)) * 0.98 + 0.02 / k
    target = rng.dirichlet(np.ones(k), x)
    delta = rng.normal(size=(x, k)) + rng.choice([0, 3])
    return p, pis, target, delta, rng.randint(1, 20, m)


def exact_variances(p, pis, target, delta, n):
    """Variances of the naive, balanced and weighted estimates, and divergences."""
    value = p @ (target * delta).sum(axis=1)
    s2 = np.array([p @ ((delta * target) ** 2 / pi).sum(axis=1) for pi in pis])
    s2 -= value**2
    mixture = np.einsum("i,ixy->xy", n / n.sum(), pis)
    z = delta * target / mixture
    means = np.array([p @ (pi * z).sum(axis=1) for pi in pis])
    squares = np.array([p @ (pi * z**2).sum(axis=1) for pi in pis])
    balanced = n @ (squares - means**2) / n.sum() ** 2
    return n @ s2 / n.sum() ** 2, balanced, 1 / (n / s2).sum(), s2


def test_balanced_never_loses_and_weighted_is_optimal():
    rng = np.random.RandomState(0)
    better = 0
    for _ in range(1000):
        instance = random_instance(rng)
        n = instance[-1]
        naive, balanced, weighted, s2 = exact_variances(*instance)
        assert balanced <= naive * (1 + 1e-12)
        shares = rng.dirichlet(np.ones(len(n)), 20)  # n_i lambda_i
        assert weighted <= (shares**2 @ (s2 / n)).min() * (1 + 1e-12)
        assert_allclose(weighted / naive, pooling_variance_ratio(s2, n), rtol=1e-9)
        better += weighted < balanced
    assert 0 < better < 1000  # neither is always the better one


def test_the_toy_has_the_divergences_of_the_paper():
    p = np.array([0.5, 0.5])
    naive, balanced, weighted, s2 = exact_variances(
        p, LOGGERS, TARGET, DELTA, np.array([1, 1])
    )
    assert_allclose(s2, DIVERGENCES, rtol=1e-9)
    assert_allclose((naive, balanced, weighted), (64.270278, 12.427405, 4.200151), 1e-6)
    assert_allclose(pooling_variance_ratio(s2, [1, 1]), 0.0653514, rtol=1e-6)


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


# -- what can go wrong ----------------------------------------------------------------
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
    broken = logs.replace(logger_proba=proba)
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


def without_support(**fields):
    """Logger 1 never takes action 0; the policy gives it 0.3."""
    rng = np.random.RandomState(0)
    mu = np.array([[0.5, 0.3, 0.2], [0.0, 0.4, 0.6]])
    logger = np.arange(400) % 2
    action = np.array([rng.choice(3, p=mu[g]) for g in logger])
    logs = BanditLogs(
        np.zeros((400, 1)),
        action,
        rng.random_sample(400),
        logger=logger,
        **{
            "actions": range(3),
            "logger_proba": mu[:, action].T,
            "logging_proba": mu[logger],
            "propensity": mu[logger, action],
            **fields,
        },
    )
    return logs, np.tile([0.3, 0.4, 0.3], (400, 1))


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

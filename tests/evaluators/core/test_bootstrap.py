# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Resampled sums say what evaluating the resampled rounds would."""

import pickle
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import (
    IPS,
    SNDR,
    SNIPS,
    AdaptiveIPS,
    BanditLogs,
    ConstantPolicy,
    DirectMethod,
    DoublyRobust,
    DRns,
    EpsilonGreedy,
    ExplorationScavenging,
    LogSmoothing,
    MultiLoggerDR,
    MultiLoggerIPS,
    PseudoInverse,
    Replay,
    SlateLogs,
    SwitchDR,
    UniformPolicy,
    UniformSlatePolicy,
    evaluate,
)
from skope_ope.exceptions import FewEventsWarning, TailWarning
from skope_ope.intervals import bootstrap_interval, percentile_interval
from skope_ope.intervals._bootstrap import Draws, seed_of
from tests.evaluators.core._asked import bare_logs, interval_of, value_of

N, B = 120, 8
LEVELS = 0.1, 0.4, 0.7  # that so few resamples can tell
METHODS = "bootstrap", "percentile"


def make_logs(n=N, shift=0.0, **fields):
    rng = np.random.default_rng(0)
    mu, pi = rng.dirichlet([3, 3, 3], n), rng.dirichlet([1, 1, 1], n)
    action = (rng.random((n, 1)) > mu.cumsum(axis=1)).sum(axis=1)
    reward = rng.gamma(2, 1, n) * action + shift
    rows = rng.random((n, 2)), action, reward, mu[np.arange(n), action]
    logs = BanditLogs(*rows, **fields)
    q = np.tile([0.2, 1.5, 3.0], (n, 1)) + shift + rng.random((n, 3))
    return logs.with_columns(pi=pi, q=q)


def counts(n, sample=None):
    """How often the resamples of random_state=0 hold every unit."""
    draws = Draws(n, B, seed_of(0), sample).of_tile(0, n)
    return np.concatenate([count for _, count in draws]).astype(int)


def resampled(value):
    """All limits that the resamples of random_state=0 give."""
    asked = product(METHODS, LEVELS)
    return np.array([interval_of(value, x, m, n_resamples=B) for m, x in asked])


def agree(value, others):
    """The limits are those of evaluations of the resampled rounds."""
    values, errors = np.array([(v.value, v.standard_error) for v in others]).T
    t, error = (values - value.value) / errors, value.standard_error
    limits = [value.value - error * quantiles(t, level)[::-1] for level in LEVELS]
    limits += [quantiles(values, level) for level in LEVELS]
    assert_allclose(resampled(value), limits, rtol=1e-9)


def quantiles(values, level):
    """Those at both ends of an interval, as Weibull placed them."""
    return np.quantile(values, [(1 - level) / 2, (1 + level) / 2], method="weibull")


def weights(logs):
    return logs.columns["pi"][np.arange(len(logs)), logs.action_index] / logs.propensity


STATIC = [
    IPS(),
    SNIPS(),
    IPS(cmax=2.0),
    LogSmoothing(),
    DirectMethod(reward_model="q"),
    DoublyRobust(reward_model="q"),
    SNDR(reward_model="q"),
    SwitchDR(reward_model="q", tau=1.0),
]


@pytest.mark.parametrize("evaluator", STATIC, ids=repr)
def test_rounds(evaluator):
    logs = make_logs()
    drawn = (logs[np.repeat(np.arange(N), count)] for count in counts(N))
    agree(value_of(evaluator, logs), [value_of(evaluator, some) for some in drawn])


@pytest.mark.parametrize("evaluator", [SNIPS(), SNDR(reward_model="q")])
def test_rewards_far_from_zero_keep_their_digits(evaluator):
    near, far = (resampled(value_of(evaluator, make_logs(shift=s))) for s in (0, 1e6))
    assert_allclose(far - 1e6, near, rtol=1e-6)


def test_sample_weights_stay_with_their_rounds():
    weight = np.random.default_rng(1).integers(0, 3, N).astype(float)
    logs, kept = make_logs(sample_weight=weight), np.flatnonzero(weight)
    drawn = (logs[np.repeat(kept, count)] for count in counts(len(kept)))
    agree(value_of(SNIPS(), logs), [value_of(SNIPS(), some) for some in drawn])


@pytest.mark.parametrize("evaluator", [SNIPS(), DoublyRobust(reward_model="q")])
def test_groups_are_drawn_whole(evaluator):
    group = np.random.default_rng(1).integers(0, 15, N)
    logs, others = make_logs(group=group), []
    for count in counts(15):
        rows = [np.flatnonzero(group == g) for g in np.repeat(np.arange(15), count)]
        label = np.repeat(np.arange(len(rows)), [len(one) for one in rows])
        some = logs[np.concatenate(rows)].replace(group=label)
        others.append(value_of(evaluator, some))
    agree(value_of(evaluator, logs), others)


@pytest.mark.parametrize("pooling", ["naive", "balanced", "weighted"])
@pytest.mark.parametrize("groups", [None, "nested", "crossed"])
def test_loggers_are_samples(pooling, groups):
    """Of known weights the loggers keep their shares, whatever is drawn."""
    logger, place = np.repeat(["a", "b"], [N // 3, N - N // 3]), np.arange(N)
    logs = make_logs(logger=logger)
    other = np.where(logger == "b", logs.propensity, 0.3)
    logs = logs.replace(logger_proba=np.stack([logs.propensity, other], axis=1))
    if groups is not None:
        logs = logs.replace(group=place // 2 if groups == "nested" else place % 60)
    has_the_spread_of_resamples(value_of(MultiLoggerIPS(pooling=pooling), logs))


def has_the_spread_of_resamples(value):
    """By quantiles of 1000 resamples that are one normal deviate away."""
    found = interval_of(value, 0.6826894921, "percentile", n_resamples=1000)
    assert found.width / 2 == pytest.approx(value.standard_error, rel=0.15)


def test_arms_are_samples():
    logs = make_logs(n=300)
    value = value_of(ExplorationScavenging(), logs, ConstantPolicy(1))
    has_the_spread_of_resamples(value)


def test_within_loggers_by_hand():
    """Two loggers, both with n_g drawn: the value is a mean of IPS by logger."""
    code = (np.arange(N) % 3 == 0).astype(int)
    logs, divergences = make_logs(logger=code), np.array([1.0, 2.5])
    evaluator = MultiLoggerIPS(pooling="weighted", divergences=divergences)
    value = value_of(evaluator, logs)
    z, weight = weights(logs) * logs.reward, 1 / divergences[code]
    values = []
    for count in counts(N, code):
        assert np.array_equal(np.bincount(code, count), np.bincount(code))
        values.append((count * weight) @ z / weight.sum())
    found = [interval_of(value, level, "percentile", n_resamples=B) for level in LEVELS]
    assert_allclose(found, [quantiles(values, level) for level in LEVELS])


def test_a_difference_resamples_both_together():
    def difference(some):
        return value_of(SNIPS(), some) - value_of(SNDR(reward_model="q"), some)

    logs = make_logs()
    others = [difference(logs[np.repeat(np.arange(N), c)]) for c in counts(N)]
    agree(difference(logs), others)
    table = evaluate({"a": "pi", "b": UniformPolicy()}, logs, evaluators=["SNIPS"])
    paired = table["a", "SNIPS"] - table["b", "SNIPS"]
    low, high = paired.confidence_interval(method="bootstrap")
    assert low < paired.value < high
    assert high - low == pytest.approx(3.92 * paired.standard_error, rel=0.3)


def test_all_rows_of_a_table_see_the_same_resamples():
    """Whether they are asked together or not, and however long the log is."""
    for n in (N, 20_000):
        logs = make_logs(n)
        table = evaluate({"a": "pi", "b": UniformPolicy()}, logs, reward_model="q")
        for method in METHODS:
            given = {"method": method, "n_resamples": 50}
            together = table.confidence_intervals(**given)
            for name, found in together.items():
                alone = interval_of(table[name], **given)
                assert_allclose(found, alone, rtol=1e-10)


def test_the_functions_answer():
    logs = make_logs()
    value, w = value_of(SNIPS(), logs), weights(logs)
    functions = zip(METHODS, (bootstrap_interval, percentile_interval), strict=True)
    for (method, function), options in product(
        functions, ({}, {"random_state": 3}, {"block_length": 7})
    ):
        given = {"method": method, "n_resamples": 500} | options
        found = value.confidence_interval(0.9, **given)
        about = {"divisor": w, "n_resamples": 500} | options
        assert found == pytest.approx(function(w * logs.reward, 0.9, **about))
        assert (found.method, found.level) == (method, 0.9)
        assert found == value.confidence_interval(0.9, **given)


def test_stored_values_remember_their_terms():
    logs = make_logs()
    value = value_of(SNIPS(), logs)
    for one in (pickle.loads(pickle.dumps(value)), value.by(np.zeros(N))[0]):
        expected = value.confidence_interval(method="bootstrap")
        assert one.confidence_interval(method="bootstrap") == pytest.approx(expected)
    gain = value - value_of(IPS(), logs)
    with pytest.raises(ValueError, match="needs its two values"):
        pickle.loads(pickle.dumps(gain)).confidence_interval(method="bootstrap")


@pytest.mark.parametrize(
    "given", [{}, {"self_normalized": True}, {"control_variates": "multiple"}], ids=str
)
def test_slates(given):
    rng, n = np.random.default_rng(0), 300
    slate = np.array([rng.permutation(4)[:2] for _ in range(n)])
    about = rng.random((n, 1)), slate, (slate == 0).sum(axis=1) + rng.random(n)
    logs = SlateLogs(*about, n_candidates=4, logging_policy=UniformSlatePolicy(2))
    drawn = [logs, *(logs[np.repeat(np.arange(n), count)] for count in counts(n))]
    pi, evaluator = np.tile([0, 1], (n, 1)), PseudoInverse(**given)
    value, *others = (value_of(evaluator, some, pi) for some in drawn)
    agree(value, others)


def test_values_that_cannot_be_resampled():
    rng = np.random.default_rng(0)
    logs = bare_logs(rng.integers(2, size=N), rng.random(N), 0.5)
    for evaluator, policy in (
        (Replay(), ConstantPolicy(1)),
        (DRns(), ConstantPolicy(1)),
        (DRns(horizon=5, n_splits=3), EpsilonGreedy()),
        (AdaptiveIPS(), ConstantPolicy(1)),
    ):
        name = type(evaluator).__name__
        with pytest.raises(ValueError, match=f"{name} is none: it is one walk"):
            interval_of(value_of(evaluator, logs, policy), method="bootstrap")


def test_too_little_to_resample():
    logs = make_logs()
    one, of_one_user = logs[:1], logs.replace(group=np.zeros(N))
    pairs = logs.replace(group=np.arange(N) // 2)
    for some, options, message in (
        *((one, {"method": m}, "two rounds at least, got 1") for m in METHODS),
        *((of_one_user, {"method": m}, "two groups at least, got 1") for m in METHODS),
        (logs, {"block_length": 61}, "block_length=61 is too long for 120 rounds"),
        (logs, {"block_length": 0}, "must be a number of rounds"),
        (logs, {"n_resamples": 30}, r"few for level=0\.95.* 40, which put one .* 1000"),
        (logs, {"n_resamples": 0}, "n_resamples must be a positive int"),
        (pairs, {"block_length": 3}, r"those of IPS have groups\. Leave it out"),
    ):
        with pytest.raises(ValueError, match=message):
            interval_of(value_of(IPS(), some), **{"method": "bootstrap"} | options)


def test_groups_of_one_are_rounds_and_groups_of_no_weight_none():
    logs = make_logs()
    alone = resampled(value_of(SNIPS(), logs))
    grouped = value_of(SNIPS(), logs.replace(group=np.arange(N)))
    assert_allclose(resampled(grouped), alone, rtol=1e-9)
    # as many are drawn as there are groups with rounds that count
    group = np.arange(N) % 30
    logs = make_logs(group=group)
    value = value_of(SNIPS(), logs.replace(sample_weight=1.0 * (group < 20)))
    alone = value_of(SNIPS(), logs[group < 20])
    assert_allclose(resampled(value), resampled(alone), rtol=1e-9)


def test_rounds_that_are_all_alike_or_tell_nothing():
    logs = make_logs()
    value = value_of(SNIPS(), logs.replace(reward=np.ones(N)))
    none = value_of(SNIPS(), logs[logs.action_index != 1], ConstantPolicy(1))
    for method in METHODS:
        with pytest.warns(TailWarning, match="all round values are alike"):
            found = value.confidence_interval(method=method)
        assert found == pytest.approx((1, 1))
        assert np.isnan(interval_of(none, method=method)).all()


@pytest.mark.parametrize("sign", [1, -1])
def test_few_events_warn_and_say_what_was_left_out(sign):
    logs, reward = make_logs(), np.zeros(N)
    reward[np.flatnonzero(logs.action_index == 1)[:2]] = sign
    value = value_of(IPS(), logs.replace(reward=reward))
    without = "resamples without a spread were left out"
    with pytest.warns(FewEventsWarning, match=without) as caught:
        value.confidence_interval(method="bootstrap")
    assert 1 < caught[0].message.value <= 2
    with pytest.warns(FewEventsWarning, match="'percentile' holds for many rounds"):
        value.confidence_interval(method="percentile")


@pytest.mark.theory
def test_many_rounds_agree_with_student():
    """Counts of more than a tile are Poisson: spread and quantiles are as before."""
    logs = make_logs(30_000, logger=np.arange(30_000) % 2)
    for evaluator in (SNIPS(), MultiLoggerDR(reward_model="q")):
        value = value_of(evaluator, logs)
        student = value.confidence_interval(method="student")
        for method in METHODS:
            found = value.confidence_interval(method=method, n_resamples=4000)
            # the error of a quantile of 4,000 resamples is .03 half widths
            assert_allclose(found, student, rtol=0, atol=0.06 * student.width)


def test_a_logger_that_is_left_out_leaves_the_others():
    rng, n = np.random.default_rng(0), 400
    logger, action = rng.integers(2, size=(2, n))
    logs = BanditLogs(np.zeros((n, 1)), action, rng.random(n), 0.5, logger=logger)
    given = {"pooling": "weighted", "divergences": {0: np.inf, 1: 1.0}}
    value = MultiLoggerIPS(**given).fit(logs).evaluate(np.full((n, 2), 0.5))
    low, high = value.confidence_interval(method="student")
    for method in ("bootstrap", "percentile"):
        found = value.confidence_interval(method=method, random_state=0)
        assert_allclose(found, (low, high), atol=0.1 * (high - low))

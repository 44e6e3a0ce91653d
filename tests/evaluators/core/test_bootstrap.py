# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Resampled sums say what evaluating the resampled rounds would."""

import pickle

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
from tests.evaluators.core._asked import interval_of, quietly

N, B = 120, 8
LEVELS = 0.1, 0.4, 0.7  # that so few resamples can tell
METHODS = "bootstrap", "percentile"


def make_logs(n=N, shift=0.0, **fields):
    rng = np.random.default_rng(0)
    mu, pi = rng.dirichlet([3, 3, 3], n), rng.dirichlet([1, 1, 1], n)
    action = (rng.random((n, 1)) > mu.cumsum(axis=1)).sum(axis=1)
    reward = rng.gamma(2, 1, n) * action + shift
    logs = BanditLogs(
        rng.random((n, 2)), action, reward, mu[np.arange(n), action], **fields
    )
    q = np.tile([0.2, 1.5, 3.0], (n, 1)) + shift + rng.random((n, 3))
    return logs.with_columns(pi=pi, q=q)


def counts(n, sample=None):
    """How often the resamples of random_state=0 hold every unit."""
    draws = Draws(n, B, seed_of(0), sample).of_tile(0, n)
    return np.concatenate([count for _, count in draws]).astype(int)


def quiet(evaluator, logs, policy="pi"):
    return quietly(evaluator.fit(logs).evaluate, policy)


def resampled(value):
    """All limits that the resamples of random_state=0 give."""
    return np.array(
        [
            interval_of(value, level, method, n_resamples=B)
            for method in METHODS
            for level in LEVELS
        ]
    )


def agree(value, others, rtol=1e-9):
    """The limits are those of evaluations of the resampled rounds."""
    values, errors = np.array([(v.value, v.standard_error) for v in others]).T
    t = (values - value.value) / errors
    limits = [
        *(
            value.value - value.standard_error * quantiles(t, one)[::-1]
            for one in LEVELS
        ),
        *(quantiles(values, one) for one in LEVELS),
    ]
    assert_allclose(resampled(value), limits, rtol=rtol)


def quantiles(values, level):
    """Those at both ends of an interval, as Weibull placed them."""
    return np.quantile(values, [(1 - level) / 2, (1 + level) / 2], method="weibull")


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
    value = quiet(evaluator, logs)
    others = [
        quiet(evaluator, logs[np.repeat(np.arange(N), count)]) for count in counts(N)
    ]
    agree(value, others)


@pytest.mark.parametrize("evaluator", [SNIPS(), SNDR(reward_model="q")])
def test_rewards_far_from_zero_keep_their_digits(evaluator):
    near, far = (resampled(quiet(evaluator, make_logs(shift=s))) for s in (0.0, 1e6))
    assert_allclose(far - 1e6, near, rtol=1e-6)


def test_sample_weights_stay_with_their_rounds():
    weight = np.random.default_rng(1).integers(0, 3, N).astype(float)
    logs = make_logs(sample_weight=weight)
    value, kept = quiet(SNIPS(), logs), np.flatnonzero(weight)
    others = [
        quiet(SNIPS(), logs[np.repeat(kept, count)]) for count in counts(len(kept))
    ]
    agree(value, others)


@pytest.mark.parametrize("evaluator", [SNIPS(), DoublyRobust(reward_model="q")])
def test_groups_are_drawn_whole(evaluator):
    group = np.random.default_rng(1).integers(0, 15, N)
    logs = make_logs(group=group)
    value, others = quiet(evaluator, logs), []
    for count in counts(15):
        drawn = np.repeat(np.arange(15), count)
        rows = [np.flatnonzero(group == g) for g in drawn]
        label = np.repeat(np.arange(len(drawn)), [len(one) for one in rows])
        some = logs[np.concatenate(rows)]
        others.append(quiet(evaluator, some.replace(group=label)))
    agree(value, others)


@pytest.mark.parametrize("pooling", ["naive", "balanced", "weighted"])
@pytest.mark.parametrize("groups", [None, "nested", "crossed"])
def test_loggers_are_samples(pooling, groups):
    """Of known weights the loggers keep their shares, whatever is drawn."""
    logger = np.repeat(["a", "b"], [N // 3, N - N // 3])
    logs = make_logs(logger=logger)
    proba = np.stack([logs.propensity, 0.3 * np.ones(N)], axis=1)
    proba[logger == "b", 1] = logs.propensity[logger == "b"]
    logs = logs.replace(logger_proba=proba)
    if groups is not None:
        place = np.arange(N)
        logs = logs.replace(group=place // 2 if groups == "nested" else place % 60)
    value = quiet(MultiLoggerIPS(pooling=pooling), logs)
    assert spread_of(value) == pytest.approx(value.standard_error, rel=0.15)


def spread_of(value):
    """The spread of 1000 resamples, by quantiles that are one normal deviate away."""
    found = interval_of(value, 0.6826894921, "percentile", n_resamples=1000)
    return found.width / 2


def test_within_loggers_by_hand():
    """Two loggers, both with n_g drawn: the value is a mean of IPS by logger."""
    code = (np.arange(N) % 3 == 0).astype(int)
    logs = make_logs(logger=code)
    divergences = np.array([1.0, 2.5])
    evaluator = MultiLoggerIPS(pooling="weighted", divergences=divergences)
    value = quiet(evaluator, logs)
    z = logs.columns["pi"][np.arange(N), logs.action_index] / logs.propensity
    z = z * logs.reward
    weight = 1 / divergences[code]
    values = []
    for count in counts(N, code):
        assert np.array_equal(np.bincount(code, count), np.bincount(code))
        values.append((count * weight) @ z / weight.sum())
    found = [interval_of(value, level, "percentile", n_resamples=B) for level in LEVELS]
    assert_allclose(found, [quantiles(values, level) for level in LEVELS])


def test_arms_are_samples():
    logs = make_logs(n=300)
    policy = ConstantPolicy(1)
    value = quiet(ExplorationScavenging(), logs, policy)
    assert spread_of(value) == pytest.approx(value.standard_error, rel=0.15)


def test_a_difference_resamples_both_together():
    logs = make_logs()
    pair = SNIPS(), SNDR(reward_model="q")

    def difference(some):
        first, second = (quiet(one, some) for one in pair)
        return first - second

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
    value = quiet(SNIPS(), logs)
    w = logs.columns["pi"][np.arange(N), logs.action_index] / logs.propensity
    for method, function in (
        ("bootstrap", bootstrap_interval),
        ("percentile", percentile_interval),
    ):
        for options in ({}, {"random_state": 3}, {"block_length": 7}):
            given = {"method": method, "n_resamples": 500} | options
            found = value.confidence_interval(0.9, **given)
            expected = function(
                w * logs.reward, 0.9, divisor=w, n_resamples=500, **options
            )
            assert found == pytest.approx(expected)
            assert (found.method, found.level) == (method, 0.9)
            assert found == value.confidence_interval(0.9, **given)


def test_stored_values_remember_their_terms():
    value = quiet(SNIPS(), make_logs())
    for one in (pickle.loads(pickle.dumps(value)), value.by(np.zeros(N))[0]):
        expected = value.confidence_interval(method="bootstrap")
        assert one.confidence_interval(method="bootstrap") == pytest.approx(expected)
    logs = make_logs()
    gain = quiet(SNIPS(), logs) - quiet(IPS(), logs)
    with pytest.raises(ValueError, match="needs its two values"):
        pickle.loads(pickle.dumps(gain)).confidence_interval(method="bootstrap")


def make_slates(n=300):
    rng = np.random.default_rng(0)
    slate = np.array([rng.permutation(4)[:2] for _ in range(n)])
    reward = (slate == 0).sum(axis=1) + rng.random(n)
    return SlateLogs(
        rng.random((n, 1)),
        slate,
        reward,
        n_candidates=4,
        logging_policy=UniformSlatePolicy(2),
    )


@pytest.mark.parametrize(
    "evaluator",
    [
        PseudoInverse(),
        PseudoInverse(self_normalized=True),
        PseudoInverse(control_variates="multiple"),
    ],
    ids=repr,
)
def test_slates(evaluator):
    logs = make_slates()
    value = quiet(evaluator, logs, np.tile([0, 1], (300, 1)))
    others = [
        quiet(
            evaluator, logs[np.repeat(np.arange(300), count)], np.tile([0, 1], (300, 1))
        )
        for count in counts(300)
    ]
    agree(value, others)


def test_values_that_cannot_be_resampled():
    rng = np.random.default_rng(0)
    logs = BanditLogs(
        np.zeros((N, 1)), rng.integers(2, size=N), rng.random(N), np.full(N, 0.5)
    )
    for evaluator, policy in (
        (Replay(), ConstantPolicy(1)),
        (DRns(), ConstantPolicy(1)),
        (DRns(horizon=5, n_splits=3), EpsilonGreedy()),
        (AdaptiveIPS(), ConstantPolicy(1)),
    ):
        value = quiet(evaluator, logs, policy)
        name = type(evaluator).__name__
        with pytest.raises(ValueError, match=f"{name} is none: it is one walk"):
            value.confidence_interval(method="bootstrap")


def test_too_little_to_resample():
    logs = make_logs()
    for some, message in (
        (logs[:1], "needs two rounds at least, got 1"),
        (logs.replace(group=np.zeros(N)), "needs two groups at least, got 1"),
    ):
        for method in ("bootstrap", "percentile"):
            with pytest.raises(ValueError, match=message):
                interval_of(quiet(IPS(), some), method=method)
    value = quiet(IPS(), logs)
    for options, message in (
        ({"block_length": 61}, "block_length=61 is too long for 120 rounds"),
        ({"block_length": 0}, "must be a number of rounds"),
        ({"n_resamples": 30}, r"few for level=0\.95.* 40, which put one .* 1000 are"),
        ({"n_resamples": 0}, "n_resamples must be a positive int"),
    ):
        with pytest.raises(ValueError, match=message):
            value.confidence_interval(method="bootstrap", **options)
    grouped = quiet(IPS(), logs.replace(group=np.arange(N) // 2))
    with pytest.raises(ValueError, match=r"those of IPS have groups\. Leave it out"):
        grouped.confidence_interval(method="bootstrap", block_length=3)


def test_groups_of_one_are_rounds():
    logs = make_logs()
    alone = quiet(SNIPS(), logs).confidence_interval(method="bootstrap")
    grouped = quiet(SNIPS(), logs.replace(group=np.arange(N)))
    assert grouped.confidence_interval(method="bootstrap") == pytest.approx(alone)


def test_rounds_that_are_all_alike():
    logs = make_logs()
    logs = logs.replace(reward=np.ones(N))
    value = quiet(SNIPS(), logs)
    for method in ("bootstrap", "percentile"):
        with pytest.warns(TailWarning, match="all round values are alike"):
            found = value.confidence_interval(method=method)
        assert found == pytest.approx((1, 1))


@pytest.mark.parametrize("sign", [1, -1])
def test_few_events_warn_and_say_what_was_left_out(sign):
    logs = make_logs()
    reward = np.zeros(N)
    reward[np.flatnonzero(logs.action_index == 1)[:2]] = sign
    value = quiet(IPS(), logs.replace(reward=reward))
    with pytest.warns(FewEventsWarning) as caught:
        value.confidence_interval(method="bootstrap")
    text = str(caught[0].message)
    assert "resamples without a spread were left out" in text
    assert 1 < caught[0].message.value <= 2
    with pytest.warns(FewEventsWarning, match="'percentile' holds for many rounds"):
        value.confidence_interval(method="percentile")


def test_a_value_that_is_none_has_no_resamples():
    logs = make_logs()
    value = quiet(SNIPS(), logs[logs.action_index != 1], ConstantPolicy(1))
    assert np.isnan(interval_of(value, method="bootstrap")).all()


@pytest.mark.theory
def test_many_rounds_agree_with_student():
    """Counts of more than a tile are Poisson: spread and quantiles are as before."""
    logs = make_logs(30_000, logger=np.arange(30_000) % 2)
    for evaluator in (SNIPS(), MultiLoggerDR(reward_model="q")):
        value = quiet(evaluator, logs)
        student = value.confidence_interval(method="student")
        for method in ("bootstrap", "percentile"):
            found = value.confidence_interval(method=method, n_resamples=4000)
            # the error of a quantile of 4,000 resamples is .03 half widths
            slack = 4 * 0.03 * student.width / 2
            assert_allclose(found, student, rtol=0, atol=slack)


def test_groups_of_no_weight_are_none():
    """As many groups are drawn as there are with rounds that count."""
    group = np.arange(N) % 30
    logs = make_logs(group=group)
    value = quiet(SNIPS(), logs.replace(sample_weight=1.0 * (group < 20)))
    alone = quiet(SNIPS(), logs[group < 20])
    assert_allclose(resampled(value), resampled(alone), rtol=1e-9)

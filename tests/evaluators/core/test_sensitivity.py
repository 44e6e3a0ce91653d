# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pickle
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope import (
    IPS,
    SNDR,
    SNIPS,
    BanditLogs,
    ConstantPolicy,
    DoublyRobust,
    SlateIPS,
    SlateLogs,
    UniformPolicy,
    UniformSlatePolicy,
)
from skope_ope.datasets import make_bandit_logs
from skope_ope.intervals import breakdown_gamma, sensitivity_bounds, student_interval
from tests.evaluators.core._asked import bare_logs, logged_value, quietly

N = 300
LOGS, POLICY = make_bandit_logs(N, random_state=3, return_truth=True)[:2]


def value_of(logs=LOGS, policy=POLICY, **given):
    return quietly(SNIPS().fit(logs).evaluate, policy, **given)


def weights(logs=LOGS):
    pi = POLICY.predict_proba(logs.context)[np.arange(N), logs.action_index]
    return pi / logs.propensity


def test_bounds_are_those_of_the_rounds():
    gamma = [2, 1, 1.5]
    found = value_of().sensitivity(gamma)
    low, high = sensitivity_bounds(weights(), LOGS.reward, LOGS.propensity, gamma)
    assert_array_equal(found.gamma, gamma)
    assert_allclose(found.low, low)
    assert_allclose(found.high, high)
    assert found.value == found.low[1] == found.high[1] == value_of().value
    assert_array_equal(value_of().sensitivity().gamma, [1, 1.5, 2])
    assert_allclose(value_of().sensitivity(2).low, low[:1])


def test_sample_weights_and_groups():
    omega, rows = np.arange(N) % 3.0, np.repeat(np.arange(N), 2)
    about = weights(), LOGS.reward, LOGS.propensity, [1, 2]
    expected = sensitivity_bounds(*about, sample_weight=omega)
    for logs in (LOGS, LOGS.replace(group=np.arange(N) // 3)):
        found = value_of(logs, sample_weight=omega).sensitivity([1, 2])
        assert_allclose([found.low, found.high], expected)
    # groups of copies are rounds: neither bounds nor intervals see the copies
    # without a known range, of which a round of twice as many may bring half
    about = LOGS.context, LOGS.action, 2 * LOGS.reward, LOGS.propensity
    logs = BanditLogs(*about, actions=LOGS.actions)
    again = value_of(logs[rows].replace(group=rows)).sensitivity([2])
    once = value_of(logs).sensitivity([2])
    assert_allclose([again.low, again.high], [once.low, once.high])
    assert again.interval_low < again.low and again.interval_high > again.high
    assert_allclose(again.interval_low, once.interval_low, atol=0.02)
    one = value_of(LOGS.replace(group=np.zeros(N)))  # bounds, and no interval
    found = quietly(one.sensitivity, [2])
    assert found.low < one.value < found.high


def test_intervals_hold_the_sampling_error_of_the_bounds():
    about = LOGS.context, LOGS.action, LOGS.reward * 1.5, LOGS.propensity
    logs = BanditLogs(*about)  # no known range: Student's interval
    value = value_of(logs)
    found = quietly(value.sensitivity, [1, 3], level=0.9)
    plain = quietly(value.confidence_interval, 0.9)
    assert (found.interval_low[0], found.interval_high[0]) == tuple(plain)
    w, r, p = weights(logs), logs.reward, logs.propensity
    answers = found.interval_low[1], found.interval_high[1]
    for k, end in enumerate((found.low[1], found.high[1])):
        heavy = r > end if k else r < end
        extreme = w * p + (w - w * p) * np.where(heavy, 3, 1 / 3)
        assert_allclose(extreme @ r / extreme.sum(), end)
        z = extreme * (r - end) / extreme.mean()
        limits = student_interval(end, z.std(ddof=1) / np.sqrt(N), N - 1, 0.9)
        assert_allclose(answers[k], limits[k])


@pytest.mark.parametrize("gamma", [1e17, 1e100])
def test_huge_odds_ratios_reach_the_rewards(gamma):
    # the bound is then the least reward itself, and no reward lies below it
    found = value_of().sensitivity(gamma)
    assert_allclose(found.low, 0, atol=1e-15)
    assert_allclose(found.high, 1)
    with pytest.raises(ValueError, match="gamma must be at most 1e"):
        value_of().sensitivity(1e300)


def test_intervals_grow_with_gamma_from_that_of_the_value():
    # where few rounds tell: what may not have been seen counts at every gamma
    rng, mu = np.random.default_rng(0), np.tile([0.9, 0.07, 0.03], (60, 1))
    action = rng.integers(0, 2, 60)
    fields = {"actions": [0, 1, 2], "logging_proba": mu}
    logs = bare_logs(action, (rng.random(60) < 0.4) * 1.0, mu[0][action], **fields)
    for target in ([0.5, 0.5, 0.0], [0.4, 0.3, 0.3]):
        value = value_of(logs, np.tile(target, (60, 1)))
        found = value.sensitivity([1, 1 + 1e-9, 1.5, 4])
        for limits, sign in ((found.interval_low, -1), (found.interval_high, 1)):
            assert_allclose(limits[1], limits[0], atol=1e-6)
            assert (sign * np.diff(limits) >= -1e-6).all()


def test_breakdown_is_that_of_the_rounds():
    value, base = value_of(), logged_value(LOGS)
    expected = breakdown_gamma(weights(), LOGS.reward, LOGS.propensity, base.value)
    assert_allclose(value.breakdown_gamma(base), expected)
    assert_allclose(value.breakdown_gamma(base.value), expected)
    assert_allclose(value.sensitivity(expected).low, base.value, atol=1e-9)
    above = value.breakdown_gamma(0.9)
    assert_allclose(value.sensitivity(above).high, 0.9, atol=1e-9)
    assert value.breakdown_gamma(1.5) == value.breakdown_gamma(-1) == np.inf


def test_breakdown_with_the_sampling_error():
    value, base = value_of(), logged_value(LOGS)
    point = value.breakdown_gamma(0.5)
    found = [value.breakdown_gamma(0.5, level=level) for level in (0.2, 0.5, 0.8)]
    assert 1 < found[2] < found[1] < found[0] < point
    assert_allclose(value.sensitivity(found[1], level=0.5).interval_low, 0.5, atol=1e-6)
    assert value.breakdown_gamma(0.5, level=1 - 1e-9) == 1.0
    # a baseline from the same rounds is paired with the bound
    paired = value.breakdown_gamma(base, level=0.5)
    assert 1 < paired < value.breakdown_gamma(base)
    assert value.breakdown_gamma(-1, level=0.5) == np.inf
    above = value.breakdown_gamma(0.9, level=0.5)
    assert_allclose(value.sensitivity(above, level=0.5).interval_high, 0.9, atol=1e-6)


def others():
    rng, uniform = np.random.default_rng(0), UniformSlatePolicy(2)
    slate = np.argsort(rng.random((50, 3)), axis=1)[:, :2]
    about = np.zeros((50, 1)), slate, rng.random(50)
    slates = SlateLogs(*about, n_candidates=3, logging_policy=uniform)
    for evaluator in (IPS(), SNIPS(cmax=2), DoublyRobust(), SNDR()):
        yield evaluator.fit(LOGS).evaluate(POLICY)
    yield logged_value(LOGS)
    yield value_of() - logged_value(LOGS)
    yield SlateIPS(self_normalized=True).fit(slates).evaluate(uniform)


def test_others_refuse_in_a_sentence():
    found = quietly(lambda: list(others()))
    assert len(found) == 7
    for value in found:
        with pytest.raises(ValueError, match="is for SNIPS without cmax on BanditLogs"):
            value.sensitivity()
        with pytest.raises(ValueError, match="breakdown_gamma is for SNIPS"):
            value.breakdown_gamma(0.5)


def test_what_is_refused_in_a_sentence():
    value = value_of()
    far, base = (pickle.loads(pickle.dumps(v)) for v in (value, logged_value(LOGS)))
    never = np.zeros(N, dtype=int), LOGS.reward, np.ones(N)
    nothing = BanditLogs(LOGS.context, *never, actions=[0, 1])
    hidden = "hidden reasons change the value of a policy"
    other = logged_value(make_bandit_logs(N, random_state=4))
    for one, gamma, match in (
        (far, 2, "weights of the rounds, and values do n"),
        (value_of(nothing, ConstantPolicy(1)), 2, "this one is NaN"),
        *((value, gamma, "gamma") for gamma in (0.5, [], [1, 0])),
    ):
        with pytest.raises(ValueError, match=match):
            one.sensitivity(gamma)
    with pytest.raises(TypeError, match="gamma must hold numbers"):
        value.sensitivity("2")
    for baseline, error, match in (
        (base, ValueError, hidden),
        (value_of(policy=UniformPolicy()), ValueError, hidden),
        (other, ValueError, "come from different rounds"),
        *((x, TypeError, "must be a number") for x in ("logger", None, True, [0.5])),
        (np.nan, ValueError, "baseline must be finite"),
    ):
        with pytest.raises(error, match=match):
            value.breakdown_gamma(baseline)
    for ask in (value.sensitivity, partial(value.breakdown_gamma, 0.5)):
        for level in (0, 1, "95%"):
            with pytest.raises(ValueError, match=r"level must lie in \(0, 1\)"):
                ask(level=level)


def test_table():
    found = value_of().sensitivity([1, 1.5])
    names = ("low", "high", "interval_low", "interval_high")
    expected = {"gamma": 1.5} | {name: getattr(found, name)[1] for name in names}
    assert found.to_records()[1] == expected
    lines = repr(found).splitlines()
    assert len(lines) == 3 and lines[0].split()[:3] == ["gamma", "low", "high"]
    assert lines[2].split()[0] == "1.5"
    assert "without its sampling error" in found._repr_html_()
    assert_array_equal(pickle.loads(pickle.dumps(found)).low, found.low)


@pytest.mark.theory
def test_intervals_cover_the_bounds_of_the_whole_world(global_random_seed):
    """Rewards and weights of one law: the bounds of very many rounds are covered."""
    rng = np.random.default_rng(global_random_seed)

    def drawn(n):
        x = rng.integers(0, 2, n)
        p_one = np.where(x == 1, 0.7, 0.4)
        action = (rng.random(n) < p_one).astype(int)
        reward = rng.normal(x + 0.5 * action, 1.0)
        p = np.where(action == 1, p_one, 1 - p_one)
        return x, action, reward, p

    _, action, reward, p = drawn(1_000_000)
    [low], [high] = sensitivity_bounds((action == 1) / p, reward, p, 1.8)
    hits, repetitions = np.zeros(3), 400
    for _ in range(repetitions):
        x, action, reward, p = drawn(400)
        logs = BanditLogs(x[:, None], action, reward, p, actions=[0, 1])
        value = SNIPS().fit(logs).evaluate(ConstantPolicy(1))
        found = quietly(value.sensitivity, 1.8)
        below, above = found.interval_low[0] <= low, found.interval_high[0] >= high
        hits += below, above, below and above
    one, other, both = hits / repetitions
    # each limit misses in 2.5 percent
    assert min(one, other) > 0.94 and both > 0.90
    assert both < 0.999

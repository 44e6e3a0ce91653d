# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Which interval answers, what it says, and whether it covers."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope import (
    IPS,
    SNDR,
    SNIPS,
    BanditLogs,
    DirectMethod,
    DoublyRobust,
    DRns,
    EpsilonGreedy,
    ExplorationScavenging,
    MultiLoggerDR,
    MultiLoggerIPS,
    PositionScavenging,
    PseudoInverse,
    RejectionSampling,
    Replay,
    SlateIPS,
    SlateLogs,
    UniformSlatePolicy,
)
from skope_ope.exceptions import (
    FewEventsWarning,
    OPEWarning,
    PropensityWarning,
    TailWarning,
)
from skope_ope.intervals import betting_interval
from tests.evaluators.core._asked import bare_logs, interval_of, logged_value, quietly


def clicks(n, n_actions, rate, seed=0, **fields):
    """Uniform logs of clicks, and the target that always takes action 0."""
    rng = np.random.default_rng(seed)
    action = rng.integers(n_actions, size=n)
    reward = (rng.random(n) < rate).astype(float)
    fields = {"reward_range": (0, 1), "actions": np.arange(n_actions)} | fields
    logs = bare_logs(action, reward, 1 / n_actions, **fields)
    target = np.zeros((n, n_actions))
    target[:, 0] = 1
    return logs, target


def quiet(evaluator, logs, target):
    return quietly(lambda: evaluator.fit(logs).evaluate(target))


@pytest.mark.parametrize("evaluator", [IPS(), SNIPS(), DoublyRobust(), SNDR()])
def test_a_log_without_a_click_is_no_certainty(evaluator):
    logs, target = clicks(200, 5, 0.0)
    value = quiet(evaluator, logs, target)
    with pytest.warns(TailWarning, match="no width"):
        assert value.confidence_interval(method="student") == (0, 0)
    with pytest.warns(FewEventsWarning, match="0.0 effective events") as caught:
        interval = value.confidence_interval()
    assert caught[0].message.value == 0
    assert interval.low == 0 and 0.05 < interval.high < 0.5
    assert (interval.method, interval.max_weight) == ("gamma", 5)
    assert interval.max_weight_from == "propensities of the actions"
    assert interval.reward_range == (0, 1)


def test_one_click_has_no_negative_limit():
    logs, target = clicks(200, 2, 0.0)
    reward = np.zeros(200)
    reward[np.flatnonzero(logs.action_index == 0)[0]] = 1
    value = quiet(IPS(), logs.replace(reward=reward), target)
    assert value.confidence_interval(method="student").low < 0
    interval = interval_of(value)
    assert 0 <= interval.low < value.value < interval.high < 0.1
    assert_allclose(interval.warnings[0].value, 1)


@pytest.mark.theory
@pytest.mark.parametrize(
    "evaluator", [IPS(), SNIPS(), DoublyRobust(), SNDR()], ids=lambda e: repr(e)
)
@pytest.mark.parametrize(("n_actions", "rate"), [(2, 0.005), (5, 0.05), (34, 0.3)])
def test_coverage_with_few_events(evaluator, n_actions, rate):
    """Student's covers .15 to .75 of these; nominal .95, 4 standard errors below."""
    hits, n_logs = 0, 100
    for seed in range(n_logs):
        logs, target = clicks(100, n_actions, rate, seed)
        low, high = interval_of(quiet(evaluator, logs, target))
        assert 0 <= low <= high <= 1
        hits += low <= rate <= high
    assert hits / n_logs >= 0.95 - 4 * np.sqrt(0.05 * 0.95 / n_logs)


def test_where_no_round_is_large_student_answers():
    logs, target = clicks(5000, 2, 0.4)
    for evaluator in (IPS(), DoublyRobust()):
        value = quiet(evaluator, logs, target)
        interval = value.confidence_interval()
        assert interval == value.confidence_interval(method="student")
        assert interval.method == "student" and interval.max_weight is None


def test_rewards_of_zero_and_one_have_a_known_range():
    logs, target = clicks(300, 5, 0.02, reward_range=None)
    assert set(logs.reward) == {0, 1}
    assert interval_of(quiet(IPS(), logs, target)).reward_range == (0, 1)
    scaled = interval_of(quiet(IPS(), logs.replace(reward=2 * logs.reward), target))
    assert scaled.method == "student" and scaled.reward_range is None


def test_tails_of_unknown_range_ring():
    rng = np.random.default_rng(3)
    logs, target = clicks(200, 3, 0.0, reward_range=None)
    heavy = quiet(IPS(), logs.replace(reward=rng.lognormal(0, 2, 200)), target)
    with pytest.warns(TailWarning, match="Give reward_range.*Leave it out") as caught:
        interval = heavy.confidence_interval()
    change = heavy.round_values - heavy.value
    expected = (change[change > 0] ** 3).sum() / (change**2).sum() ** 1.5
    assert_allclose(caught[0].message.value, expected)
    assert interval == heavy.confidence_interval(method="student")
    calm = logs.replace(reward=rng.normal(5, 1, 200))
    assert not interval_of(quiet(SNIPS(), calm, target)).warnings
    alike = quiet(IPS(), logs, target)
    with pytest.warns(TailWarning, match="all round values are alike"):
        assert alike.confidence_interval() == (0, 0)


def test_max_weight():
    logs, target = clicks(100, 4, 0.1)
    mixed = logs.replace(propensity=np.where(np.arange(100) % 2, 0.25, 0.24))
    value = quiet(IPS(), mixed, target)
    usual = interval_of(value)
    assert usual.max_weight_from == "largest logged weight"
    assert_allclose(usual.max_weight, 1 / 0.24)
    with pytest.raises(ValueError, match="pass max_weight"):
        value.confidence_interval(method="gamma")
    with pytest.warns(FewEventsWarning):
        stated = value.confidence_interval(method="gamma", max_weight=20)
    assert (stated.max_weight, stated.max_weight_from) == (20, "stated")
    assert stated.high > usual.high
    with pytest.raises(ValueError, match=r"max_weight=2 is below .* row \d+, 4.1"):
        value.confidence_interval(max_weight=2)
    with pytest.raises(ValueError, match="max_weight must be a positive number"):
        value.confidence_interval(max_weight=-1)
    whole = logs.replace(logging_proba=np.full((100, 4), 0.25))
    known = interval_of(quiet(IPS(), whole, target), method="gamma")
    assert (known.max_weight, known.max_weight_from) == (4, "logging_proba")


def test_unseen_heavy_actions_count():
    """The logged weights are 1.1; the policy may meet one of 10."""
    n = 60
    mu = np.tile([0.9, 0.1], (n, 1))
    logs = bare_logs(
        np.zeros(n, dtype=int),
        np.tile([0.0, 1.0], n // 2),
        mu[:, 0],
        actions=[0, 1],
        logging_proba=mu,
    )
    target = np.tile([0.5, 0.5], (n, 1))
    interval = interval_of(quiet(IPS(), logs, target))
    assert_allclose(interval.max_weight, 5)
    without = interval_of(quiet(IPS(), logs.replace(logging_proba=None), target))
    assert without.max_weight < 1.1 or without.max_weight_from != "logging_proba"


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
def test_a_known_bound_stays_known_where_the_error_is_large():
    # one heavy round of few: five times the range is the standard error
    mu, action = np.tile([0.97, 0.02, 0.01], (15, 1)), np.zeros(15, dtype=int)
    action[3], action[13] = 1, 2
    reward = (action == 2).astype(float)
    fields = {"actions": [0, 1, 2], "logging_proba": mu}
    logs = bare_logs(action, reward, mu[0][action], **fields)
    value = IPS().fit(logs).evaluate(np.tile([0.1, 0.1, 0.8], (15, 1)))
    assert value.standard_error > 5
    for method in ("gamma", "auto"):
        interval = value.confidence_interval(method=method)
        assert interval.max_weight_from == "logging_proba"
        assert_allclose(interval.max_weight, 80)


@pytest.mark.parametrize("evaluator", [IPS(), SNIPS(), DoublyRobust(), SNDR()])
def test_weights_that_hardly_ever_occur_do_not_bound_the_interval(evaluator):
    """Those above have too little of the policy's probability to matter."""
    rng = np.random.default_rng(5)
    n, K = 60, 3
    mu = rng.dirichlet(np.ones(K) * 3, n)
    action = np.array([rng.choice(K, p=row) for row in mu])
    logs = BanditLogs(
        rng.normal(size=(n, 2)),
        action,
        rng.uniform(-1, 2, n),
        mu[np.arange(n), action],
        logging_proba=mu,
        reward_range=(-1, 2),
    )
    pi = rng.dirichlet(np.ones(K), n)
    value = quiet(evaluator, logs, pi)
    found = interval_of(value, method="gamma")
    assert (pi / mu)[np.arange(n), action].max() <= found.max_weight <= (pi / mu).max()
    rare = (pi * (pi / mu > found.max_weight)).sum() / n
    assert rare * 3 <= 0.25 * value.standard_error


def test_differences_stay_in_their_range():
    logs, target = clicks(100, 5, 0.02, seed=4)
    other = np.zeros((100, 5))
    other[:, 1] = 1
    evaluator = IPS().fit(logs)
    first, second = (quietly(evaluator.evaluate, one) for one in (target, other))
    gain, against = first - second, first - logged_value(logs)
    for difference in (gain, against):
        interval = interval_of(difference)
        assert interval.method == "gamma" and interval.reward_range == (-1, 1)
        assert -1 <= interval.low < difference.value < interval.high <= 1
        assert interval.width > 0.02


def test_a_value_outside_the_range_is_told():
    n = 50
    logs = bare_logs(np.zeros(n, int), 1.0, 0.1, actions=[0, 1], reward_range=(0, 1))
    value = quiet(IPS(), logs, np.tile([1.0, 0.0], (n, 1)))
    with pytest.warns(FewEventsWarning), pytest.warns(PropensityWarning) as caught:
        assert value.confidence_interval(method="auto") == (0, 1)
    assert any("outside the range of the rewards" in str(w.message) for w in caught)


def test_an_interval_without_its_value_says_so():
    rng = np.random.default_rng(9)
    action = (rng.random(300) < 0.6).astype(int)
    p = np.full(300, 0.5)
    reward = 1000 + rng.random(300)
    fields = {"reward_range": (1000, 1001), "actions": [0, 1]}
    logs = bare_logs(action, reward, p, **fields)
    value = quiet(IPS(), logs, np.tile([0.0, 1.0], (300, 1)))
    assert value.value > 1001
    with pytest.warns(OPEWarning, match="outside the range of the rewards"):
        value.confidence_interval()


def outside_logs(n=200):
    """More than its share of a rare action, which nearly always brings the best."""
    rng = np.random.default_rng(2)
    action = (np.arange(n) % 8 == 0).astype(int)
    reward = np.where(rng.random(n) < 0.9, 1.0, 0.0)
    propensity = np.where(action == 1, 0.08, 0.92)
    return bare_logs(action, reward, propensity, actions=[0, 1])


def test_a_value_outside_the_range_is_not_the_surer_for_it():
    logs = outside_logs()
    value = quiet(IPS(), logs, np.tile([0.0, 1.0], (200, 1)))
    assert value.value > 1
    low, high = interval_of(value, method="student")
    half = (high - low) / 2
    assert low < 1  # a cut alone would leave little
    for method in ("auto", "gamma"):
        found = interval_of(value, method=method, max_weight=12.5)
        assert found.high == 1
        assert found.low < low - 0.8 * (value.value - 1)
        assert found.width > 0.9 * half
    # limits that are proved stay what they are
    proven = interval_of(value, method="betting", max_weight=12.5)
    plain = betting_interval((logs.action == 1) / logs.propensity * logs.reward, 12.5)
    assert proven == (plain[0], 1)


def test_a_value_below_the_range_is_not_the_surer_for_it():
    rng = np.random.default_rng(9)
    action = (rng.random(300) < 0.47).astype(int)
    reward = 4 + rng.random(300)
    fields = {"reward_range": (4, 5), "actions": [0, 1]}
    logs = bare_logs(action, reward, 0.5, **fields)
    value = quiet(IPS(), logs, np.tile([0.0, 1.0], (300, 1)))
    _, high = interval_of(value, method="student")
    assert value.value < 4 < high < 5
    found = interval_of(value)
    assert found.low == 4
    assert_allclose(found.high, high + 4 - value.value, atol=0.05)


def test_a_value_that_cannot_be_formed_may_be_anything():
    logs, target = clicks(20, 2, 0.5)
    logs = logs[logs.action_index == 1]
    value = quiet(SNIPS(), logs, target[: len(logs)])
    assert np.isnan(value.value)
    with pytest.warns(FewEventsWarning, match="whole range"):
        assert value.confidence_interval() == (0, 1)
    logs, target = clicks(20, 2, 0.0, reward_range=None)
    logs = logs[logs.action_index == 1]
    unknown = quiet(SNIPS(), logs, target[: len(logs)])
    assert np.isnan(unknown.confidence_interval()).all()


def test_groups_are_clustered():
    rng = np.random.default_rng(6)
    logs, target = clicks(400, 3, 0.1)
    user = np.repeat(np.arange(80), 5)
    reward = (rng.random(80) < 0.03)[user].astype(float)
    grouped = logs.replace(reward=reward, group=user)
    value, plain = (
        quiet(IPS(), one, target) for one in (grouped, grouped.replace(group=None))
    )
    wide, narrow = interval_of(value), interval_of(plain)
    assert wide.method == "gamma" and wide.low >= 0
    assert wide.width > 1.2 * narrow.width
    events = [one.verdict.reasons[0].number for one in (value, plain)]
    assert events[0] < events[1]


@pytest.mark.thorough
def test_users_who_always_click_may_not_be_in_the_log():
    """Student's covers .57 here: most misses are logs without such a user."""
    hits, n_logs, share, n_users, n_each = 0, 100, 0.01, 100, 25
    user = np.repeat(np.arange(n_users), n_each)
    for seed in range(n_logs):
        rng = np.random.default_rng(seed)
        logs, target = clicks(n_users * n_each, 2, 0.0, seed)
        reward = (rng.random(n_users) < share)[user].astype(float)
        value = quiet(SNIPS(), logs.replace(reward=reward, group=user), target)
        low, high = interval_of(value)
        hits += low <= share <= high
    assert hits / n_logs >= 0.95 - 4 * np.sqrt(0.05 * 0.95 / n_logs)


def test_rounding_is_no_spread():
    logs, target = clicks(30, 3, 0.0)
    fields = {"actions": logs.actions, "reward_range": (0, 1000)}
    p = np.array([0.4, 0.4, 0.2])[logs.action_index]
    same = BanditLogs(logs.context, logs.action, np.full(30, 1000.0), p, **fields)
    interval = interval_of(quiet(SNIPS(), same, np.roll(target, 2, axis=1)))
    assert interval.method == "gamma" and interval.low < 950 and interval.high == 1000


@pytest.mark.thorough
def test_few_rounds_of_an_action_are_in_the_model_too():
    """DoublyRobust's own limits lie above the truth in .16 of these logs."""
    hits, n_logs, p = 0, 100, np.array([0.49, 0.49, 0.02])
    for seed in range(n_logs):
        rng = np.random.default_rng(seed)
        action = rng.choice(3, size=100, p=p)
        reward = rng.random(100) < np.array([0.2, 0.2, 0.5])[action]
        fields = {"reward_range": (0, 1), "actions": [0, 1, 2]}
        logs = bare_logs(action, reward, p[action], **fields)
        value = quiet(DoublyRobust(), logs, np.tile([0.0, 0.0, 1.0], (100, 1)))
        low, high = interval_of(value)
        hits += low <= 0.5 <= high
    assert hits / n_logs >= 0.95 - 4 * np.sqrt(0.05 * 0.95 / n_logs)
    stored = pickle.loads(pickle.dumps(value))
    [group] = value.by(np.zeros(100)).values()
    assert interval_of(stored) == interval_of(group) == (low, high)
    gain = value - logged_value(logs)
    assert interval_of(gain).width >= 0.9 * (high - low)
    assert interval_of(pickle.loads(pickle.dumps(gain))) == interval_of(gain)


def test_a_tail_that_the_policys_few_rounds_do_not_show_rings():
    rng = np.random.default_rng(4)
    p = np.array([0.9, 0.1])
    action = (np.arange(300) % 10 == 0).astype(int)
    reward = rng.normal(5, 1, 300)
    fields = {"actions": [0, 1]}
    calm = bare_logs(action, reward, p[action], **fields)
    target = np.tile([0.0, 1.0], (300, 1))
    assert not interval_of(quiet(SNIPS(), calm, target)).warnings
    heavy = reward.copy()
    heavy[1] = -60  # of the other action
    value = quiet(SNIPS(), calm.replace(reward=heavy), target)
    [warned] = interval_of(value).warnings
    assert isinstance(warned, TailWarning) and "Too few rounds" in str(warned)
    assert warned.value <= 0.25
    gain = value - logged_value(calm.replace(reward=heavy))
    assert any(isinstance(w, TailWarning) for w in interval_of(gain).warnings)


@pytest.mark.parametrize("evaluator", [IPS(), SNIPS(), DoublyRobust(), SNDR()])
def test_what_was_never_logged_may_bring_anything(evaluator):
    logs, _ = clicks(2000, 2, 0.3)
    logs = BanditLogs(
        logs.context, logs.action, logs.reward, logs.propensity, actions=[0, 1, 2]
    )
    partly = np.tile([0.4, 0.4, 0.2], (2000, 1))
    wholly = np.tile([0.5, 0.5, 0.0], (2000, 1))
    value, other = (quiet(evaluator, logs, one) for one in (partly, wholly))
    gain = quietly(lambda: value - other)
    low, high = interval_of(value)
    assert low < 0.8 * 0.3 and high > 0.8 * 0.3 + 0.2
    plain = value.confidence_interval(method="student")
    assert_allclose([plain.low - low, high - plain.high], 0.2, atol=1e-12)
    assert_allclose(
        interval_of(gain).width - interval_of(gain, 0.9).width, 0, atol=0.02
    )
    assert 0.4 < interval_of(gain).width < 0.5
    never = quiet(evaluator, logs, np.tile([0.0, 0.0, 1.0], (2000, 1)))
    assert interval_of(never) == (0, 1)


def test_an_infinite_range_is_none():
    logs, target = clicks(100, 2, 0.2, reward_range=(0, np.inf))
    assert interval_of(quiet(IPS(), logs, target)).reward_range is None


def test_one_round_tells_nothing():
    logs, target = clicks(1, 2, 1.0)
    with pytest.warns(FewEventsWarning, match="whole range"):
        assert quiet(IPS(), logs, target).confidence_interval() == (0, 1)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        *(({"level": x}, r"level must lie in \(0, 1\), got") for x in ("a", 0, 1, 95)),
        *(({"level": x}, r"level must lie in \(0, 1\), got") for x in (-0.1, np.nan)),
        ({"max_weight": "3"}, "max_weight must be a positive number"),
        ({"method": ["auto"]}, "method must be one of"),
        ({"method": "x"}, r"must be one of 'auto', 'gamma', .* got 'x'"),
    ],
)
def test_arguments_of_another_kind(given, match):
    logs, target = clicks(50, 2, 0.2)
    with pytest.raises(ValueError, match=match):
        quiet(IPS(), logs, target).confidence_interval(**given)


def test_results_keep_their_interval_when_pickled():
    logs, target = clicks(100, 5, 0.05)
    value = quiet(SNIPS(), logs, target)
    gain = value - logged_value(logs)
    for one in (value, gain):
        stored = pickle.loads(pickle.dumps(one))
        assert interval_of(stored) == interval_of(one)
        assert interval_of(stored, 0.8) == interval_of(one, 0.8)
        assert interval_of(stored).max_weight == interval_of(one).max_weight
        with pytest.raises(ValueError, match="max_weight cannot be used"):
            interval_of(stored, max_weight=50)


@pytest.mark.parametrize("pooling", ["naive", "balanced", "weighted"])
@pytest.mark.parametrize("cls", [MultiLoggerIPS, MultiLoggerDR])
def test_loggers(cls, pooling):
    rng = np.random.default_rng(7)
    n, K = 300, 4
    logger = rng.integers(2, size=n)
    under = np.array([[0.25] * 4, [0.7, 0.1, 0.1, 0.1]])
    action = np.array([rng.choice(K, p=under[g]) for g in logger])
    proba = under[:, action].T
    logs = bare_logs(
        action,
        0.0,
        proba[np.arange(n), logger],
        logger=logger,
        logger_proba=proba,
        reward_range=(0, 1),
    )
    target = np.tile([0.0, 0, 0, 1.0], (n, 1))
    interval = interval_of(quiet(cls(pooling=pooling), logs, target))
    assert interval.method == "gamma"
    assert interval.low == 0 and 0.01 < interval.high < 0.5


def test_slates():
    rng = np.random.default_rng(8)
    n = 100
    slates = rng.permuted(np.tile(np.arange(6), (n, 1)), axis=1)[:, :3]
    fields = {"logging_policy": UniformSlatePolicy(3), "reward_range": (0, 1)}
    logs = SlateLogs(np.zeros((n, 1)), slates, np.zeros(n), n_candidates=6, **fields)
    target = np.tile([0, 1, 2], (n, 1))
    for evaluator in (PseudoInverse(), PseudoInverse(self_normalized=True)):
        interval = interval_of(quiet(evaluator, logs, target))
        assert interval.method == "gamma" and 0.02 < interval.high <= 1
    missed = quiet(SlateIPS(), logs[:20], target[:20])
    if np.isnan(missed.value):
        assert interval_of(missed) == (0, 1)


def test_scavenging():
    logs, target = clicks(100, 3, 0.0)
    value = quiet(ExplorationScavenging(), logs.replace(propensity=None), target)
    interval = interval_of(value)
    assert interval.method == "gamma" and 0.02 < interval.high < 0.2


@pytest.mark.parametrize(
    "evaluator",
    [
        Replay(),
        pytest.param(RejectionSampling(random_state=0), marks=pytest.mark.theory),
        pytest.param(DRns(random_state=0), marks=pytest.mark.theory),
    ],
)
def test_sequential_evaluators_of_a_stationary_policy(evaluator):
    hits, n_logs = 0, 100
    for seed in range(n_logs):
        logs, target = clicks(200, 4, 0.03, seed)
        value = quiet(evaluator, logs, target)
        low, high = interval_of(value)
        assert interval_of(value).method == "gamma" and low >= 0
        hits += low <= 0.03 <= high
    assert hits / n_logs >= 0.95 - 4 * np.sqrt(0.05 * 0.95 / n_logs)
    stored = pickle.loads(pickle.dumps(value))
    assert interval_of(stored) == (low, high)


def test_what_is_no_mean_of_rounds_is_students():
    logs, target = clicks(400, 2, 0.2)
    model = interval_of(quiet(DirectMethod(), logs, target))
    assert model.method == "student" and model.low >= 0
    learner = EpsilonGreedy()
    evaluator = DRns(horizon=30, n_splits=4)
    several = quiet(evaluator, logs, learner)
    assert interval_of(several).method == "student"
    assert_array_equal(
        interval_of(several), interval_of(several, method="student"), strict=False
    )


@pytest.mark.parametrize(
    "evaluator", [Replay(horizon=30, random_state=0), DRns(horizon=30, random_state=0)]
)
def test_histories_with_few_clicks_stay_in_the_range_and_ring(evaluator):
    logs, _ = clicks(600, 2, 0.0)
    reward = np.zeros(600)
    none = quiet(evaluator, logs.replace(reward=reward), EpsilonGreedy())
    with pytest.warns(TailWarning, match="all round values are alike") as caught:
        assert none.confidence_interval() == (0, 0)
    assert "State reward_range" not in str(caught[0].message)  # it is stated
    reward[40] = 1
    few = quiet(evaluator, logs.replace(reward=reward), EpsilonGreedy())
    assert few.value > 0 > few.confidence_interval(method="student").low
    with pytest.warns(TailWarning, match="few rounds make most of the spread"):
        assert few.confidence_interval().low == 0


def test_parts_that_are_alike_ring():
    logs, _ = clicks(600, 2, 0.0, reward_range=None)
    learner = EpsilonGreedy()
    value = quiet(Replay(horizon=30), logs.replace(reward=np.full(600, 2.0)), learner)
    assert value.standard_error == 0
    with pytest.warns(TailWarning, match="alike.*Give reward_range.*Leave it out"):
        value.confidence_interval()


def test_a_difference_where_no_round_has_a_reward_has_an_interval():
    logs = bare_logs([0, 1] * 25, 0.0, 0.5)
    first, second = (
        IPS().fit(logs).evaluate(np.tile(row, (50, 1))) for row in np.eye(2)
    )
    assert tuple(interval_of(first - second)) == (0, 0)


def test_methods_that_need_the_range_of_the_rewards():
    logs, target = clicks(100, 2, 0.2, reward_range=None)
    unknown = quiet(IPS(), logs.replace(reward=3 * logs.reward), target)
    with pytest.raises(ValueError, match="needs the range of the rewards"):
        unknown.confidence_interval(method="gamma")


def test_differences_of_values_without_a_reach_travel():
    rng = np.random.default_rng(10)
    slates = rng.permuted(np.tile(np.arange(4), (60, 1)), axis=1)[:, :2]
    slot_reward = (rng.random((60, 2)) < 0.1).astype(float)
    logs = SlateLogs(np.zeros((60, 1)), slates, n_candidates=4, slot_reward=slot_reward)
    evaluator = PositionScavenging(attention=[1, 0.5])
    one = quiet(evaluator, logs, np.tile([0, 1], (60, 1)))
    other = quiet(evaluator, logs, np.tile([2, 3], (60, 1)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gain = one - other
    assert interval_of(pickle.loads(pickle.dumps(gain))) == interval_of(gain)

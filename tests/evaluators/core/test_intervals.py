# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Which interval answers, what it says, and whether it covers."""

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
    DRos,
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
    SwitchDR,
    UniformSlatePolicy,
)
from skope_ope.exceptions import (
    FewEventsWarning,
    OPEWarning,
    PropensityWarning,
    TailWarning,
)
from skope_ope.intervals import betting_interval
from tests.evaluators.core._asked import (
    bare_logs,
    by_pickle,
    interval_of,
    logged_value,
    quietly,
    value_of,
)


def always(action, n, n_actions):
    """The policy that always takes one action, as an array."""
    return np.tile(np.eye(n_actions)[action], (n, 1))


def clicks(n, n_actions, rate, seed=0, **fields):
    """Uniform logs of clicks, and the target that always takes action 0."""
    rng = np.random.default_rng(seed)
    action = rng.integers(n_actions, size=n)
    reward = (rng.random(n) < rate).astype(float)
    fields = {"reward_range": (0, 1), "actions": np.arange(n_actions)} | fields
    return bare_logs(action, reward, 1 / n_actions, **fields), always(0, n, n_actions)


N_LOGS = 100
EVALUATORS = [IPS(), SNIPS(), DoublyRobust(), SNDR()]
of_rounds = pytest.mark.parametrize("evaluator", EVALUATORS, ids=repr)


def share_that_covers(truth, make_value, least=-np.inf):
    """Ask values of a hundred logs to cover the truth; the last, and its interval."""
    hits = 0
    for seed in range(N_LOGS):
        value = make_value(seed)
        low, high = interval_of(value)
        assert least <= low <= high
        hits += low <= truth <= high
    assert hits / N_LOGS >= 0.95 - 4 * np.sqrt(0.05 * 0.95 / N_LOGS)
    return value, (low, high)


@of_rounds
def test_a_log_without_a_click_is_no_certainty(evaluator):
    value = value_of(evaluator, *clicks(200, 5, 0.0))
    for method in ("student", "normal"):
        with pytest.warns(TailWarning, match="no width"):
            assert value.confidence_interval(method=method) == (0, 0)
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
    value = value_of(IPS(), logs.replace(reward=reward), target)
    assert value.confidence_interval(method="student").low < 0
    interval = interval_of(value)
    assert 0 <= interval.low < value.value < interval.high < 0.1
    assert_allclose(interval.warnings[0].value, 1, rtol=0.02)


@pytest.mark.theory
@of_rounds
@pytest.mark.parametrize(("n_actions", "rate"), [(2, 0.005), (5, 0.05), (34, 0.3)])
def test_coverage_with_few_events(evaluator, n_actions, rate):
    """Student's covers .15 to .75 of these; nominal .95, 4 standard errors below."""

    def of(seed):
        return value_of(evaluator, *clicks(100, n_actions, rate, seed))

    share_that_covers(rate, of, least=0)


def test_where_no_round_is_large_or_no_range_is_known_student_answers():
    logs, target = clicks(5000, 2, 0.4)
    for evaluator in (IPS(), DoublyRobust()):
        value = value_of(evaluator, logs, target)
        interval = value.confidence_interval()
        assert interval == value.confidence_interval(method="student")
        assert interval.method == "student" and interval.max_weight is None
    # rewards of zero and one have a known range
    logs, target = clicks(300, 5, 0.02, reward_range=None)
    assert set(logs.reward) == {0, 1}
    assert interval_of(value_of(IPS(), logs, target)).reward_range == (0, 1)
    scaled = value_of(IPS(), logs.replace(reward=3 * logs.reward), target)
    assert interval_of(scaled).method == "student"
    assert interval_of(scaled).reward_range is None
    with pytest.raises(ValueError, match="needs the range of the rewards"):
        scaled.confidence_interval(method="gamma")
    logs, target = clicks(100, 2, 0.2, reward_range=(0, np.inf))  # which is none
    assert interval_of(value_of(IPS(), logs, target)).reward_range is None


def test_tails_of_unknown_range_ring():
    rng = np.random.default_rng(3)
    logs, target = clicks(200, 3, 0.0, reward_range=None)
    heavy = value_of(IPS(), logs.replace(reward=rng.lognormal(0, 2, 200)), target)
    with pytest.warns(TailWarning, match="Give reward_range.*Leave it out") as caught:
        interval = heavy.confidence_interval()
    change = heavy.round_values - heavy.value
    expected = (change[change > 0] ** 3).sum() / (change**2).sum() ** 1.5
    assert_allclose(caught[0].message.value, expected)
    assert interval == heavy.confidence_interval(method="student")
    calm = logs.replace(reward=rng.normal(5, 1, 200))
    assert not interval_of(value_of(SNIPS(), calm, target)).warnings
    with pytest.warns(TailWarning, match="all round values are alike"):
        assert value_of(IPS(), logs, target).confidence_interval() == (0, 0)


def test_max_weight():
    logs, target = clicks(100, 4, 0.1)
    mixed = logs.replace(propensity=np.where(np.arange(100) % 2, 0.25, 0.24))
    value = value_of(IPS(), mixed, target)
    usual = interval_of(value)
    assert usual.max_weight_from == "largest logged weight"
    assert_allclose(usual.max_weight, 1 / 0.24)
    with pytest.warns(FewEventsWarning):
        stated = value.confidence_interval(method="gamma", max_weight=20)
    assert (stated.max_weight, stated.max_weight_from) == (20, "stated")
    assert stated.high > usual.high
    for given, match in (
        ({"method": "gamma"}, "pass max_weight"),
        ({"max_weight": 2}, r"max_weight=2 is below .* row \d+, 4.1"),
        ({"max_weight": -1}, "max_weight must be a positive number"),
    ):
        with pytest.raises(ValueError, match=match):
            value.confidence_interval(**given)
    whole = logs.replace(logging_proba=np.full((100, 4), 0.25))
    known = interval_of(value_of(IPS(), whole, target), method="gamma")
    assert (known.max_weight, known.max_weight_from) == (4, "logging_proba")


def test_unseen_heavy_actions_count():
    """The logged weights are 1.1; the policy may meet one of 10."""
    mu, reward = np.tile([0.9, 0.1], (60, 1)), np.arange(60) % 2.0
    fields = {"actions": [0, 1], "logging_proba": mu}
    logs = bare_logs(np.zeros(60, dtype=int), reward, 0.9, **fields)
    known, unknown = (
        interval_of(value_of(IPS(), one, np.full((60, 2), 0.5)))
        for one in (logs, logs.replace(logging_proba=None))
    )
    assert_allclose(known.max_weight, 5)
    assert unknown.max_weight < 1.1 or unknown.max_weight_from != "logging_proba"


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
def test_a_known_bound_stays_known_where_the_error_is_large():
    # one heavy round of few: five times the range is the standard error
    mu, action = np.tile([0.97, 0.02, 0.01], (15, 1)), np.zeros(15, dtype=int)
    action[[3, 13]] = 1, 2
    fields = {"actions": [0, 1, 2], "logging_proba": mu}
    logs = bare_logs(action, (action == 2) * 1.0, mu[0][action], **fields)
    value = value_of(IPS(), logs, np.tile([0.1, 0.1, 0.8], (15, 1)))
    assert value.standard_error > 5
    for method in ("gamma", "auto"):
        interval = value.confidence_interval(method=method)
        assert interval.max_weight_from == "logging_proba"
        assert_allclose(interval.max_weight, 80)


@of_rounds
def test_weights_that_hardly_ever_occur_do_not_bound_the_interval(evaluator):
    """Those above have too little of the policy's probability to matter."""
    rng, n = np.random.default_rng(5), 60
    mu = rng.dirichlet(np.ones(3) * 3, n)
    action = np.array([rng.choice(3, p=row) for row in mu])
    own, X = (np.arange(n), action), rng.normal(size=(n, 2))
    fields = {"logging_proba": mu, "reward_range": (-1, 2)}
    logs = BanditLogs(X, action, rng.uniform(-1, 2, n), mu[own], **fields)
    pi = rng.dirichlet(np.ones(3), n)
    value = value_of(evaluator, logs, pi)
    most = interval_of(value, method="gamma").max_weight
    assert (pi / mu)[own].max() <= most <= (pi / mu).max()
    rare = (pi * (pi / mu > most)).sum() / n
    assert rare * 3 <= 0.25 * value.standard_error


def test_differences_stay_in_their_range():
    logs, target = clicks(100, 5, 0.02, seed=4)
    first, second = (value_of(IPS(), logs, x) for x in (target, always(1, 100, 5)))
    for difference in (first - second, first - logged_value(logs)):
        interval = interval_of(difference)
        assert interval.method == "gamma" and interval.reward_range == (-1, 1)
        assert -1 <= interval.low < difference.value < interval.high <= 1
        assert interval.width > 0.02
    # where no round has a reward, whose range is not known
    logs = bare_logs([0, 1] * 25, 0.0, 0.5)
    first, second = (value_of(IPS(), logs, always(a, 50, 2)) for a in (0, 1))
    assert tuple(interval_of(first - second)) == (0, 0)


def test_a_value_outside_the_range_is_told():
    n = 50
    logs = bare_logs(np.zeros(n, int), 1.0, 0.1, actions=[0, 1], reward_range=(0, 1))
    value = value_of(IPS(), logs, always(0, n, 2))
    with pytest.warns(FewEventsWarning), pytest.warns(PropensityWarning) as caught:
        assert value.confidence_interval(method="auto") == (0, 1)
    assert any("outside the range of the rewards" in str(w.message) for w in caught)
    # an interval without its value says so as well
    value = value_of(IPS(), *near(1000, 0.6))
    assert value.value > 1001
    with pytest.warns(OPEWarning, match="outside the range of the rewards"):
        value.confidence_interval()


def near(reward, share):
    """Logs of rewards from a number to the next, with a wrong propensity."""
    rng = np.random.default_rng(9)
    action = (rng.random(300) < share).astype(int)
    fields = {"reward_range": (reward, reward + 1), "actions": [0, 1]}
    return bare_logs(action, reward + rng.random(300), 0.5, **fields), always(1, 300, 2)


def test_a_value_outside_the_range_is_not_the_surer_for_it():
    # more than its share of a rare action, which nearly always brings the best
    action = (np.arange(200) % 8 == 0).astype(int)
    reward = (np.random.default_rng(2).random(200) < 0.9) * 1.0
    p = np.where(action == 1, 0.08, 0.92)
    logs = bare_logs(action, reward, p, actions=[0, 1])
    value = value_of(IPS(), logs, always(1, 200, 2))
    assert value.value > 1
    low, high = interval_of(value, method="student")
    assert low < 1  # a cut alone would leave little
    for method in ("auto", "gamma"):
        found = interval_of(value, method=method, max_weight=12.5)
        assert found.high == 1
        assert found.low < low - 0.8 * (value.value - 1)
        assert found.width > 0.9 * (high - low) / 2
    # limits that are proved stay what they are
    proven = interval_of(value, method="betting", max_weight=12.5)
    plain = betting_interval((action == 1) / p * reward, 12.5)
    assert proven == (plain[0], 1)
    # nor is one below it
    value = value_of(IPS(), *near(4, 0.47))
    _, high = interval_of(value, method="student")
    assert value.value < 4 < high < 5
    found = interval_of(value)
    assert found.low == 4
    assert_allclose(found.high, high + 4 - value.value, atol=0.05)


def test_a_value_that_cannot_be_formed_may_be_anything():
    for rate, known, expected in ((0.5, (0, 1), (0, 1)), (0.0, None, (np.nan,) * 2)):
        logs, target = clicks(20, 2, rate, reward_range=known)
        logs = logs[logs.action_index == 1]
        value = value_of(SNIPS(), logs, target[: len(logs)])
        assert np.isnan(value.value)
        assert_array_equal(interval_of(value), expected)
    one_round = value_of(IPS(), *clicks(1, 2, 1.0))
    with pytest.warns(FewEventsWarning, match="whole range"):
        assert one_round.confidence_interval() == (0, 1)


def test_groups_are_clustered():
    logs, target = clicks(400, 3, 0.1)
    user = np.repeat(np.arange(80), 5)
    reward = (np.random.default_rng(6).random(80) < 0.03)[user].astype(float)
    both = (logs.replace(reward=reward, group=group) for group in (user, None))
    value, plain = (value_of(IPS(), one, target) for one in both)
    wide, narrow = interval_of(value), interval_of(plain)
    assert wide.method == "gamma" and wide.low >= 0
    assert wide.width > 1.2 * narrow.width
    events = [one.verdict.reasons[0].number for one in (value, plain)]
    assert events[0] < events[1]


@pytest.mark.thorough
def test_users_who_always_click_may_not_be_in_the_log():
    """Student's covers .57 here: most misses are logs without such a user."""
    share, user = 0.01, np.repeat(np.arange(100), 25)

    def of(seed):
        logs, target = clicks(2500, 2, 0.0, seed)
        reward = (np.random.default_rng(seed).random(100) < share)[user].astype(float)
        return value_of(SNIPS(), logs.replace(reward=reward, group=user), target)

    share_that_covers(share, of)


def test_rounding_is_no_spread():
    logs, _ = clicks(30, 3, 0.0)
    fields = {"actions": logs.actions, "reward_range": (0, 1000)}
    p = np.array([0.4, 0.4, 0.2])[logs.action_index]
    same = bare_logs(logs.action, 1000.0, p, **fields)
    interval = interval_of(value_of(SNIPS(), same, always(2, 30, 3)))
    assert interval.method == "gamma" and interval.low < 950 and interval.high == 1000


@pytest.mark.thorough
def test_few_rounds_of_an_action_are_in_the_model_too():
    """DoublyRobust's own limits lie above the truth in .16 of these logs."""
    p, rate = np.array([0.49, 0.49, 0.02]), np.array([0.2, 0.2, 0.5])

    def logs_of(seed):
        rng = np.random.default_rng(seed)
        action = rng.choice(3, size=100, p=p)
        fields = {"reward_range": (0, 1), "actions": [0, 1, 2]}
        return bare_logs(action, rng.random(100) < rate[action], p[action], **fields)

    def of(logs):
        return value_of(DoublyRobust(), logs, always(2, 100, 3))

    share_that_covers(0.5, lambda seed: of(logs_of(seed)))
    logs = logs_of(N_LOGS - 1)
    value = of(logs)
    low, high = interval_of(value)
    [group] = value.by(np.zeros(100)).values()
    assert interval_of(by_pickle(value)) == interval_of(group) == (low, high)
    gain = value - logged_value(logs)
    assert interval_of(gain).width >= 0.9 * (high - low)
    assert interval_of(by_pickle(gain)) == interval_of(gain)


@pytest.mark.parametrize("evaluator", [DoublyRobust(), SwitchDR(), DRos()], ids=repr)
def test_predictions_that_differ_are_no_events(evaluator):
    """Values of a model spread, but tell nothing of an action without rewards."""
    rng = np.random.default_rng(0)
    context, action = rng.normal(size=(100, 1)), rng.integers(1, 300, 100)
    reward = (rng.random(100) < 0.5 + 0.3 * np.sign(context[:, 0])).astype(float)
    fields = {"reward_range": (0, 1), "actions": np.arange(300)}
    logs = BanditLogs(context, action, reward, 1 / 300, **fields)
    value = value_of(evaluator, logs, always(0, 100, 300))
    assert value.standard_error > 0.002
    interval = interval_of(value)
    assert tuple(interval) == (0, 1)
    assert any(isinstance(w, FewEventsWarning) for w in interval.warnings)


def test_a_tail_that_the_policys_few_rounds_do_not_show_rings():
    p, action = np.array([0.9, 0.1]), (np.arange(300) % 10 == 0).astype(int)
    reward = np.random.default_rng(4).normal(5, 1, 300)
    calm = bare_logs(action, reward, p[action], actions=[0, 1])
    heavy = calm.replace(reward=np.where(np.arange(300) == 1, -60, reward))
    none, value = (value_of(SNIPS(), x, always(1, 300, 2)) for x in (calm, heavy))
    assert not interval_of(none).warnings
    [warned] = interval_of(value).warnings  # of the other action
    assert isinstance(warned, TailWarning) and "Too few rounds" in str(warned)
    assert warned.value <= 0.25
    gain = value - logged_value(heavy)
    assert any(isinstance(w, TailWarning) for w in interval_of(gain).warnings)


@of_rounds
def test_what_was_never_logged_may_bring_anything(evaluator):
    logs, _ = clicks(2000, 2, 0.3)
    logs = bare_logs(logs.action, logs.reward, 0.5, actions=[0, 1, 2])
    value, other, never = (
        value_of(evaluator, logs, np.tile(row, (2000, 1)))
        for row in ([0.4, 0.4, 0.2], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0])
    )
    low, high = interval_of(value)
    assert low < 0.8 * 0.3 and high > 0.8 * 0.3 + 0.2
    plain = value.confidence_interval(method="student")
    assert_allclose([plain.low - low, high - plain.high], 0.2, atol=1e-12)
    gain = quietly(lambda: value - other)
    wide, narrow = interval_of(gain), interval_of(gain, 0.9)
    assert_allclose(wide.width, narrow.width, rtol=0, atol=0.02)
    assert 0.4 < wide.width < 0.5
    assert interval_of(never) == (0, 1)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        *(({"level": x}, "level must lie in") for x in ("a", 0, 1, 95, -0.1, np.nan)),
        ({"max_weight": "3"}, "max_weight must be a positive number"),
        ({"method": ["auto"]}, "method must be one of"),
        ({"method": "x"}, r"must be one of 'auto', 'gamma', .* got 'x'"),
    ],
)
def test_arguments_of_another_kind(given, match):
    value = value_of(IPS(), *clicks(50, 2, 0.2))
    with pytest.raises(ValueError, match=match):
        value.confidence_interval(**given)


def test_results_keep_their_interval_when_pickled():
    logs, target = clicks(100, 5, 0.05)
    value = value_of(SNIPS(), logs, target)
    for one in (value, value - logged_value(logs)):
        stored = by_pickle(one)
        for level in (0.95, 0.8):
            assert interval_of(stored, level) == interval_of(one, level)
        assert interval_of(stored).max_weight == interval_of(one).max_weight
        with pytest.raises(ValueError, match="max_weight cannot be used"):
            interval_of(stored, max_weight=50)
    slates = np.random.default_rng(10).permuted(np.tile(np.arange(4), (60, 1)), axis=1)
    clicked = (np.arange(120).reshape(60, 2) % 10 == 0) * 1.0
    about = np.zeros((60, 1)), slates[:, :2]
    logs = SlateLogs(*about, n_candidates=4, slot_reward=clicked)
    one, other = (  # of values without a reach
        value_of(PositionScavenging(attention=[1, 0.5]), logs, np.tile(row, (60, 1)))
        for row in ([0, 1], [2, 3])
    )
    gain = quietly(lambda: one - other)
    assert interval_of(by_pickle(gain)) == interval_of(gain)


@pytest.mark.parametrize("evaluator", [IPS(), SNIPS(), DoublyRobust(reward_model=0.4)])
def test_gains_of_pickled_values_are_no_surer(evaluator):
    # weights that are rare enough for a value may be too heavy for a gain
    rng = np.random.default_rng(2)
    proba = rng.dirichlet(np.full(3, 3.0), size=120)
    new, old = rng.dirichlet(np.ones(3), size=(2, 120))
    action = (proba.cumsum(axis=1) > rng.random((120, 1))).argmax(axis=1)
    reward = (rng.random(120) < 0.2 + 0.2 * action).astype(float)
    about = {"logging_proba": proba, "reward_range": (-1, 2)}
    rows = np.zeros((120, 1)), action, reward
    logs = BanditLogs(*rows, np.choose(action, proba.T), **about)
    policies = new, 0.7 * new + 0.3 * old
    pair = [value_of(evaluator, logs, policy) for policy in policies]
    low, high = interval_of(pair[0] - pair[1])
    stored = by_pickle(pair)
    for one in (stored[0] - stored[1], stored[0] - pair[1]):
        found = interval_of(one)
        assert found.low <= low + 1e-12 and found.high >= high - 1e-12
        assert found.high - found.low < 1.5 * (high - low)


@pytest.mark.parametrize("pooling", ["naive", "balanced", "weighted"])
@pytest.mark.parametrize("cls", [MultiLoggerIPS, MultiLoggerDR])
def test_loggers(cls, pooling):
    rng, n = np.random.default_rng(7), 300
    logger = rng.integers(2, size=n)
    under = np.array([[0.25] * 4, [0.7, 0.1, 0.1, 0.1]])
    action = np.array([rng.choice(4, p=under[g]) for g in logger])
    fields = {"logger": logger, "logger_proba": under[:, action].T}
    logs = bare_logs(action, 0.0, under[logger, action], reward_range=(0, 1), **fields)
    interval = interval_of(value_of(cls(pooling=pooling), logs, always(3, n, 4)))
    assert interval.method == "gamma"
    assert interval.low == 0 and 0.01 < interval.high < 0.5


def test_slates():
    rng, n = np.random.default_rng(8), 100
    slates = rng.permuted(np.tile(np.arange(6), (n, 1)), axis=1)[:, :3]
    fields = {"logging_policy": UniformSlatePolicy(3), "reward_range": (0, 1)}
    logs = SlateLogs(np.zeros((n, 1)), slates, np.zeros(n), n_candidates=6, **fields)
    target = np.tile([0, 1, 2], (n, 1))
    for evaluator in (PseudoInverse(), PseudoInverse(self_normalized=True)):
        interval = interval_of(value_of(evaluator, logs, target))
        assert interval.method == "gamma" and 0.02 < interval.high <= 1
    missed = value_of(SlateIPS(), logs[:20], target[:20])
    assert missed.value == 0 and interval_of(missed) == (0, 1)
    # and actions without propensities
    logs, target = clicks(100, 3, 0.0)
    value = value_of(ExplorationScavenging(), logs.replace(propensity=None), target)
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
    def of(seed):
        return value_of(evaluator, *clicks(200, 4, 0.03, seed))

    value, limits = share_that_covers(0.03, of, least=0)
    assert interval_of(value).method == "gamma"
    assert interval_of(by_pickle(value)) == limits


def test_what_is_no_mean_of_rounds_is_students():
    logs, target = clicks(400, 2, 0.2)
    model = interval_of(value_of(DirectMethod(), logs, target))
    assert model.method == "student" and model.low >= 0
    several = value_of(DRns(horizon=30, n_splits=4), logs, EpsilonGreedy())
    assert interval_of(several).method == "student"
    assert interval_of(several) == interval_of(several, method="student")


@pytest.mark.parametrize(
    "evaluator", [Replay(horizon=30, random_state=0), DRns(horizon=30, random_state=0)]
)
def test_histories_with_few_clicks_stay_in_the_range_and_ring(evaluator):
    logs, learner, reward = clicks(600, 2, 0.0)[0], EpsilonGreedy(), np.zeros(600)
    none = value_of(evaluator, logs, learner)
    with pytest.warns(TailWarning, match="all round values are alike") as caught:
        assert none.confidence_interval() == (0, 0)
    assert "State reward_range" not in str(caught[0].message)  # it is stated
    reward[40] = 1
    few = value_of(evaluator, logs.replace(reward=reward), learner)
    assert few.value > 0 > few.confidence_interval(method="student").low
    with pytest.warns(TailWarning, match="few rounds make most of the spread"):
        assert few.confidence_interval().low == 0


def test_parts_that_are_alike_ring():
    logs, _ = clicks(600, 2, 0.0, reward_range=None)
    logs = logs.replace(reward=np.full(600, 2.0))
    value = value_of(Replay(horizon=30), logs, EpsilonGreedy())
    assert value.standard_error == 0
    with pytest.warns(TailWarning, match="alike.*Give reward_range.*Leave it out"):
        value.confidence_interval()

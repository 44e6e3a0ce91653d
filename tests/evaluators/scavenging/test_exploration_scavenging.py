# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import warnings
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import (
    BanditLogs,
    ConstantPolicy,
    ExplorationScavenging,
    SlateLogs,
    UniformPolicy,
    UniformSlatePolicy,
    summarize,
)
from skope_ope.exceptions import (
    ExplorationWarning,
    LowOverlapWarning,
    OPEWarning,
    PropensityWarning,
    SupportWarning,
)
from tests.evaluators.scavenging._toys import S6_X, SL4_SLATES, caught, s6, sl4
from tests.evaluators.slate._worlds import showed

# Six rounds give 4/3 for rewards of 0 and 1: that it warns is tested with all warnings.
pytestmark = pytest.mark.filterwarnings("ignore:the value, .* lies outside the range")
TARGET = np.eye(2)[S6_X]


def evaluate(logs, policy=TARGET, **settings):
    return ExplorationScavenging(**settings).fit(logs).evaluate(policy)


def test_six_rounds():
    result = evaluate(s6())
    assert_allclose(result.value, 4 / 3, rtol=1e-12)
    assert_allclose(result.standard_error, 0.4714045208, rtol=1e-9)
    assert_allclose(result.diagnostics["mean_weight"], 4 / 3)
    assert_allclose(result.round_values.mean(), 4 / 3)
    assert evaluate(s6(), self_normalized=True).value == 1
    randomised = np.tile([0.25, 0.75], (6, 1))
    assert_allclose(evaluate(s6(), randomised).value, 2 / 3)


def test_slates_that_follow_the_context():
    rng = np.random.RandomState(0)
    x = rng.randint(2, size=200)
    slates = np.array([[0, 1], [1, 0]])[x]
    rounds, clicks = (x[:, None], slates, None), np.ones((200, 2))
    _, found = caught(lambda: evaluate(SlateLogs(*rounds, slot_reward=clicks), slates))
    assert found[ExplorationWarning] > 4
    names = np.where(x[:, None] == 1, [["b", "a"]], [["a", "b"]])  # a comes first
    logs = SlateLogs(*rounds, item_id=names, slot_reward=clicks)
    value, found = caught(lambda: evaluate(logs, slates))
    assert found == {} and value.value == 2


def test_an_action_that_is_wanted_and_was_never_logged():
    logs = s6(actions=[0, 1, 2])
    pi = np.column_stack([0.75 * TARGET, np.full(6, 0.25)])
    result, found = caught(lambda: evaluate(logs, pi))
    assert_allclose(found[SupportWarning], 0.25)
    assert_allclose(result.value, 1.0)  # 3/4 of 4/3: a lower bound
    assert_allclose(result.diagnostics["unsupported_mass"], 0.25)
    result, found = caught(lambda: evaluate(logs, pi, on_missing="nan"))
    assert np.isnan(result.value) and np.isnan(result.round_values).all()
    assert_allclose(found[SupportWarning], 0.25)
    never = np.tile([0.0, 0.0, 1.0], (6, 1))
    for ratio in (False, True):  # nothing is known: never a silent zero
        result, _ = caught(lambda: evaluate(logs, never, self_normalized=ratio))  # noqa: B023
        assert np.isnan(result.value)
    unwanted = np.column_stack([TARGET, np.zeros(6)])  # not wanted: harmless
    result, found = caught(lambda: evaluate(logs, unwanted, on_missing="nan"))
    assert_allclose(result.value, 4 / 3)
    assert found == {LowOverlapWarning: result.value}  # outside the range


def test_one_round_of_an_action_has_no_standard_error():
    result, found = caught(lambda: evaluate(s6(action=[0, 1, 0, 0, 0, 0])))
    assert np.isfinite(result.value) and np.isnan(result.standard_error)
    assert [w.value for w in result.warnings] == [1, result.value]
    assert set(found) == {LowOverlapWarning}
    # a spread of arm 1 is needed, though its only round is not wanted
    x = np.arange(41) % 5 < 3
    action = np.zeros(41, int)
    action[8] = 1  # where 0 is wanted
    logs = BanditLogs(x[:, None], action, x * 1.0)
    target = np.eye(2)[x.astype(int)]
    result, found = caught(lambda: evaluate(logs, target))
    assert np.isfinite(result.value) and np.isnan(result.standard_error)
    assert result.diagnostics["fewest_rounds"] == 1
    assert found[LowOverlapWarning] == 1
    never = np.eye(2)[np.zeros(41, int)]
    result, found = caught(lambda: evaluate(logs, never))
    assert np.isfinite(result.standard_error) and found == {}
    assert result.diagnostics["fewest_rounds"] == 40


def test_the_impossible_is_reported(global_random_seed):
    """pi(x) = x says nothing about h(x) = 1 - x (Theorem 1 of the paper)."""
    x = np.random.RandomState(global_random_seed).randint(2, size=300)
    logs = BanditLogs(x[:, None], x, np.ones(300), reward_range=(0, 1))
    result, found = caught(lambda: evaluate(logs, np.eye(2)[1 - x]))
    # both arms were logged, so the sum of nothing is its value, as unbiasedness needs
    assert result.value == 0 and LowOverlapWarning in found
    assert result._interval().high > 0.01
    assert result.verdict.answer == "not supported"
    ratio, _ = caught(lambda: evaluate(logs, np.eye(2)[1 - x], self_normalized=True))
    assert np.isnan(ratio.value)
    assert found[ExplorationWarning] > 4
    assert result.diagnostics["predictability_z"] > 4
    agrees, found = caught(lambda: evaluate(logs, np.eye(2)[x]))
    assert_allclose(agrees.value, 2.0)  # the truth is 1: hence the warning
    assert found[ExplorationWarning] > 4
    with pytest.raises(ValueError, match="predictable from it"):
        agrees.deviation_bound(0.05)


def test_what_the_logger_looked_at_as_strata():
    rng = np.random.RandomState(0)
    x = rng.randint(2, size=4000)
    action = (rng.random_sample(4000) < np.where(x, 0.8, 0.3)).astype(int)
    reward = (rng.random_sample(4000) < np.where(action == x, 0.6, 0.2)).astype(float)
    logs = BanditLogs(x[:, None], action, reward).with_columns(x=x)
    plain, found = caught(lambda: evaluate(logs, np.eye(2)[x]))
    assert found[ExplorationWarning] > 4
    assert abs(plain.value - 0.6) > 4 * plain.standard_error
    by_x, found = caught(lambda: evaluate(logs, np.eye(2)[x], strata="x"))
    assert found == {}
    assert abs(by_x.value - 0.6) < 4 * by_x.standard_error


def test_what_a_stratum_never_logged_on_actions_and_on_slates():
    n = 400
    x, k = np.arange(n) % 2, np.arange(n) // 2
    action = np.where(x == 0, k % 3, k % 2)  # 2 is never logged where x is 1
    slate = np.array([[0, 1], [1, 0], [2, 0]])[action]
    context = x[:, None].astype(float)
    wanted = np.tile([2, 0], (n, 1))

    class Random:
        """The same policy, of which only probabilities are known."""

        def slate_proba(self, logs, slates):
            return (slates == [2, 0]).all(axis=1).astype(float)

    bandit = BanditLogs(context, action, np.ones(n)).with_columns(x=x)
    slates = SlateLogs(context, slate, np.ones(n)).with_columns(x=x)
    acts = np.tile([0, 0, 1.0], (n, 1))
    pairs = [(bandit, acts), (slates, wanted), (slates, Random())]
    for logs, policy in pairs:
        with pytest.warns(SupportWarning, match=r"50\.00% of its probability") as found:
            value = evaluate(logs, policy, strata="x")
        assert_allclose(value.diagnostics["unsupported_mass"], 0.5)
        assert_allclose([value.value, found[0].message.value], 0.5)
        with pytest.warns(SupportWarning):
            value = evaluate(logs, policy, strata="x", on_missing="nan")
        assert np.isnan(value.value) and np.isnan(value.standard_error)
    # what has the weight zero was not logged, either
    weight = np.where(action == 2, 0.0, 1.0)
    for logs, policy in pairs[:2]:
        with pytest.warns(SupportWarning):
            scavenger = ExplorationScavenging(strata="x").fit(logs)
            value = scavenger.evaluate(policy, sample_weight=weight)
        assert value.diagnostics["unsupported_mass"] == 1


def test_offers_that_vary():
    rng = np.random.RandomState(1)
    both = rng.randint(2, size=3000).astype(bool)
    offers = np.column_stack([np.ones(3000, bool), both])
    action = np.where(both, rng.randint(2, size=3000), 0)
    reward = (rng.random_sample(3000) < np.where(both, 0.2, 0.8)).astype(float)
    logs = BanditLogs(np.zeros((3000, 1)), action, reward, available=offers)
    with pytest.raises(ValueError, match="strata='available'"):
        ExplorationScavenging().fit(logs)
    result = evaluate(logs, UniformPolicy(), strata="available")
    truth = 0.2 * both.mean() + 0.8 * (1 - both.mean())
    assert abs(result.value - truth) < 4 * result.standard_error


def rotation(n=400, seed=0):
    """Three loggers in turn, with policies of their own over four actions."""
    rng = np.random.RandomState(seed)
    x = rng.randint(4, size=n)
    logger = np.arange(n) % 3
    plays = np.stack([x, (x + 1) % 4, np.zeros(n, int)], axis=1)  # by logger
    action = plays[np.arange(n), logger]
    reward = (rng.random_sample(n) < 0.2 + 0.15 * ((action - x) % 4)).astype(float)
    named = np.array(list("abc"))[logger]
    logs = BanditLogs(np.eye(4)[x], action, reward, logger=named)
    return with_loggers(logs, (plays == action[:, None]).astype(float)), x, plays


def with_loggers(logs, proba, actions=range(4)):
    """The same rounds, of loggers with these probabilities of what was taken."""
    rounds = logs.context, logs.action, logs.reward
    return BanditLogs(*rounds, actions=actions, logger=logs.logger, logger_proba=proba)


def test_probabilities_of_loggers():
    """Every action was logged somewhere, but not where the policy wants it."""
    logs, x, _ = rotation(1200)
    logs = logs[logs.logger != "c"].replace(reward=np.ones(800))
    x = x[logs.row_id.position]
    logs = with_loggers(logs, logs.logger_proba[:, :2])
    target = np.eye(4)[x] / 2 + np.eye(4)[(x + 2) % 4] / 2
    result, found = caught(lambda: evaluate(logs, target))
    assert_allclose(result.value, 0.5)  # the truth is 1
    assert_allclose(found[SupportWarning], 0.5)
    assert_allclose(result.diagnostics["unsupported_mass"], 0.5)
    result, found = caught(lambda: evaluate(logs, target, on_missing="nan"))
    assert np.isnan(result.value) and np.isnan(result.standard_error)
    assert_allclose(found[SupportWarning], 0.5)
    # what one of them does is not missed, nor what was never logged counted twice
    both = np.eye(4)[x] / 2 + np.eye(4)[(x + 1) % 4] / 2
    result, found = caught(lambda: evaluate(logs, both, on_missing="nan"))
    assert_allclose(result.value, 1) and found == {}
    wide = with_loggers(logs, logs.logger_proba, range(5))
    never = np.column_stack([both * 0.75, np.full(len(x), 0.25)])
    result, found = caught(lambda: evaluate(wide, never))
    assert_allclose(found.pop(SupportWarning), 0.25)
    assert found == {}
    # loggers whose probabilities are wrong
    logs, x, plays = rotation(1200)
    halved = with_loggers(logs, logs.logger_proba / 2)
    target = np.eye(4)[plays[np.arange(len(x)), 0]]
    _, found = caught(lambda: evaluate(logs, target))
    assert found == {}
    result, found = caught(lambda: evaluate(halved, target))
    assert result.diagnostics["mean_weight"] > 1.8
    assert found[PropensityWarning] > 3


@pytest.mark.parametrize("n_loggers", [1, 2])
def test_sums_divide_by_the_mixture_of_one_logger_too(n_loggers):
    logs, x, plays = rotation(600)
    who = np.arange(len(x)) % n_loggers
    proba = np.tile([0.4, 0.7][:n_loggers], (len(x), 1))
    rounds = logs.context, logs.action, logs.reward
    logs = BanditLogs(*rounds, logger=who, logger_proba=proba)
    target = np.eye(4)[plays[np.arange(len(x)), 0]]
    for ratio in (False, True):
        scavenger = ExplorationScavenging(self_normalized=ratio)
        whole, _ = caught(partial(scavenger.fit(logs).evaluate, target))
        asked = partial(summarize, {"a": target}, logs, evaluators={"one": scavenger})
        found = caught(lambda asked=asked: asked().values())[0]["a", "one"]
        for name in ("value", "standard_error"):
            assert_allclose(getattr(found, name), getattr(whole, name))


def test_whole_slates_are_actions():
    clicks = [[1, 0, 0, 0], [1, 1, 0, 0]] * 2
    logs = sl4(slate=SL4_SLATES[[0, 0, 1, 1]], slot_reward=clicks)
    target = np.tile(SL4_SLATES[0], (4, 1))
    value = evaluate(logs, target)
    assert_allclose(value.value, 1.5)
    assert_allclose(value.standard_error, 0.5)
    with pytest.raises(ValueError, match="slates, whose number is not known"):
        value.deviation_bound(0.05)
    with pytest.raises(ValueError, match="match='logger' is for BanditLogs"):
        ExplorationScavenging(match="logger").fit(logs)
    fitted = ExplorationScavenging().fit(logs)
    with pytest.raises(TypeError, match="SlateLogs like those of fit, got BanditLogs"):
        fitted.evaluate(TARGET, s6())
    other = sl4(slate=SL4_SLATES[:, :3], slot_reward=np.zeros((4, 3)))
    with pytest.raises(ValueError, match="3 slots, those of fit had 4"):
        fitted.evaluate(target, other)


@pytest.mark.theory
@pytest.mark.parametrize("self_normalized", [False, True])
def test_intervals_cover(self_normalized, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    hits, repeats = 0, 200
    for _ in range(repeats):
        x, action = rng.randint(2, size=300), rng.randint(2, size=300)
        reward = 1.0 * (rng.random_sample(300) < np.where(action == x, 0.6, 0.1))
        with warnings.catch_warnings():
            warnings.simplefilter("error", OPEWarning)
            logs = BanditLogs(np.zeros((300, 1)), action, reward)
            value = evaluate(logs, np.eye(2)[x], self_normalized=self_normalized)
        low, high = value.confidence_interval()
        hits += low <= 0.6 <= high
    assert hits / repeats > 0.95 - 4 * np.sqrt(0.95 * 0.05 / repeats)


def test_random_slates_that_were_never_shown():
    slates = np.array([[0, 1], [1, 0]] * 30)
    logs = showed(slates, slot_reward=np.ones((60, 2)), n_candidates=4)
    value, found = caught(lambda: evaluate(logs, UniformSlatePolicy(2)))
    assert_allclose(value.value, 2 * 2 / 12)
    assert_allclose(found[SupportWarning], 10 / 12)
    assert_allclose(value.diagnostics["unsupported_mass"], 10 / 12)
    value, _ = caught(lambda: evaluate(logs, UniformSlatePolicy(2), on_missing="nan"))
    assert np.isnan(value.value)


def in_turn(n=60, n_loggers=3, **fields):
    """Loggers a, b, c in turn; what they do is of no interest."""
    logger = np.array(["a", "b", "c"])[np.arange(n) % n_loggers]
    X = np.random.RandomState(0).randn(n, 2)
    return BanditLogs(X, np.arange(n) % 2, np.ones(n), logger=logger, **fields)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (np.full((60, 2), 0.5), r"60 rounds and 3 loggers"),
        (np.full((60, 3), 0.5), r"sum to 1 over the loggers, got 1\.5"),
        (np.full(60, 0.5), "probabilities of all loggers"),
        (ConstantPolicy("d"), r"to loggers that the logs do not know: \['d'\]"),
    ],
)
def test_what_cannot_choose_a_logger_is_told_of_loggers(policy, message):
    with pytest.raises(ValueError, match=message) as found:
        ExplorationScavenging(match="logger").fit(in_turn()).score(policy)
    text = str(found.value)
    assert "chooses among the loggers ['a', 'b', 'c']" in text
    assert "action" not in text


def test_warnings_and_bounds_of_loggers_speak_of_loggers():
    evaluator = ExplorationScavenging(match="logger")
    logs, uniform = in_turn(), UniformPolicy()
    with pytest.warns(SupportWarning, match="33.33% .* to loggers that never acted"):
        evaluator.fit(logs).evaluate(uniform, sample_weight=logs.logger_index > 0.0)
    few = logs[np.r_[0, 1, 2, 4, 5, 7, 8]]
    with pytest.warns(LowOverlapWarning, match="1 of the loggers .* acted in a single"):
        evaluator.fit(few).evaluate(uniform)
    X = (logs.logger_index == 0)[:, None].astype(float)
    told = BanditLogs(X, logs.action, logs.reward, logger=logs.logger)
    with pytest.warns(ExplorationWarning, match="logger that acted can be pr") as seen:
        evaluator.fit(told).evaluate(uniform)
    assert "MultiLoggerIPS" in str(seen[0].message)
    value = evaluator.fit(in_turn(reward_range=(0, 1))).evaluate(UniformPolicy())
    with pytest.raises(ValueError, match="every logger that the policy can play"):
        value.deviation_bound(0.05, arms=["a"])
    with pytest.raises(ValueError, match="if all loggers were chosen with equal"):
        value.deviation_bound(0.05, form="1/k")

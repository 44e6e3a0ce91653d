# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Each alarm rings where it should, with its number, and nowhere else."""

import warnings

import numpy as np
import pytest

from skope_ope import (
    IPS,
    SNDR,
    SNIPS,
    BanditLogs,
    ConstantPolicy,
    DirectMethod,
    DoublyRobust,
    ExplorationScavenging,
    MultiLoggerDR,
    MultiLoggerIPS,
    PseudoInverse,
    SlateLogs,
    UniformPolicy,
    UniformSlatePolicy,
    compare_policies,
    evaluate,
)
from skope_ope.datasets import make_bandit_logs
from skope_ope.exceptions import (
    FewGroupsWarning,
    LogsWarning,
    LowOverlapWarning,
    ModelErrorWarning,
    OPEWarning,
    PropensityWarning,
    SupportWarning,
)
from tests.evaluators.core._asked import (
    D8,
    D8_LOGS,
    NEVER,
    bare_logs,
    interval_of,
    quietly,
    value_of,
)


# -- groups ---------------------------------------------------------------------------
def group_alarms(evaluator, group, action=None):
    """Values of the alarms of groups, of a policy that is the logger."""
    n = len(group)
    action = np.arange(n) % 2 if action is None else action
    reward = np.random.RandomState(0).normal(size=n)
    logs = bare_logs(action, reward, 0.5, actions=[0, 1], group=group)
    told = value_of(evaluator, logs, np.full((n, 2), 0.5)).warnings
    return [one.value for one in told if isinstance(one, FewGroupsWarning)]


def test_few_groups():
    sizes = np.array([50] + [1] * 60)  # one of them has nearly half of the rounds
    effective = 110**2 / (sizes @ sizes)
    for group, numbers in (
        (np.arange(40), []),
        (np.repeat(np.arange(60), 3), []),
        (np.arange(39), [39]),
        (np.repeat(np.arange(61), sizes), [pytest.approx(effective)]),
        (np.zeros(5), [1]),
    ):
        assert group_alarms(IPS(), group) == numbers


def test_an_arm_of_one_group():
    action = np.repeat([0, 1], 50)
    group = np.concatenate([np.arange(50), np.full(50, 50)])
    assert group_alarms(ExplorationScavenging(), group, action) == [1]
    group[-1] = 7  # a group of both: they are one sample
    sizes = np.bincount(group)
    [value] = group_alarms(ExplorationScavenging(), group, action)
    assert value == pytest.approx(100**2 / (sizes @ sizes))


def test_the_fixed_log():
    with pytest.warns(LowOverlapWarning, match="3.3 effective rounds of 8") as caught:
        result = IPS().fit(D8_LOGS).evaluate(D8.pi)
    assert caught[0].message.value == pytest.approx(3.328, abs=5e-4)
    assert result.warnings == (caught[0].message,)
    assert caught[0].filename == __file__  # it points at the caller


NOTHING, HALF = np.tile([[[0.0, 0.0, 1.0]], [[0.5, 0.5, 0.0]]], (1, 400, 1))


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.LowOverlapWarning")
def test_estimates_that_cannot_be_formed():
    for evaluator in (IPS(), SNIPS()):
        with pytest.warns(SupportWarning) as caught:
            result = evaluator.fit(NEVER).evaluate(NOTHING)
        none = f"{result.estimator} has no estimate: the policy takes no logged"
        assert any(str(w.message).startswith(none) for w in caught)
        assert np.isnan([result.value, result.standard_error]).all()
        assert any(np.isnan(warning.message.value) for warning in caught)
        [low] = [w for w in result.warnings if isinstance(w, LowOverlapWarning)]
        assert low.value == 0
        assert "gives all logged actions probability 0" in str(low)
    with pytest.warns(SupportWarning, match="extrapolates") as caught:
        result = DoublyRobust().fit(NEVER, 0.25).evaluate(NOTHING)
    assert (result.value, caught[0].message.value) == (0.25, 1.0)


def test_the_direct_method_says_what_its_error_leaves_out():
    with pytest.warns(ModelErrorWarning, match="To include it, use DoublyRobust"):
        DirectMethod().fit(NEVER, 0.25).evaluate(HALF)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DoublyRobust().fit(NEVER, 0.25).evaluate(HALF)


def test_the_remedy_names_the_step_for_several_loggers():
    action, p = np.random.RandomState(0).randint(2, size=400), np.tile([0.2, 0.3], 200)
    for logger, step in (
        (None, " PropensityEstimator"),
        (np.repeat(["a", "b"], 200), " LoggerPropensityEstimator"),
        (np.repeat("a", 400), " PropensityEstimator"),
    ):
        logs = bare_logs(action, 2 * action, p, logger=logger)
        with pytest.warns(PropensityWarning) as warned:
            IPS().fit(logs).evaluate(UniformPolicy())
        assert len(warned) == 2  # of the weights, and of the propensities
        assert all(step in str(w.message) for w in warned)
    with pytest.raises(ValueError, match="or ExplorationScavenging where the logger"):
        IPS().fit(bare_logs([0, 1, 1, 0], 1.0))


def test_rewards_that_have_not_arrived_are_told_by_every_evaluator():
    logs, policy, _ = make_bandit_logs(1000, random_state=0, return_truth=True)
    reward = np.array(logs.reward)
    reward[-40:] = 0  # about 20 rewards are missing
    late = logs.replace(reward=reward)
    with pytest.warns(LogsWarning, match="rounds have no reward"):
        table = evaluate(policy, late, evaluators=["SNIPS", "DRns"])
        alone = IPS().fit(late).evaluate(policy)
    for value in (*table.values(), alone):
        assert any("not arrived yet" in str(one) for one in value.warnings)
    with warnings.catch_warnings():
        warnings.simplefilter("error", LogsWarning)
        evaluate(policy, logs)


# -- one round, or group, has all the weight -------------------------------------------
def one_match(n=60, **fields):
    """Uniform logs in which a single round does what the policy does."""
    action = (np.arange(n) == 7).astype(int)
    reward = np.random.default_rng(0).random(n)
    return bare_logs(action, reward, 0.5, actions=[0, 1], **fields)


TWO_LOGGERS = {"logger": np.arange(60) % 2, "logger_proba": np.full((60, 2), 0.5)}


@pytest.mark.parametrize(
    "evaluator, fields",
    [
        (SNIPS(), {}),
        (SNDR(), {}),
        (SNIPS(cmax=1.0), {}),
        (SNIPS(), {"sample_weight": np.arange(60) + 1.0}),
        (MultiLoggerIPS(pooling="naive", self_normalized=True), TWO_LOGGERS),
        (MultiLoggerIPS(pooling="balanced", self_normalized=True), TWO_LOGGERS),
        (MultiLoggerDR(pooling="weighted", self_normalized=True), TWO_LOGGERS),
        (SNIPS(), {"group": np.arange(60) // 2}),
    ],
)
def test_one_round_of_all_the_weight_tells_no_spread(evaluator, fields):
    with pytest.warns(OPEWarning) as caught:
        value = evaluator.fit(one_match(**fields)).evaluate(ConstantPolicy(1))
    unit = "group" if "group" in fields else "round"
    told = [str(w.message) for w in caught]
    assert sum(f"one {unit} has all the weight" in text for text in told) == 1
    assert not any("its own variance" in text for text in told)
    assert np.isfinite(value.value) and np.isnan(value.standard_error)
    assert np.isnan(interval_of(value)).all()
    ranged = one_match(reward_range=(0, 1), **fields)
    assert interval_of(value_of(evaluator, ranged, ConstantPolicy(1))) == (0, 1)


def test_one_slate_of_all_the_weight_tells_no_spread():
    slate, target = np.tile([0, 1], (60, 1)), np.tile([2, 1], (60, 1))
    slate[3] = [2, 1]
    reward = np.random.default_rng(0).random(60)
    evaluator = PseudoInverse(self_normalized=True)
    for width, n in ((2, 5), (1, 60)):  # weights of both signs, or of one
        given = {"n_candidates": 3, "logging_policy": UniformSlatePolicy(width)}
        logs = SlateLogs(np.zeros((60, 1)), slate[:, :width], reward, **given)
        value = value_of(evaluator, logs[:n], target[:n, :width])
        told = any("one round has all the weight" in str(w) for w in value.warnings)
        known = width == 2
        assert (value.standard_error > 0) == known
        assert told == np.isnan(value.standard_error) == (not known)


def test_one_group_of_all_the_weight():
    """Several rounds, but of one user: their deviations sum to zero."""
    rng, group = np.random.default_rng(0), np.arange(60) // 10
    action = np.where(group == 3, rng.integers(0, 2, 60), 0)
    logs = bare_logs(action, rng.random(60), 0.5, actions=[0, 1], group=group)
    pair = logs, logs.replace(group=None)
    value, alone = (value_of(SNIPS(), one, ConstantPolicy(1)) for one in pair)
    assert np.isnan(value.standard_error)
    assert any("one group has all the weight" in str(w) for w in value.warnings)
    assert alone.standard_error > 0


def test_tables_and_comparisons_say_that_they_cannot_tell():
    logs, policy = one_match(), ConstantPolicy(1)
    table = quietly(evaluate, policy, logs, evaluators=["SNIPS", "IPS"])
    row = table.to_records()[0]
    assert np.isnan([row["standard_error"], row["low"], row["high"]]).all()
    assert "one round has all the weight" in " ".join(repr(table).split())
    found = quietly(compare_policies, {"one": policy}, logs, evaluator=SNIPS())
    assert found.decision == "undecided"
    assert "no standard error" in found.sentence


# -- a value outside the range of the rewards ------------------------------------------
def heavy_logs(n=200, **fields):
    """A log with more than its share of rare actions, all of them rewarded."""
    action = (np.arange(n) % 10 == 0).astype(int)
    about = action, np.where(action == 1, 1.0, 0.5), np.where(action == 1, 0.07, 0.93)
    return bare_logs(*about, actions=[0, 1], **fields)


def outside(value):
    return [str(w) for w in value.warnings if "lies outside the range" in str(w)]


def test_a_value_outside_the_range_warns_when_it_is_made():
    logs, policy = heavy_logs(reward_range=(0, 1)), ConstantPolicy(1)
    with pytest.warns(LowOverlapWarning) as caught:
        value = IPS().fit(logs).evaluate(policy)
    [text] = outside(value)
    assert text in [str(w.message) for w in caught]
    assert "the value, 1.429, lies outside the range of the rewards, 0 to 1" in text
    # tables tell it once, not again for the interval
    table = quietly(evaluate, policy, logs, evaluators=["IPS"])
    assert " ".join(repr(table).split()).count("lies outside the range") == 1
    assert value._repr_html_().count("lies outside the range") == 1
    # without a range nothing is known to be impossible
    assert not outside(value_of(IPS(), heavy_logs(), policy))
    inside = value_of(SNIPS(), logs, policy)
    assert inside.value == 1 and not outside(inside)
    # and rounding is not outside
    logs = make_bandit_logs(300, random_state=0)
    logs = logs.replace(reward=np.ones(300))
    for evaluator in (SNIPS(), SNDR(), DoublyRobust()):
        assert not outside(value_of(evaluator, logs, UniformPolicy()))


def test_so_does_every_evaluator():
    x = np.arange(40) % 2
    action = np.where(np.arange(40) % 4 == 0, 1 - x, x)
    logs = BanditLogs(x[:, None], action, np.ones(40), actions=[0, 1])
    policy = np.eye(2)[x]
    policy[0] = policy[0, ::-1]
    value = value_of(ExplorationScavenging(), logs, policy)
    assert value.value > 1 and len(outside(value)) == 1

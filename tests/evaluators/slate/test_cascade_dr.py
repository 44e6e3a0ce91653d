# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Doubly robust slot by slot, and its model of what later slots bring."""

import warnings

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from skope_ope import (
    CascadeDR,
    CascadeIPS,
    PlackettLuceSlatePolicy,
    SlateIPS,
    SlateLogs,
    UniformSlatePolicy,
)
from skope_ope.evaluators.core._slate_target import SlateTarget
from skope_ope.evaluators.slate._cascade_model import CascadeModel, first_slots
from skope_ope.policies import EmpiricalSlatePolicy
from tests.evaluators.slate._worlds import quietly
from tests.evaluators.slate.test_slot_rewards import (
    LOGGERS,
    drawn_logs,
    rewards,
    the_world,
)


def test_a_model_of_other_rounds_leaves_the_cascade_unbiased():
    logger, slates = LOGGERS[0]
    logs, proba = the_world(logger, slates, "cascade")
    other = the_world(logger, slates, "crowd")[0]
    evaluator = CascadeDR(reward_model=DecisionTreeRegressor(random_state=0))
    logs = logs.with_columns(best=np.tile([2, 0, 3], (24, 1)))
    other = other.with_columns(best=np.tile([2, 0, 3], (24, 1)))
    evaluator = evaluator.fit(other)
    policy = PlackettLuceSlatePolicy([1.0, 2.0, 4.0, 1.0], 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = evaluator.evaluate(policy, logs, proba)
        single = evaluator.evaluate("best", logs, proba)
        with pytest.raises(ValueError, match="slates of other rounds only"):
            evaluator.evaluate(np.tile([2, 0, 3], (24, 1)), logs)
    truth = policy.slate_proba(logs) @ logs.reward
    assert found.value == pytest.approx(truth, abs=1e-12)
    truth = rewards(np.array([[2, 0, 3]]), "cascade").sum()
    assert single.value == pytest.approx(truth, abs=1e-12)


@pytest.mark.thorough
def test_a_model_lowers_the_variance(global_random_seed):
    logs = drawn_logs(3000, global_random_seed)
    policy = PlackettLuceSlatePolicy([1.0, 2.0, 4.0, 1.0], 3)
    tree = DecisionTreeRegressor(max_depth=6, random_state=0)
    plain = quietly(CascadeIPS(), policy, logs)
    constant = quietly(CascadeDR(), policy, logs)
    modelled = quietly(CascadeDR(reward_model=tree), policy, logs)
    whole = quietly(SlateIPS(), policy, logs)
    exact, _ = the_world(*LOGGERS[0], "cascade")
    truth = policy.slate_proba(exact) @ exact.reward
    for result in (plain, constant, modelled, whole):
        assert abs(result.value - truth) < 5 * result.standard_error
    # clicks are noisy, so that a mean per slot is as good as a tree
    assert constant.standard_error < plain.standard_error
    assert modelled.standard_error < plain.standard_error
    assert plain.standard_error < whole.standard_error


def test_the_model_is_right_where_the_world_is_known():
    # folds of a world without noise: the value is exact in every round
    logger, slates = LOGGERS[0]
    slot_reward = rewards(np.tile(slates, (5, 1)), "cascade")
    logs = SlateLogs(
        np.zeros((120, 1)),
        np.tile(slates, (5, 1)),
        None,
        slot_reward=slot_reward,
        logging_policy=logger,
    )
    tree = CascadeDR(reward_model=DecisionTreeRegressor(random_state=0))
    for policy in (UniformSlatePolicy(3), EmpiricalSlatePolicy([[2, 0, 3]])):
        result = quietly(tree, policy, logs)
        proba = policy.slate_proba(logs[:24])
        truth = proba @ slot_reward[:24].sum(axis=1)
        np.testing.assert_allclose(result.round_values, truth, atol=1e-12)
    given = quietly(tree, np.tile([2, 0, 3], (120, 1)), logs)
    np.testing.assert_allclose(given.round_values, truth, atol=1e-12)


def test_what_later_slots_bring():
    # E[r_j + r_{j+1} + ...] after the first slots, by enumeration
    logger, slates = LOGGERS[0]
    slot_reward = rewards(slates, "cascade")
    logs, _ = the_world(logger, slates, "cascade")
    policy = PlackettLuceSlatePolicy([1.0, 2.0, 4.0, 1.0], 3)
    target = SlateTarget(policy, logs)
    model = CascadeModel(DecisionTreeRegressor(random_state=0), target)
    proba = policy.slate_proba(logs)
    for slot in range(3):
        found = model.shown(slot, logs, logs.slate)
        for row, slate in enumerate(slates):
            alike = (slates[:, : slot + 1] == slate[: slot + 1]).all(axis=1)
            later = slot_reward[alike, slot:].sum(axis=1)
            assert found[row] == pytest.approx(np.average(later, weights=proba[alike]))
    np.testing.assert_array_equal(first_slots(slates[:1], 0), [[0, -1, -1]])


def test_constants_of_the_model():
    logs = drawn_logs(20, 0)
    target = SlateTarget(logs.slate, logs)
    means = CascadeModel(None, target)
    expected = [logs.slot_reward[:, j:].sum(axis=1).mean() for j in range(3)]
    np.testing.assert_allclose(means.models, expected)
    assert CascadeModel(0.25, target).models == [0.25] * 3


def test_uncovered_rounds_get_means():
    logs = drawn_logs(40, 0)
    folds = [(np.arange(20), np.arange(20, 40))]
    evaluator = CascadeDR(reward_model=DecisionTreeRegressor(), cv=folds)
    result = quietly(evaluator, logs.logging_policy, logs)
    assert result.diagnostics["uncovered_rounds"] == 20
    assert np.isfinite(result.round_values).all()


def test_models_that_the_cascade_refuses():
    logs = drawn_logs(30, 0)
    for model in ("q_hat", np.zeros((30, 4)), DecisionTreeRegressor):
        with pytest.raises((TypeError, ValueError), match="reward_model"):
            CascadeDR(reward_model=model).fit(logs)
        with pytest.raises(TypeError, match=r"refitted for every policy|an instance"):
            CascadeDR().fit(logs, model)


def test_classifiers_model_single_slots_by_their_probabilities():
    slates = np.tile([[0], [1]], (40, 1))
    clicks = np.random.RandomState(0).random_sample((80, 1)) < 0.3 + 0.4 * slates
    logs = SlateLogs(
        np.zeros((80, 1)),
        slates,
        None,
        slot_reward=clicks.astype(float),
        logging_policy=UniformSlatePolicy(1),
    )
    target = np.ones((80, 1), int)
    # indicators of two candidates and a constant: probabilities are the shares
    found = quietly(CascadeDR(reward_model=DecisionTreeClassifier()), target, logs)
    shares = quietly(CascadeDR(reward_model=DecisionTreeRegressor()), target, logs)
    np.testing.assert_allclose(found.round_values, shares.round_values)
    assert len(np.unique(found.round_values)) > 3  # shares differ from fold to fold
    longer = drawn_logs(50, 0)
    with pytest.raises(ValueError, match="sums of the rewards of up to 3 slots here"):
        CascadeDR(reward_model=DecisionTreeClassifier()).fit(longer)
    logs = SlateLogs(
        logs.context,
        slates,
        None,
        slot_reward=2.0 * clicks,
        logging_policy=UniformSlatePolicy(1),
    )
    with pytest.raises(ValueError, match="slot rewards other than 0 and 1"):
        CascadeDR(reward_model=DecisionTreeClassifier()).fit(logs)

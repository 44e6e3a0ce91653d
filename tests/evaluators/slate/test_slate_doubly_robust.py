# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The pseudoinverse around an additive model."""

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

from skope_ope import (
    PlackettLuceSlatePolicy,
    PseudoInverse,
    SlateDoublyRobust,
    SlateLogs,
    UniformSlatePolicy,
)
from skope_ope.evaluators.core._slate_target import SlateTarget
from skope_ope.evaluators.slate._pseudo_inverse_weights import round_weights
from skope_ope.exceptions import SupportWarning
from skope_ope.policies import EmpiricalSlatePolicy
from skope_ope.reward_models import AdditiveSlateModel
from tests.evaluators.slate._worlds import (
    EMPTY_WORLDS,
    additive,
    empty_world,
    quietly,
    rankings,
    warned,
    world,
)

PHI = np.random.RandomState(0).random_sample((3, 5))
LOGGER = PlackettLuceSlatePolicy.from_ranks(np.arange(1, 6), 3)
SLATES = rankings(3, 5)


def the_world():
    return world(LOGGER, SLATES, additive(SLATES, PHI), 5)


@pytest.mark.parametrize(
    "regressor",
    [None, DecisionTreeRegressor(max_depth=3, random_state=0)],
    ids=["linear", "tree"],
)
def test_unbiased_with_any_additive_model(regressor):
    logs, proba = the_world()
    # a model of other rewards: it is wrong, but a sum over slots
    wrong = logs.replace(reward=np.random.RandomState(3).random_sample(len(logs)))
    model = AdditiveSlateModel(regressor).fit(wrong)
    evaluator = SlateDoublyRobust(reward_model=FrozenEstimator(model))
    policy = PlackettLuceSlatePolicy([1.0, 5.0, 1.0, 2.0, 1.0], 3)
    for target, truth in (
        (np.tile([2, 0, 4], (len(logs), 1)), additive(np.array([[2, 0, 4]]), PHI)[0]),
        (policy, policy.slate_proba(logs) @ logs.reward),
    ):
        result = quietly(evaluator, target, logs, proba)
        assert result.value == pytest.approx(truth, abs=1e-12)


@pytest.mark.parametrize("name", EMPTY_WORLDS)
def test_unbiased_where_every_slot_may_be_empty(name):
    # the weights see a constant as often as their mean says, which is not once
    logs, proba, target, truth = empty_world(name)
    wrong = logs.replace(reward=np.random.RandomState(3).random_sample(len(logs)))
    fitted = FrozenEstimator(AdditiveSlateModel().fit(wrong))
    assert fitted.intercept_ > 0.2
    for model in (0.0, 0.5, fitted):
        evaluator = SlateDoublyRobust(reward_model=model)
        result = quietly(evaluator, target, logs, proba)
        assert result.value == pytest.approx(truth, abs=1e-12)
        assert result.diagnostics["mean_weight_z"] == pytest.approx(0, abs=1e-9)


def test_why_no_other_model_can_be_passed():
    # what a model that is no sum over slots would do, here a product
    logs, proba = the_world()
    at = SlateTarget(np.tile([2, 0, 4], (len(logs), 1)), logs)
    weight = round_weights(LOGGER, at, at.logs).weight
    model = PHI[np.arange(3), SLATES].prod(axis=1)
    own = model[(SLATES == [2, 0, 4]).all(axis=1)][0]
    value = own + proba @ (weight * (logs.reward - model))
    truth = additive(np.array([[2, 0, 4]]), PHI)[0]
    assert abs(value - truth) > 1e-2
    for other in (
        LinearRegression(),
        FrozenEstimator(LinearRegression().fit([[0]], [0])),
    ):
        with pytest.raises(
            TypeError, match=r"sums of slot rewards.*AdditiveSlateModel"
        ):
            SlateDoublyRobust(reward_model=other).fit(logs)


@pytest.mark.thorough
def test_a_model_lowers_the_variance(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    logs = SlateLogs(
        np.zeros((2000, 1)), np.full((2000, 3), -1), np.zeros(2000), n_candidates=5
    )
    logger = UniformSlatePolicy(3)
    slates = logger.sample(logs, rng)
    logs = SlateLogs(
        logs.context,
        slates,
        additive(slates, PHI) + 0.1 * rng.normal(size=2000),
        n_candidates=5,
        logging_policy=logger,
    )
    target = np.tile([2, 0, 4], (2000, 1))
    plain = quietly(PseudoInverse(self_normalized=True), target, logs)
    tree = DecisionTreeRegressor(max_leaf_nodes=30, random_state=0)
    robust = quietly(
        SlateDoublyRobust(reward_model=AdditiveSlateModel(tree)), target, logs
    )
    default = quietly(SlateDoublyRobust(), target, logs)
    truth = additive(target[:1], PHI)[0]
    assert robust.standard_error < 0.6 * plain.standard_error
    assert default.standard_error < plain.standard_error
    for result in (robust, default):
        assert abs(result.value - truth) < 5 * result.standard_error
    assert robust.diagnostics["model_r2"] > 0.8


def test_constants_are_no_model():
    logs, proba = the_world()
    target = np.tile([2, 0, 4], (len(logs), 1))
    zero = quietly(SlateDoublyRobust(reward_model=0.0), target, logs, proba)
    plain = quietly(PseudoInverse(), target, logs, proba)
    np.testing.assert_allclose(zero.round_values, plain.round_values, atol=1e-12)


def test_rounds_outside_of_the_range():
    slates = np.array([[0, 0], [1, 0], [0, 1]])
    logs = SlateLogs(
        np.zeros((3, 1)),
        slates,
        [1.0, 0.2, 0.4],
        n_candidates=3,
        logging_policy=EmpiricalSlatePolicy(slates),
    )
    target = np.array([[2, 0], [1, 1], [1, 1]])
    evaluator = SlateDoublyRobust(reward_model=0.5).fit(logs)
    result, found = warned(evaluator, target)
    assert found[SupportWarning, "33.33%"] == pytest.approx(1 / 3)
    assert result.value == pytest.approx(0.5 + (3 * -0.3 + 3 * -0.1) / 2)
    with pytest.raises(ValueError, match="row 0"):
        SlateDoublyRobust(reward_model=0.5, outside_range="raise").fit(logs).evaluate(
            target
        )

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Models of the rewards of slates: the direct method, and doubly robust."""

import numpy as np
import pytest
from sklearn.dummy import DummyRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LassoCV, LinearRegression
from sklearn.tree import DecisionTreeRegressor

from skope_ope import (
    PlackettLuceSlatePolicy,
    PseudoInverse,
    SlateDirectMethod,
    SlateDoublyRobust,
    SlateLogs,
    UniformSlatePolicy,
)
from skope_ope.exceptions import ModelErrorWarning, SupportWarning
from skope_ope.policies import SampledSlatePolicy, rank_weights
from skope_ope.reward_models import AdditiveSlateModel
from tests.evaluators.slate._worlds import (
    EMPTY_WORLDS,
    additive,
    empty_world,
    quietly,
    range_logs,
    rankings,
    warned,
    world,
)

FOUR = np.random.RandomState(0).random_sample((2, 4))


def four_logs(n_rounds=240, **fields):
    slates = np.resize(rankings(2, 4), (n_rounds, 2))
    fields["n_candidates"] = 4
    return SlateLogs(np.zeros((n_rounds, 1)), slates, additive(slates, FOUR), **fields)


TARGET = PlackettLuceSlatePolicy([1.0, 2.0, 3.0, 4.0], 2)


def truth():
    marginals = TARGET.slot_marginals(four_logs(12))[0]
    return (marginals * FOUR).sum()


@pytest.mark.few_cases(2)
@pytest.mark.parametrize(
    "model",
    [
        LinearRegression(),
        LassoCV(),
        DecisionTreeRegressor(random_state=0),
        AdditiveSlateModel(DecisionTreeRegressor(random_state=0)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_right_model_gives_the_value(model):
    logs = four_logs()
    target = np.tile([3, 1], (240, 1))
    found = quietly(SlateDirectMethod(reward_model=model), target, logs)
    assert found.value == pytest.approx(additive(target[:1], FOUR)[0], abs=0.02)
    summed = quietly(
        SlateDirectMethod(reward_model=model, n_samples=None), TARGET, logs
    )
    assert summed.value == pytest.approx(truth(), abs=0.02)
    assert summed.diagnostics["model_r2"] > 0.98
    assert summed.diagnostics["uncovered_rounds"] == 0


def test_sums_and_draws_agree(global_random_seed):
    logs = four_logs()
    evaluator = SlateDirectMethod(
        reward_model=LinearRegression(), random_state=global_random_seed, n_samples=40
    )
    drawn = quietly(evaluator, TARGET, logs)
    summed = quietly(evaluator.set_params(n_samples=None), TARGET, logs)
    spread = additive(rankings(2, 4), FOUR).std()
    assert abs(drawn.value - summed.value) < 5 * spread / np.sqrt(240 * 40)

    def draw(logs, rng):
        return UniformSlatePolicy(2).sample(logs, rng)

    only_draws = quietly(
        evaluator.set_params(n_samples=40), SampledSlatePolicy(draw), logs
    )
    assert abs(only_draws.value - FOUR.mean() * 2) < 5 * spread / np.sqrt(240 * 40)


@pytest.mark.parametrize("target", [TARGET, np.tile([3, 1], (240, 1))])
def test_predictions_and_numbers_stay_within_the_range(target):
    ranged = four_logs(reward_range=(0.0, 2.0))
    far = four_logs().replace(reward=ranged.reward + 5)
    six = DummyRegressor(strategy="constant", constant=6).fit([[0]], [6])
    added = AdditiveSlateModel().fit(far)
    models = FrozenEstimator(six), FrozenEstimator(added), 5.0
    for model in models:
        evaluator = SlateDirectMethod(reward_model=model)
        assert quietly(evaluator, target, ranged).value == 2.0
        assert quietly(evaluator, target, four_logs()).value >= 5
    assert quietly(SlateDirectMethod(reward_model=-1.0), target, ranged).value == 0.0


def test_without_a_model_it_is_the_mean_reward():
    found = quietly(SlateDirectMethod(), TARGET, four_logs())
    assert found.value == pytest.approx(four_logs().reward.mean())
    assert (
        quietly(SlateDirectMethod(reward_model=0.3), TARGET, four_logs()).value == 0.3
    )


def test_the_error_of_the_model_is_warned_of():
    _, found = warned(SlateDirectMethod().fit(four_logs()), TARGET)
    assert (ModelErrorWarning, "leaves out the error") in found


def test_other_logs_are_predicted_by_a_model_of_all_rounds():
    logs = four_logs()
    noise = np.random.RandomState(1).normal(size=240)
    logs = logs.replace(reward=logs.reward + noise)
    tree = DecisionTreeRegressor(random_state=0)
    evaluator = SlateDirectMethod(reward_model=tree).fit(logs)
    with pytest.warns(ModelErrorWarning):
        found = evaluator.evaluate(np.tile([3, 1], (24, 1)), four_logs(24))
    expected = logs.reward[(logs.slate == [3, 1]).all(axis=1)].mean()
    np.testing.assert_allclose(found.round_values, expected)


def test_too_many_slates_and_two_models():
    many = SlateLogs(
        np.zeros((10, 1)),
        np.tile(np.arange(6), (10, 1)),
        np.arange(10.0),
        n_candidates=9,
    )
    evaluator = SlateDirectMethod(reward_model=LinearRegression(), n_samples=None)
    with pytest.raises(ValueError, match="more than 20,000"):
        quietly(evaluator, UniformSlatePolicy(6), many)
    with pytest.raises(ValueError, match="give it once"):
        SlateDirectMethod(reward_model=1.0).fit(many, 2.0)


PHI = np.random.RandomState(0).random_sample((3, 5))


LOGGER = PlackettLuceSlatePolicy(rank_weights(np.arange(1, 6), alpha=1), 3)


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
    at, ones = np.tile([2, 0, 4], (len(logs), 1)), logs.replace(reward=np.ones(60))
    weight = quietly(PseudoInverse(), at, ones).round_values
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


def test_rounds_outside_of_the_range():
    logs = range_logs()
    target = np.array([[2, 0], [1, 1], [1, 1]])
    evaluator = SlateDoublyRobust(reward_model=0.5).fit(logs)
    result, found = warned(evaluator, target)
    assert found[SupportWarning, "33.33%"] == pytest.approx(1 / 3)
    assert result.value == pytest.approx(0.5 + (3 * -0.3 + 3 * -0.1) / 2)
    with pytest.raises(ValueError, match="row 0"):
        SlateDoublyRobust(reward_model=0.5, outside_range="raise").fit(logs).evaluate(
            target
        )

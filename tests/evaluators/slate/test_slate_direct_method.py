# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The direct method for slates."""

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LassoCV, LinearRegression
from sklearn.tree import DecisionTreeRegressor

from skope_ope import (
    PlackettLuceSlatePolicy,
    SlateDirectMethod,
    SlateLogs,
    UniformSlatePolicy,
)
from skope_ope.exceptions import ModelErrorWarning
from skope_ope.policies import SampledSlatePolicy
from skope_ope.reward_models import AdditiveSlateModel
from skope_ope.reward_models._slate_design import slate_design
from tests.evaluators.slate._worlds import additive, quietly, rankings, warned

PHI = np.random.RandomState(0).random_sample((2, 4))


def some_logs(n_rounds=240, **fields):
    slates = np.resize(rankings(2, 4), (n_rounds, 2))
    return SlateLogs(
        np.zeros((n_rounds, 1)), slates, additive(slates, PHI), n_candidates=4, **fields
    )


TARGET = PlackettLuceSlatePolicy([1.0, 2.0, 3.0, 4.0], 2)


def truth():
    marginals = TARGET.slot_marginals(some_logs(12))[0]
    return (marginals * PHI).sum()


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
    logs = some_logs()
    target = np.tile([3, 1], (240, 1))
    found = quietly(SlateDirectMethod(reward_model=model), target, logs)
    assert found.value == pytest.approx(additive(target[:1], PHI)[0], abs=0.02)
    summed = quietly(
        SlateDirectMethod(reward_model=model, n_samples=None), TARGET, logs
    )
    assert summed.value == pytest.approx(truth(), abs=0.02)
    assert summed.diagnostics["model_r2"] > 0.98
    assert summed.diagnostics["uncovered_rounds"] == 0


def test_sums_and_draws_agree(global_random_seed):
    logs = some_logs()
    evaluator = SlateDirectMethod(
        reward_model=LinearRegression(), random_state=global_random_seed, n_samples=40
    )
    drawn = quietly(evaluator, TARGET, logs)
    summed = quietly(evaluator.set_params(n_samples=None), TARGET, logs)
    spread = additive(rankings(2, 4), PHI).std()
    assert abs(drawn.value - summed.value) < 5 * spread / np.sqrt(240 * 40)

    def draw(logs, rng):
        return UniformSlatePolicy(2).sample(logs, rng)

    only_draws = quietly(
        evaluator.set_params(n_samples=40), SampledSlatePolicy(draw), logs
    )
    assert abs(only_draws.value - PHI.mean() * 2) < 5 * spread / np.sqrt(240 * 40)


def test_asked_twice_it_draws_the_same():
    logs = some_logs()

    def value(evaluator):
        with pytest.warns(ModelErrorWarning):
            return evaluator.score(TARGET)

    evaluator = SlateDirectMethod(reward_model=LinearRegression()).fit(logs)
    first = value(evaluator)
    assert value(evaluator) == first
    assert value(evaluator.fit(logs)) != first  # a fit draws a seed
    evaluator.set_params(random_state=evaluator.seed_)
    expected = value(evaluator)
    assert value(evaluator.fit(logs)) == expected


def test_predictions_stay_within_the_range_of_rewards():
    logs = some_logs(reward_range=(0.0, 2.0))
    far = FrozenEstimator(
        LinearRegression().fit(slate_design(logs, logs.slate), logs.reward + 5)
    )
    found = quietly(SlateDirectMethod(reward_model=far), TARGET, logs)
    assert found.value == 2.0
    loose = quietly(SlateDirectMethod(reward_model=far), TARGET, some_logs())
    assert loose.value > 5


@pytest.mark.parametrize("target", [TARGET, np.tile([3, 1], (240, 1))])
def test_values_of_sums_and_numbers_stay_within_the_range(target):
    logs = some_logs(reward_range=(0.0, 2.0))
    far = some_logs().replace(reward=logs.reward + 5)
    far = FrozenEstimator(AdditiveSlateModel().fit(far))
    assert quietly(SlateDirectMethod(reward_model=far), target, logs).value == 2.0
    assert quietly(SlateDirectMethod(reward_model=5.0), target, logs).value == 2.0
    assert quietly(SlateDirectMethod(reward_model=-1.0), target, logs).value == 0.0


def test_without_a_model_it_is_the_mean_reward():
    found = quietly(SlateDirectMethod(), TARGET, some_logs())
    assert found.value == pytest.approx(some_logs().reward.mean())
    assert (
        quietly(SlateDirectMethod(reward_model=0.3), TARGET, some_logs()).value == 0.3
    )


def test_the_error_of_the_model_is_warned_of():
    _, found = warned(SlateDirectMethod().fit(some_logs()), TARGET)
    assert (ModelErrorWarning, "leaves out the error") in found


def test_other_logs_are_predicted_by_a_model_of_all_rounds():
    logs, other = some_logs(), some_logs(24)
    evaluator = SlateDirectMethod(reward_model=DecisionTreeRegressor(random_state=0))
    evaluator.fit(logs)
    tree = DecisionTreeRegressor(random_state=0)
    tree.fit(slate_design(logs, logs.slate), logs.reward)
    slates = np.tile([3, 1], (24, 1))
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelErrorWarning)
        found = evaluator.evaluate(slates, other)
    np.testing.assert_allclose(
        found.round_values, tree.predict(slate_design(other, slates))
    )


def test_bad_input():
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

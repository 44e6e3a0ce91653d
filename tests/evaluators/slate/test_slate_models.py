# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Models of the rewards of slates and slots, and the assumptions that they serve."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.dummy import DummyRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LassoCV, LinearRegression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from skope_ope import (
    CascadeDR,
    CascadeIPS,
    IndependentSlotIPS,
    PlackettLuceSlatePolicy,
    PseudoInverse,
    SlateDirectMethod,
    SlateDoublyRobust,
    SlateIPS,
    SlateLogs,
    UniformSlatePolicy,
)
from skope_ope.exceptions import ModelErrorWarning, SupportWarning
from skope_ope.policies import (
    EmpiricalSlatePolicy,
    ProductSlatePolicy,
    SampledSlatePolicy,
)
from skope_ope.reward_models import AdditiveSlateModel
from tests._quiet import quiet
from tests.evaluators.slate._worlds import (
    EMPTY_WORLDS,
    additive,
    empty_world,
    products,
    quietly,
    range_logs,
    rankings,
    showed,
    showing,
    warned,
    world,
)
from tests.policies._slate_worlds import rounds

FOUR = np.random.RandomState(0).random_sample((2, 4))


def four_logs(n_rounds=240, **fields):
    slates = np.resize(rankings(2, 4), (n_rounds, 2))
    fields["n_candidates"] = 4
    return SlateLogs(np.zeros((n_rounds, 1)), slates, additive(slates, FOUR), **fields)


TREE = DecisionTreeRegressor(random_state=0)
TARGET = PlackettLuceSlatePolicy([1.0, 2.0, 3.0, 4.0], 2)


@pytest.mark.few_cases(2)
@pytest.mark.parametrize(
    "model",
    [LinearRegression(), LassoCV(), TREE, AdditiveSlateModel(TREE)],
    ids=lambda model: type(model).__name__,
)
def test_a_right_model_gives_the_value(model):
    logs, target = four_logs(), np.tile([3, 1], (240, 1))
    found = quietly(SlateDirectMethod(reward_model=model), target, logs)
    assert found.value == pytest.approx(additive(target[:1], FOUR)[0], abs=0.02)
    evaluator = SlateDirectMethod(reward_model=model, n_samples=None)
    summed = quietly(evaluator, TARGET, logs)
    truth = (TARGET.slot_marginals(logs[:1])[0] * FOUR).sum()
    assert summed.value == pytest.approx(truth, abs=0.02)
    assert summed.diagnostics["model_r2"] > 0.98
    assert summed.diagnostics["uncovered_rounds"] == 0


def test_sums_and_draws_agree(global_random_seed):
    logs, given = four_logs(), {"random_state": global_random_seed, "n_samples": 40}
    evaluator = SlateDirectMethod(reward_model=LinearRegression(), **given)
    drawn = quietly(evaluator, TARGET, logs).value
    only_draws = SampledSlatePolicy(UniformSlatePolicy(2).sample)
    only_draws = quietly(evaluator, only_draws, logs).value
    summed = quietly(evaluator.set_params(n_samples=None), TARGET, logs).value
    error = 5 * additive(rankings(2, 4), FOUR).std() / np.sqrt(240 * 40)
    assert abs(drawn - summed) < error
    assert abs(only_draws - FOUR.mean() * 2) < error


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
    number = SlateDirectMethod(reward_model=0.3)
    assert quietly(number, TARGET, four_logs()).value == 0.3


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
    assert_allclose(found.round_values, expected)


def test_too_many_slates_and_two_models():
    many = showed(np.tile(np.arange(6), (10, 1)), np.arange(10.0), n_candidates=9)
    evaluator = SlateDirectMethod(reward_model=LinearRegression(), n_samples=None)
    with pytest.raises(ValueError, match="more than 20,000"):
        quietly(evaluator, UniformSlatePolicy(6), many)
    with pytest.raises(ValueError, match="give it once"):
        SlateDirectMethod(reward_model=1.0).fit(many, 2.0)


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


def test_no_other_model_can_be_passed():
    """One that is no sum over slots would leave a bias."""
    fitted = FrozenEstimator(LinearRegression().fit([[0]], [0]))
    for other in (LinearRegression(), fitted):
        with pytest.raises(TypeError, match=r"of slot rewards.*AdditiveSlateModel"):
            SlateDoublyRobust(reward_model=other).fit(the_world()[0])


@pytest.mark.thorough
def test_a_model_lowers_the_variance(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    logger, blank = UniformSlatePolicy(3), rounds(2000, 3, 5)
    slates = logger.sample(blank, rng)
    reward = additive(slates, PHI) + 0.1 * rng.normal(size=2000)
    logs = showing(blank, slates, reward, logging_policy=logger)
    target = np.tile([2, 0, 4], (2000, 1))
    plain = quietly(PseudoInverse(self_normalized=True), target, logs)
    tree = DecisionTreeRegressor(max_leaf_nodes=30, random_state=0)
    robust = SlateDoublyRobust(reward_model=AdditiveSlateModel(tree))
    truth = additive(target[:1], PHI)[0]
    for evaluator, most in ((robust, 0.6), (SlateDoublyRobust(), 1.0)):
        result = quietly(evaluator, target, logs)
        assert result.standard_error < most * plain.standard_error
        assert abs(result.value - truth) < 5 * result.standard_error


def test_rounds_outside_of_the_range():
    logs = range_logs()
    target = np.array([[2, 0], [1, 1], [1, 1]])
    evaluator = SlateDoublyRobust(reward_model=0.5).fit(logs)
    result, found = warned(evaluator, target)
    assert found[SupportWarning, "33.33%"] == pytest.approx(1 / 3)
    assert result.value == pytest.approx(0.5 + (3 * -0.3 + 3 * -0.1) / 2)
    evaluator.set_params(outside_range="raise").fit(logs)
    with pytest.raises(ValueError, match="row 0"):
        evaluator.evaluate(target)


CLICKS = np.random.RandomState(0).random_sample((3, 4))


def rewards(slates, kind):
    """Expected rewards of the slots: of independent slots, readers, or crowds."""
    phi = CLICKS[np.arange(slates.shape[1]), slates]
    if kind == "cascade":
        phi[:, 1:] *= np.cumprod(1 - phi, axis=1)[:, :-1]
    elif kind == "crowd":
        phi = phi * (1 - (phi.sum(axis=1, keepdims=True) - phi) / 4)
    return phi


SLOT_LOGGERS = [
    (PlackettLuceSlatePolicy([4.0, 3.0, 2.0, 1.0], 3), rankings(3, 4)),
    (ProductSlatePolicy(np.tile([0.4, 0.3, 0.2, 0.1], (3, 1))), products(3, 4)),
]
UNBIASED = {
    IndependentSlotIPS: {"independent"},
    CascadeIPS: {"independent", "cascade"},
    CascadeDR: {"independent", "cascade"},
    SlateIPS: {"independent", "cascade", "crowd"},
}


def cascade_world(logger, slates, kind):
    slot_reward = rewards(slates, kind)
    return world(logger, slates, slot_reward.sum(axis=1), 4, slot_reward=slot_reward)


@pytest.mark.few_cases
@pytest.mark.parametrize("kind", ["independent", "cascade", "crowd"])
@pytest.mark.parametrize(("logger", "slates"), SLOT_LOGGERS, ids=["ranking", "product"])
@pytest.mark.parametrize("evaluator", UNBIASED, ids=lambda cls: cls.__name__)
def test_unbiased_where_the_assumption_holds(evaluator, logger, slates, kind):
    logs, proba = cascade_world(logger, slates, kind)
    chosen = [2, 0, 3]
    policy = PlackettLuceSlatePolicy([1.0, 2.0, 4.0, 1.0], 3)
    made = evaluator(reward_model=0.3) if evaluator is CascadeDR else evaluator()
    for target, truth in (
        (np.tile(chosen, (len(logs), 1)), rewards(np.array([chosen]), kind).sum()),
        (policy, policy.slate_proba(logs) @ logs.reward),
    ):
        value = quietly(made, target, logs, proba).value
        if kind in UNBIASED[evaluator]:
            assert value == pytest.approx(truth, abs=1e-12)
        else:
            assert abs(value - truth) > 1e-3


def clicked_logs(n_rounds, seed):
    rng = np.random.RandomState(seed)
    empty = showed(np.full((n_rounds, 3), -1), np.zeros(n_rounds), n_candidates=4)
    logger = SLOT_LOGGERS[0][0]
    slates = logger.sample(empty, rng)
    clicks = rng.random_sample(slates.shape) < rewards(slates, "cascade")
    given = {"slot_reward": clicks.astype(float), "logging_policy": logger}
    return showed(slates, n_candidates=4, **given)


@pytest.mark.parametrize(
    "evaluator", [IndependentSlotIPS(), CascadeIPS(), CascadeDR(reward_model=0.0)]
)
def test_what_the_logger_never_shows(evaluator):
    slates = [[0, 1], [1, 0]]
    given = {"n_candidates": 3, "logging_policy": EmpiricalSlatePolicy(slates)}
    evaluator.fit(showed(slates, slot_reward=np.ones((2, 2)), **given))
    result, found = warned(evaluator, np.array([[0, 2], [1, 0]]))
    share = 0.25 if isinstance(evaluator, IndependentSlotIPS) else 0.5
    assert found[SupportWarning, "never shows"] == share
    assert result.diagnostics["unsupported_share"] == share
    result, found = warned(evaluator, np.full((2, 2), 2))
    assert np.isnan(result.value)
    assert (SupportWarning, "has no estimate") in found
    # empty slots
    slates, given = np.array([[0, -1], [1, 0]]), {"n_candidates": [1, 2]}
    given["logging_policy"] = UniformSlatePolicy(2)
    logs = showed(slates, slot_reward=[[1, 0], [0, 1]], **given)
    assert_allclose(quietly(evaluator, slates, logs).round_values, [1, 2])


@pytest.mark.parametrize("evaluator", [IndependentSlotIPS(), CascadeIPS(), CascadeDR()])
def test_slot_rewards_that_are_missing(evaluator):
    logs = clicked_logs(30, 0)
    never = logs.replace(logging_policy=EmpiricalSlatePolicy([[0, 1, 2]]))
    whole = showed(logs.slate, logs.reward, n_candidates=4)
    for other, message in (
        (whole, "needs the rewards of the slots"),
        (logs.replace(logging_policy=None), "needs the logging policy"),
        (never, "probability 0"),
    ):
        with pytest.raises(ValueError, match=message):
            evaluator.fit(other)
    fitted = evaluator.fit(logs)
    if not isinstance(evaluator, IndependentSlotIPS):
        with pytest.raises(TypeError, match="by its slot marginals"):
            fitted.evaluate(np.full((30, 3, 4), 0.25))
        with pytest.raises(TypeError, match="serves IndependentSlotIPS"):
            fitted.evaluate(np.full((30, 3), 0.25))


def test_purchases_are_not_valued_as_clicks():
    fields = {"n_candidates": 3, "logging_policy": UniformSlatePolicy(2)}
    clicks, slates = [[1, 0], [0, 1], [1, 1]], [[0, 1], [1, 2], [2, 0]]
    logs = showed(slates, [1, 1, 0], slot_reward=clicks, **fields)
    message = r"sum: at row 2 it is 0, and the slot rewards add to 2\. .*without"
    for evaluator in (IndependentSlotIPS(), CascadeIPS(), CascadeDR()):
        with pytest.raises(ValueError, match=message):
            evaluator.fit(logs)


def test_a_model_of_other_rounds_leaves_the_cascade_unbiased():
    logger, slates = SLOT_LOGGERS[0]
    best = np.tile([2, 0, 3], (24, 1))
    logs, proba = cascade_world(logger, slates, "cascade")
    other = cascade_world(logger, slates, "crowd")[0].with_columns(best=best)
    logs = logs.with_columns(best=best)
    evaluator = CascadeDR(reward_model=TREE).fit(other)
    policy = PlackettLuceSlatePolicy([1.0, 2.0, 4.0, 1.0], 3)
    for target, truth in (
        (policy, policy.slate_proba(logs) @ logs.reward),
        ("best", rewards(best[:1], "cascade").sum()),
    ):
        found = quiet(evaluator, target, logs.with_columns(sample_weight=proba))
        assert found.value == pytest.approx(truth, abs=1e-12)
    with pytest.raises(ValueError, match="slates of other rounds only"):
        evaluator.evaluate(best, logs)


def test_the_model_is_right_where_the_world_is_known():
    # folds of a world without noise: the value is exact in every round
    logger, slates = SLOT_LOGGERS[0]
    slates = np.tile(slates, (5, 1))
    slot_reward, tree = rewards(slates, "cascade"), CascadeDR(reward_model=TREE)
    logs = showed(slates, slot_reward=slot_reward, logging_policy=logger)
    one = EmpiricalSlatePolicy([[2, 0, 3]])
    for policy in (UniformSlatePolicy(3), one, np.tile([2, 0, 3], (120, 1))):
        asked = one if isinstance(policy, np.ndarray) else policy
        truth = asked.slate_proba(logs[:24]) @ slot_reward[:24].sum(axis=1)
        found = quietly(tree, policy, logs).round_values
        assert_allclose(found, truth, atol=1e-12)


@pytest.mark.parametrize("reward_model", [0.25, None])
def test_constants_of_the_model(reward_model):
    """A number of all slots, or the mean of what they and later ones bring."""
    logger, slates = SLOT_LOGGERS[1]
    logs = cascade_world(logger, slates, "cascade")[0]
    halves = [np.arange(len(logs)) % 2 == k for k in (0, 1)]
    folds = [np.flatnonzero(one) for one in halves]
    policy = ProductSlatePolicy(np.full((3, 4), 0.25))
    evaluator = CascadeDR(reward_model=reward_model, cv=[folds, folds[::-1]])
    weight = policy.marginal_proba(logs) / logger.marginal_proba(logs)
    expected = np.zeros(len(logs))
    for slot in (2, 1, 0):
        later = logs.slot_reward[:, slot:].sum(axis=1)
        means = later[folds[1]].mean(), later[folds[0]].mean()
        c = np.where(halves[0], *means) if reward_model is None else reward_model
        expected = c + weight[:, slot] * (logs.slot_reward[:, slot] + expected - c)
    found = quietly(evaluator, policy, logs)
    assert_allclose(found.round_values, expected, rtol=1e-12)


def test_uncovered_rounds_get_means():
    logs = clicked_logs(40, 0)
    evaluator = CascadeDR(reward_model=TREE, cv=[(np.arange(20), np.arange(20, 40))])
    result = quietly(evaluator, logs.logging_policy, logs)
    assert result.diagnostics["uncovered_rounds"] == 20
    assert np.isfinite(result.round_values).all()


def test_models_that_the_cascade_refuses():
    logs = clicked_logs(30, 0)
    for model in ("q_hat", np.zeros((30, 4)), DecisionTreeRegressor):
        with pytest.raises((TypeError, ValueError), match="reward_model"):
            CascadeDR(reward_model=model).fit(logs)
        with pytest.raises(TypeError, match=r"refitted for every policy|an instance"):
            CascadeDR().fit(logs, model)


def test_classifiers_model_single_slots_by_their_probabilities():
    slates = np.tile([[0], [1]], (40, 1))
    clicks = np.random.RandomState(0).random_sample((80, 1)) < 0.3 + 0.4 * slates
    clicks, logger = clicks.astype(float), {"logging_policy": UniformSlatePolicy(1)}
    logs, target = showed(slates, slot_reward=clicks, **logger), np.ones((80, 1), int)
    # indicators of two candidates and a constant: probabilities are the shares
    models = DecisionTreeClassifier(), DecisionTreeRegressor()
    classes, shares = (quietly(CascadeDR(reward_model=m), target, logs) for m in models)
    assert_allclose(classes.round_values, shares.round_values)
    assert len(np.unique(classes.round_values)) > 3  # shares differ from fold to fold
    twice = showed(slates, slot_reward=2.0 * clicks, **logger)
    for other, message in (
        (clicked_logs(50, 0), "sums of the rewards of up to 3 slots here"),
        (twice, "slot rewards other than 0 and 1"),
    ):
        with pytest.raises(ValueError, match=message):
            CascadeDR(reward_model=DecisionTreeClassifier()).fit(other)

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The template of slate evaluators."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge

from skope_ope import (
    BanditLogs,
    CascadeDR,
    CascadeIPS,
    IndependentSlotIPS,
    PseudoInverse,
    SlateDirectMethod,
    SlateDoublyRobust,
    SlateIPS,
    SlateLogs,
    UniformSlatePolicy,
)
from skope_ope.base import SlateEvaluator
from skope_ope.evaluators.slate._base import SlateTerms, logged_proba
from skope_ope.exceptions import LowOverlapWarning, PropensityWarning
from skope_ope.policies import ProductSlatePolicy
from tests.evaluators.slate._worlds import quietly, rankings, warned


class MeanReward(SlateEvaluator):
    """The mean reward, whatever the policy."""

    def _terms(self, target, logs):
        return SlateTerms(terms=(logs.reward,), used=self.used, weight=self.weight)

    used = weight = None


def some_logs(n_rounds=60, **fields):
    slates = np.resize(rankings(2, 3), (n_rounds, 2))
    return SlateLogs(np.zeros((n_rounds, 1)), slates, np.arange(n_rounds), **fields)


def test_an_evaluator_of_ones_own():
    logs = some_logs()
    result = quietly(MeanReward(), logs.slate, logs)
    assert result.value == logs.reward.mean()
    assert result.standard_error == pytest.approx(logs.reward.std(ddof=1) / 60**0.5)
    assert np.isnan(result.effective_sample_size)
    with pytest.raises(TypeError, match="does not define _terms"):
        SlateEvaluator().fit(logs).evaluate(logs.slate)


def test_sample_weights_and_rounds_that_are_not_used():
    logs, evaluator = some_logs(), MeanReward()
    weight = np.linspace(1, 2, 60)
    weighted = quietly(evaluator, logs.slate, logs, weight)
    assert weighted.value == pytest.approx(np.average(logs.reward, weights=weight))
    evaluator.used = np.arange(60) >= 30
    half = evaluator.evaluate(logs.slate, sample_weight=weight)
    expected = np.average(logs.reward[30:], weights=weight[30:])
    assert half.value == pytest.approx(expected)
    assert half.round_values.mean() == pytest.approx(half.value)
    alone = quietly(MeanReward(), logs.slate[30:], logs[30:], weight[30:])
    assert half.standard_error == pytest.approx(alone.standard_error, rel=1e-12)
    assert half.degrees_of_freedom == alone.degrees_of_freedom == 29
    assert half.diagnostics["n_rounds"] == 30
    evaluator.used = np.arange(60) == 7
    one = quietly(evaluator, logs.slate, logs)
    assert one.value == 7
    assert np.isnan(one.standard_error)
    evaluator.used = np.zeros(60, dtype=bool)
    assert np.isnan(quietly(evaluator, logs.slate, logs).value)


def test_weights_that_deserve_a_warning():
    logs, evaluator = some_logs(), MeanReward()
    evaluator.weight = np.r_[np.zeros(50), np.ones(10)]
    result, found = warned(evaluator.fit(logs), logs.slate)
    assert found[LowOverlapWarning, "10.0 effective rounds"] == pytest.approx(10)
    assert PropensityWarning not in {kind for kind, _ in found}  # rare large ones
    assert result.effective_sample_size == pytest.approx(10)
    evaluator.weight = np.r_[20.0, np.ones(59)]
    evaluator.weight[1:30] = 2.0
    _, found = warned(evaluator, logs.slate)
    assert (LowOverlapWarning, "effective rounds") in found
    evaluator.weight = np.tile([1.5, 2.5], 30)
    _, found = warned(evaluator, logs.slate)
    assert found[PropensityWarning, "mean importance weight is 2, where at most"] > 7


def test_logs_of_another_kind():
    single = BanditLogs(np.zeros((2, 1)), [0, 1], [0, 1])
    with pytest.raises(TypeError, match="must be SlateLogs, got BanditLogs"):
        MeanReward().fit(single)


def test_probabilities_of_the_logged_slates():
    logs = some_logs(logging_policy=UniformSlatePolicy(2))
    np.testing.assert_allclose(logged_proba(logs), 1 / 6)
    recorded = logs.replace(propensity=np.full(60, 0.5))
    np.testing.assert_array_equal(logged_proba(recorded), 0.5)
    other = logs.replace(logging_policy=ProductSlatePolicy(np.full((2, 3), 1 / 3)))
    np.testing.assert_allclose(logged_proba(other), 1 / 9)


def test_a_column_of_weights_weights_the_rounds():
    logs = SlateLogs(
        np.zeros((6, 1)),
        [[0, 1], [1, 0], [2, 0], [0, 2], [1, 2], [2, 1]],
        [1.0, 0.5, 0.0, 0.3, 0.7, 0.2],
        logging_policy=UniformSlatePolicy(2),
    )
    weight = np.array([1.0, 2.0, 1.0, 3.0, 1.0, 2.0])
    own = logs.with_columns(sample_weight=weight)
    target = np.tile([0, 1], (6, 1))
    for evaluator in (PseudoInverse(), SlateIPS()):
        found = quietly(evaluator, target, own)
        given = quietly(evaluator, target, logs, weight)
        np.testing.assert_allclose(found.round_values, given.round_values)
        both = quietly(evaluator, target, own, weight)
        squared = quietly(evaluator, target, logs, weight**2)
        assert both.value == pytest.approx(squared.value)
    # the mean reward of a fold is the prediction for the other, whose rounds sum to 4
    found = quietly(SlateDirectMethod(cv=2), target, own)
    first = np.average(logs.reward[:3], weights=weight[:3])
    second = np.average(logs.reward[3:], weights=weight[3:])
    assert found.value == pytest.approx((4 * second + 6 * first) / 10)
    for wrong, match in (
        (np.zeros(6), "positive somewhere, got 0 to 0"),
        (np.ones((6, 2)), "the column 'sample_weight' must have 1 dimension"),
    ):
        bad = logs.with_columns(sample_weight=wrong)
        with pytest.raises(ValueError, match=match):
            quietly(SlateIPS(), target, bad)


@pytest.mark.parametrize(
    "evaluator",
    [
        SlateDoublyRobust(),
        SlateDirectMethod(reward_model=Ridge()),
        CascadeDR(reward_model=Ridge()),
    ],
    ids=lambda evaluator: type(evaluator).__name__,
)
def test_models_of_other_candidates_say_so(evaluator):
    slates = np.resize(rankings(2, 3), (30, 2))
    fields = {"slot_reward": slates % 2, "logging_policy": UniformSlatePolicy(2)}
    logs, more = (
        SlateLogs(np.zeros((30, 1)), slates, None, n_candidates=m, **fields)
        for m in (3, 4)
    )
    evaluator = clone(evaluator).fit(logs)
    policy = UniformSlatePolicy(2)
    message = "the logs have 4 candidates, those of the reward model's fit had 3"
    with pytest.raises(ValueError, match=message), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        evaluator.evaluate(policy, more)


EVERY = [
    SlateIPS(),
    SlateIPS(self_normalized=True),
    PseudoInverse(),
    PseudoInverse(self_normalized=True),
    PseudoInverse(control_variates="single"),
    PseudoInverse(control_variates="multiple"),
    SlateDoublyRobust(reward_model=0.5),
    SlateDirectMethod(reward_model=0.5),
    IndependentSlotIPS(),
    CascadeIPS(),
    CascadeDR(reward_model=0.1),
]


def clicked_logs(rows=None, **fields):
    """Logs of 40 rounds with noise; some of their rows."""
    rng = np.random.RandomState(0)
    slates = rankings(2, 3)[rng.randint(6, size=40)]
    clicks = rng.random_sample((40, 2)) * (1 + slates)
    rows = np.arange(40) if rows is None else rows
    return SlateLogs(
        np.zeros((len(rows), 1)),
        slates[rows],
        None,
        slot_reward=clicks[rows],
        n_candidates=3,
        logging_policy=UniformSlatePolicy(2),
        **fields,
    )


@pytest.mark.parametrize("evaluator", EVERY, ids=repr)
def test_rounds_of_a_group_depend_on_each_other(evaluator):
    target, other = np.array([1, 0]), np.array([2, 1])

    def values(logs):
        one, two = (
            quietly(evaluator, np.tile(slate, (len(logs), 1)), logs)
            for slate in (target, other)
        )
        return one, one - two

    independent = values(clicked_logs())
    alone = values(clicked_logs(group=np.arange(40)))
    rows = np.repeat(np.arange(40), 3)
    copies = values(clicked_logs(rows, group=rows))
    loose = values(clicked_logs(rows))
    for plain, single, repeated, wrong in zip(
        independent, alone, copies, loose, strict=True
    ):
        for found in (single, repeated):
            assert found.value == pytest.approx(plain.value, rel=1e-12, abs=1e-14)
            assert found.standard_error == pytest.approx(plain.standard_error, rel=1e-9)
            assert found.diagnostics["n_groups"] == 40
        if plain.standard_error > 0:
            assert wrong.standard_error < 0.6 * plain.standard_error
            assert repeated.diagnostics["design_effect"] == pytest.approx(3, rel=0.05)


def test_groups_of_users_in_values_by_day():
    rows = np.repeat(np.arange(40), 3)
    logs, day = clicked_logs(rows, group=rows), np.tile([0, 1, 2], 40)
    result = quietly(PseudoInverse(), np.tile([1, 0], (120, 1)), logs)
    plain = quietly(PseudoInverse(), np.tile([1, 0], (40, 1)), clicked_logs())
    for value in result.by(day).values():  # every user has one round a day
        assert value.standard_error == pytest.approx(plain.standard_error, rel=1e-12)


def test_fitted_attributes_are_set_together():
    logs = clicked_logs()
    evaluator = CascadeDR(reward_model=0.1).fit(logs)
    before = dict(vars(evaluator))
    evaluator.set_params(reward_model=0.2, cv=[])
    with pytest.raises(ValueError):
        evaluator.fit(clicked_logs(np.arange(30)))
    assert evaluator.model_ == 0.1
    assert evaluator.logs_ is before["logs_"]
    seeded = SlateDirectMethod(random_state=np.random.RandomState(0)).fit(logs)
    assert seeded.seed_ == np.random.RandomState(0).randint(2**31 - 1)

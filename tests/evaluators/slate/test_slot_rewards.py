# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Slot rewards under every assumption, in worlds of every kind."""

import numpy as np
import pytest

import skope_ope
from skope_ope import (
    CascadeDR,
    CascadeIPS,
    IndependentSlotIPS,
    PlackettLuceSlatePolicy,
    SlateIPS,
    SlateLogs,
    UniformSlatePolicy,
)
from skope_ope.exceptions import SupportWarning
from skope_ope.policies import EmpiricalSlatePolicy, ProductSlatePolicy
from tests.evaluators.slate._worlds import products, quietly, rankings, warned, world

PHI = np.random.RandomState(0).random_sample((3, 4))


def rewards(slates, kind):
    """Expected rewards of the slots: of independent slots, readers, or crowds."""
    phi = PHI[np.arange(slates.shape[1]), slates]
    if kind == "cascade":
        phi[:, 1:] *= np.cumprod(1 - phi, axis=1)[:, :-1]
    elif kind == "crowd":
        phi = phi * (1 - (phi.sum(axis=1, keepdims=True) - phi) / 4)
    return phi


LOGGERS = [
    (PlackettLuceSlatePolicy([4.0, 3.0, 2.0, 1.0], 3), rankings(3, 4)),
    (ProductSlatePolicy(np.tile([0.4, 0.3, 0.2, 0.1], (3, 1))), products(3, 4)),
]
UNBIASED = {
    IndependentSlotIPS: {"independent"},
    CascadeIPS: {"independent", "cascade"},
    CascadeDR: {"independent", "cascade"},
    SlateIPS: {"independent", "cascade", "crowd"},
}


def the_world(logger, slates, kind):
    slot_reward = rewards(slates, kind)
    return world(logger, slates, slot_reward.sum(axis=1), 4, slot_reward=slot_reward)


@pytest.mark.few_cases
@pytest.mark.parametrize("kind", ["independent", "cascade", "crowd"])
@pytest.mark.parametrize(("logger", "slates"), LOGGERS, ids=["ranking", "product"])
@pytest.mark.parametrize("evaluator", UNBIASED, ids=lambda cls: cls.__name__)
def test_unbiased_where_the_assumption_holds(evaluator, logger, slates, kind):
    logs, proba = the_world(logger, slates, kind)
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


def drawn_logs(n_rounds, seed):
    rng = np.random.RandomState(seed)
    empty = SlateLogs(
        np.zeros((n_rounds, 1)),
        np.full((n_rounds, 3), -1),
        np.zeros(n_rounds),
        n_candidates=4,
    )
    logger = LOGGERS[0][0]
    slates = logger.sample(empty, rng)
    clicks = rng.random_sample(slates.shape) < rewards(slates, "cascade")
    return SlateLogs(
        empty.context,
        slates,
        None,
        n_candidates=4,
        slot_reward=clicks.astype(float),
        logging_policy=logger,
    )


@pytest.mark.parametrize("evaluator", [IndependentSlotIPS(), CascadeIPS()])
def test_on_policy_weights_are_one(evaluator):
    logs = drawn_logs(50, 0)
    result = quietly(evaluator, logs.logging_policy, logs)
    np.testing.assert_allclose(result.round_values, logs.reward, atol=1e-12)


def test_marginals_and_recorded_probabilities_serve_independent_slots():
    logs = drawn_logs(50, 0)
    policy = PlackettLuceSlatePolicy([1.0, 2.0, 4.0, 1.0], 3)
    expected = quietly(IndependentSlotIPS(), policy, logs)
    for target in (policy.slot_marginals(logs), policy.marginal_proba(logs)):
        found = quietly(IndependentSlotIPS(), target, logs)
        np.testing.assert_allclose(found.round_values, expected.round_values)


@pytest.mark.parametrize(
    "evaluator", [IndependentSlotIPS(), CascadeIPS(), CascadeDR(reward_model=0.0)]
)
def test_what_the_logger_never_shows(evaluator):
    logger = EmpiricalSlatePolicy([[0, 1], [1, 0]])
    logs = SlateLogs(
        np.zeros((2, 1)),
        [[0, 1], [1, 0]],
        None,
        n_candidates=3,
        slot_reward=np.ones((2, 2)),
        logging_policy=logger,
    )
    result, found = warned(evaluator.fit(logs), np.array([[0, 2], [1, 0]]))
    share = 0.25 if isinstance(evaluator, IndependentSlotIPS) else 0.5
    assert found[SupportWarning, "never shows"] == share
    assert result.diagnostics["unsupported_share"] == share
    result, found = warned(evaluator.fit(logs), np.full((2, 2), 2))
    assert np.isnan(result.value)
    assert (SupportWarning, "has no estimate") in found


def test_empty_slots():
    logs = SlateLogs(
        np.zeros((2, 1)),
        [[0, -1], [1, 0]],
        None,
        n_candidates=[1, 2],
        slot_reward=[[1, 0], [0, 1]],
        logging_policy=UniformSlatePolicy(2),
    )
    target = np.array([[0, -1], [1, 0]])
    for evaluator in (IndependentSlotIPS(), CascadeIPS(), CascadeDR(reward_model=0.0)):
        result = quietly(evaluator, target, logs)
        np.testing.assert_allclose(result.round_values, [1, 2])


@pytest.mark.parametrize("evaluator", [IndependentSlotIPS(), CascadeIPS(), CascadeDR()])
def test_bad_input(evaluator):
    logs = drawn_logs(30, 0)
    whole = SlateLogs(logs.context, logs.slate, logs.reward, n_candidates=4)
    with pytest.raises(ValueError, match="needs the rewards of the slots"):
        evaluator.fit(whole)
    with pytest.raises(ValueError, match="needs the logging policy"):
        evaluator.fit(logs.replace(logging_policy=None))
    with pytest.raises(ValueError, match="probability 0"):
        evaluator.fit(logs.replace(logging_policy=EmpiricalSlatePolicy([[0, 1, 2]])))
    fitted = evaluator.fit(logs)
    if not isinstance(evaluator, IndependentSlotIPS):
        with pytest.raises(TypeError, match="by its slot marginals"):
            fitted.evaluate(np.full((30, 3, 4), 0.25))
        with pytest.raises(TypeError, match="serves IndependentSlotIPS"):
            fitted.evaluate(np.full((30, 3), 0.25))


@pytest.mark.parametrize("name", ["IndependentSlotIPS", "CascadeIPS", "CascadeDR"])
def test_purchases_are_not_valued_as_clicks(name):
    fields = {"n_candidates": 3, "logging_policy": UniformSlatePolicy(2)}
    clicks, slates = [[1, 0], [0, 1], [1, 1]], [[0, 1], [1, 2], [2, 0]]
    logs = SlateLogs(np.zeros((3, 1)), slates, [1, 1, 0], slot_reward=clicks, **fields)
    message = r"sum: at row 2 it is 0, and the slot rewards add to 2\. .*without"
    with pytest.raises(ValueError, match=message):
        getattr(skope_ope, name)().fit(logs)

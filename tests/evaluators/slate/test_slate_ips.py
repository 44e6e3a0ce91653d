# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Inverse propensity scoring of whole slates."""

import numpy as np
import pytest

from skope_ope import PlackettLuceSlatePolicy, SlateIPS, SlateLogs, UniformSlatePolicy
from skope_ope.exceptions import LowOverlapWarning, SupportWarning
from skope_ope.policies import (
    EmpiricalSlatePolicy,
    ProductSlatePolicy,
    SampledSlatePolicy,
)
from tests.evaluators.slate._worlds import quietly, rankings, warned, world

GOLDEN = {
    "slate": [[2, 0], [2, 1], [0, 2], [1, 0], [0, 1]],
    "reward": [1, 0.5, 0, 1, 0.25],
}


def golden_logs(**fields):
    fields = {"logging_policy": UniformSlatePolicy(2), **GOLDEN, **fields}
    return SlateLogs(np.zeros((len(fields["slate"]), 1)), **fields)


@pytest.mark.parametrize("self_normalized", [False, True])
@pytest.mark.parametrize(
    "fields",
    [{}, {"propensity": np.full(5, 1 / 6), "logging_policy": None}],
    ids=["policy", "propensity"],
)
def test_golden_slates(self_normalized, fields):
    evaluator = SlateIPS(self_normalized=self_normalized)
    result = quietly(evaluator, np.tile([2, 0], (5, 1)), golden_logs(**fields))
    assert result.value == pytest.approx(1.0 if self_normalized else 1.2)


@pytest.mark.parametrize("self_normalized", [False, True])
def test_unbiased_whatever_the_value_of_a_slate(self_normalized):
    slates = rankings(3, 4)
    values = np.random.RandomState(0).random_sample(len(slates))
    logger = PlackettLuceSlatePolicy([4.0, 3.0, 2.0, 1.0], 3)
    logs, proba = world(logger, slates, values, 4)
    for target in (
        np.tile([2, 0, 3], (len(logs), 1)),
        PlackettLuceSlatePolicy([1.0, 5.0, 1.0, 2.0], 3),
        EmpiricalSlatePolicy(slates[[3, 0]]),
    ):
        if isinstance(target, np.ndarray):
            truth = values[(slates == target[0]).all(axis=1)][0]
        else:
            truth = target.slate_proba(logs) @ values
        evaluator = SlateIPS(self_normalized=self_normalized)
        assert quietly(evaluator, target, logs, proba).value == pytest.approx(truth)


def test_on_policy_weights_are_one():
    logs = golden_logs()
    result = quietly(SlateIPS(), UniformSlatePolicy(2), logs)
    np.testing.assert_allclose(result.round_values, logs.reward, atol=1e-14)


@pytest.mark.parametrize("self_normalized", [False, True])
def test_no_match_is_nan(self_normalized):
    logs = golden_logs(slate=GOLDEN["slate"][1:], reward=GOLDEN["reward"][1:])
    evaluator = SlateIPS(self_normalized=self_normalized).fit(logs)
    result, found = warned(evaluator, np.tile([2, 0], (4, 1)))
    assert np.isnan(result.value)
    assert np.isnan(result.standard_error)
    assert (SupportWarning, "the policy takes no logged action") in found
    assert (LowOverlapWarning, "weights sum to") not in found  # one reason is enough


def test_slates_that_the_logger_never_composes():
    logs = golden_logs(logging_policy=EmpiricalSlatePolicy(GOLDEN["slate"]))
    target = np.array([[2, 0], [1, 2], [1, 2], [1, 0], [0, 1]])
    result, found = warned(SlateIPS().fit(logs), target)
    assert found[SupportWarning, "never shows"] == pytest.approx(0.4)
    assert result.diagnostics["unsupported_share"] == pytest.approx(0.4)


def test_probabilities_of_logged_candidates_are_enough_for_the_logger():
    logger = ProductSlatePolicy(np.full((2, 3), 1 / 3))
    logs = golden_logs(logging_policy=logger)
    logs = logs.with_columns(mu=logger.marginal_proba(logs))
    recorded = logs.replace(logging_policy=ProductSlatePolicy("mu"))
    target = np.tile([2, 0], (5, 1))
    result = quietly(SlateIPS(), target, recorded)
    assert result.value == quietly(SlateIPS(), target, logs).value
    assert np.isnan(result.diagnostics["unsupported_share"])


def test_bad_input():
    with pytest.raises(ValueError, match=r"needs the logging policy.*propensity"):
        SlateIPS().fit(golden_logs(logging_policy=None))
    read = golden_logs(logging_policy=None).with_columns(slot_propensity=np.ones(5))
    with pytest.raises(ValueError, match=r"ProductSlatePolicy\('slot_propensity'\)"):
        SlateIPS().fit(read)
    with pytest.raises(ValueError, match="at row 2"):
        SlateIPS().fit(
            golden_logs(logging_policy=EmpiricalSlatePolicy([[2, 0], [2, 1]]))
        )
    fitted = SlateIPS().fit(golden_logs())
    with pytest.raises(TypeError, match="by its slot marginals"):
        fitted.evaluate(np.full((5, 2, 3), 1 / 3))
    with pytest.raises(TypeError, match="probability of a slate cannot be computed"):
        fitted.evaluate(SampledSlatePolicy(lambda logs, rng: logs.slate))
    with pytest.raises(TypeError, match="IndependentSlotIPS"):
        fitted.evaluate(np.full((5, 2), 0.5))

    class Wrong:
        def slot_marginals(self, logs): ...
        def sample(self, logs, random_state): ...

        def slate_proba(self, logs, slates):
            return np.full(len(logs), 1.5)

    with pytest.raises(ValueError, match=r"must lie in \[0, 1\]"):
        fitted.evaluate(Wrong())


def test_a_group_without_a_match_is_nan():
    logs = golden_logs()
    target = np.tile([2, 0], (5, 1))
    result = quietly(SlateIPS(), target, logs)
    with pytest.warns(SupportWarning, match=r"1 of 2 groups have no estimate, 1 first"):
        groups = result.by([0, 1, 1, 1, 1])
    assert np.isnan(groups[1].value)
    assert groups[0].value == pytest.approx(6 * logs.reward[0])

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Slates of which every slot may be empty: weights whose mean is not one."""

import numpy as np
import pytest

from skope_ope import (
    PlackettLuceSlatePolicy,
    PseudoInverse,
    SlateLogs,
    UniformSlatePolicy,
)
from skope_ope.exceptions import PropensityWarning
from skope_ope.policies import EmpiricalSlatePolicy
from tests.evaluators.slate._worlds import EMPTY_WORLDS, empty_world, quietly, warned


@pytest.mark.parametrize("name", EMPTY_WORLDS)
def test_weights_whose_mean_is_not_one(name):
    logs, proba, target, truth = empty_world(name)
    plain = quietly(PseudoInverse(), target, logs, proba)
    assert plain.diagnostics.get("outside_range_share", 0) == 0
    assert plain.value == pytest.approx(truth, abs=1e-12)
    expected = plain.diagnostics["expected_weight"]
    assert abs(expected - 1) > 0.1
    # the mean over the logger's distribution is what it should be: no alarm
    assert plain.diagnostics["mean_weight"] == pytest.approx(expected, abs=1e-12)
    assert plain.diagnostics["mean_weight_z"] == pytest.approx(0, abs=1e-9)
    # numerator and denominator have their means: truth, and one
    ratio = quietly(PseudoInverse(self_normalized=True), target, logs, proba)
    assert ratio.value == pytest.approx(truth, abs=1e-12)


def test_logs_that_leave_every_slot_empty_now_and_then():
    # W = 2 in all rounds: divided by its own sum, the value would be halved
    slates = np.array([[0, -1], [-1, 1]] * 20)
    logs = SlateLogs(
        np.zeros((40, 1)),
        slates,
        np.where(slates[:, 0] == 0, 0.3, 0.4),
        n_candidates=2,
        logging_policy=EmpiricalSlatePolicy([[0, -1], [-1, 1]]),
    )
    target = np.tile([0, 1], (40, 1))
    for self_normalized in (False, True):
        evaluator = PseudoInverse(self_normalized=self_normalized).fit(logs)
        result, found = warned(evaluator, target)
        assert result.value == pytest.approx(0.7)
        assert not found
    # too many of one kind: the mean weight is what tells
    wrong = EmpiricalSlatePolicy([[0, -1], [-1, 1]], [0.1, 0.9])
    many = logs[np.tile(np.arange(40), 10)].replace(logging_policy=wrong)
    _, found = warned(PseudoInverse().fit(many), np.tile([0, 1], (400, 1)))
    assert (PropensityWarning, "where at most 2 is expected") in found


def test_rounds_without_candidates():
    # their slates are empty: they bring nothing, and count as rounds
    fields = {"n_candidates": [0, 3, 3], "logging_policy": UniformSlatePolicy(2)}
    logs = SlateLogs(
        np.zeros((3, 1)), [[-1, -1], [0, 1], [2, 1]], [0.0, 0.5, 0.25], **fields
    )
    equal = logs.replace(logging_policy=PlackettLuceSlatePolicy(np.ones(3), 2))
    slates = np.array([[-1, -1], [1, 0], [2, 1]])
    for target in (slates, (slates[:, :, None] == np.arange(3)).astype(float)):
        for params in ({}, {"self_normalized": True}, {"control_variates": "single"}):
            own = quietly(PseudoInverse(**params), target, equal)
            found = quietly(PseudoInverse(**params), target, logs)
            np.testing.assert_allclose(found.round_values, own.round_values, atol=1e-12)
    assert quietly(PseudoInverse(), slates, logs).value == pytest.approx(1.75 / 3)
    slates[0] = [0, -1]  # nothing can be shown there
    with pytest.raises(ValueError, match=r"candidate|cannot|offer"):
        quietly(PseudoInverse(outside_range="raise"), slates, logs)

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Which groups of rounds have an estimate."""

import numpy as np
import pytest

from skope_ope import PseudoInverse, SlateIPS, SlateLogs
from skope_ope.exceptions import LowOverlapWarning, SupportWarning
from skope_ope.policies import EmpiricalSlatePolicy
from tests.evaluators.slate._worlds import quietly
from tests.evaluators.slate.test_pseudo_inverse import golden_logs, range_world


def test_groups_are_formed_as_evaluations_are():
    target = np.tile([2, 0], (5, 1))
    logs = golden_logs()
    result = quietly(PseudoInverse(self_normalized=True), target, logs)
    with pytest.warns(
        LowOverlapWarning, match=r"1 of 2 groups .* 1 first: .*sum to -1"
    ):
        groups = result.by([0, 0, 0, 0, 1])
    assert np.isnan(groups[1].value)
    assert np.isnan(groups[1].standard_error)
    assert type(groups[1].warnings[0]) is LowOverlapWarning
    own = quietly(PseudoInverse(self_normalized=True), target[:4], logs[:4])
    assert groups[0].value == pytest.approx(own.value)
    assert not groups[0].warnings
    # rounds that are left out, in a group of their own and beside a single other one
    logs, target = range_world([1, 1])
    logs = SlateLogs(
        logs.context,
        logs.slate,
        logs.reward,
        n_candidates=3,
        logging_policy=logs.logging_policy,
    )
    target[0] = [2, 0]
    result = quietly(PseudoInverse(), target, logs)
    with pytest.warns(SupportWarning, match="the policy takes no logged action"):
        groups = result.by([0, 1, 1])
    assert np.isnan(groups[0].value)
    rest = quietly(PseudoInverse(), target[1:], logs[1:])
    assert groups[1].value == pytest.approx(rest.value)
    assert groups[1].standard_error == pytest.approx(rest.standard_error)
    beside = result.by([0, 0, 1])[0]
    assert beside.value == pytest.approx(3 * 0.2)
    assert np.isnan(beside.standard_error)  # a single round is used


def test_a_group_may_have_a_value_where_all_rounds_have_none():
    logs, target = golden_logs(), np.tile([2, 0], (5, 1))
    evaluator = PseudoInverse(self_normalized=True)
    weight = [1, 1, 1, 1, 99]  # the last round has a negative weight
    result = quietly(evaluator, target, logs, weight)
    assert np.isnan(result.value)
    [reason] = [w for w in result.warnings if "has no estimate" in str(w)]
    assert type(reason) is LowOverlapWarning
    own = quietly(evaluator, target[:4], logs[:4])
    assert result.by([0, 0, 0, 0, 1])[0].value == pytest.approx(own.value)


def test_rounds_of_weight_zero_say_nothing():
    # the last round alone shows what the policy would
    logs, target = golden_logs(slate=[[0, 1]] * 4 + [[2, 0]]), np.tile([2, 0], (5, 1))
    result = quietly(SlateIPS(), target, logs)
    with pytest.warns(SupportWarning, match="the policy takes no logged action"):
        groups = result.by([0, 0, 0, 0, 1])
    assert np.isnan(groups[0].value)
    assert groups[1].value == pytest.approx(6 * 0.25)
    nothing = quietly(SlateIPS(), target, logs, [1.0, 1.0, 1.0, 1.0, 0.0])
    for value in (nothing, *nothing.by([0, 0, 0, 0, 1]).values()):
        assert np.isnan(value.value)
        assert "the policy takes no logged action" in str(value.warnings[-1])


def test_control_variates_of_nothing():
    # the policy leaves all slots empty, as the logger may: all weights are zero
    logs = SlateLogs(
        np.zeros((4, 1)),
        [[0, -1], [-1, 1], [0, -1], [-1, 1]],
        np.arange(4.0),
        logging_policy=EmpiricalSlatePolicy([[0, -1], [-1, 1]]),
    )
    for kind in (None, "single", "multiple"):
        evaluator = PseudoInverse(control_variates=kind)
        result = quietly(evaluator, np.full((4, 2), -1), logs)
        assert np.isnan(result.value)
        assert np.isnan(result.standard_error)
        assert "the policy takes no logged action" in str(result.warnings[-1])

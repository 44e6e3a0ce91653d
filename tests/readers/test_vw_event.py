# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import math

import pytest

from skope_ope.readers._vw_event import (
    MalformedLineError,
    OtherLogError,
    check_outcome,
    other_log,
)


@pytest.mark.parametrize(
    ("cost", "probability", "expected"),
    [(1.0, 0.5, (-1.0, 0.5)), (-0.25, 1.0, (0.25, 1.0)), (2, 1 + 1e-7, (-2.0, 1.0))],
)
def test_costs_become_rewards(cost, probability, expected):
    assert check_outcome(cost, probability) == expected


@pytest.mark.parametrize("cost", [0.0, -0.0])
def test_no_cost_is_a_positive_zero(cost):
    assert math.copysign(1.0, check_outcome(cost, 0.5)[0]) == 1.0


@pytest.mark.parametrize("probability", [0.0, -0.1, 1.1, math.nan])
def test_impossible_probabilities(probability):
    with pytest.raises(MalformedLineError, match=r"must lie in \(0, 1\]"):
        check_outcome(0.0, probability)


@pytest.mark.parametrize("cost", [math.nan, math.inf])
def test_costs_are_finite(cost):
    with pytest.raises(MalformedLineError, match="a finite number is needed"):
        check_outcome(cost, 0.5)


@pytest.mark.parametrize("kind", ["ccb", "slates", "ca", "igl"])
def test_other_logs_say_why(kind):
    error = other_log(kind)
    assert isinstance(error, OtherLogError)
    assert len(str(error)) > 60

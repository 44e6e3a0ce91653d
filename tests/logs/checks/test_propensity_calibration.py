# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""A whole distribution against its own temperatures."""

from itertools import product

import numpy as np
import pytest

from skope_ope.logs.checks._propensity_findings import (
    SHARPNESS,
    calibration_evidence,
)
from tests.logs.checks.test_propensity_findings import draw, world


def test_its_mean_is_one_under_right_probabilities():
    mu = np.array([[0.7, 0.25, 0.05], [0.1, 0.9, 0.0], [1.0, 0.0, 0.0]])
    rows, total = np.arange(3), 0.0
    for log in product(range(3), repeat=3):
        chance = mu[rows, log].prod()
        if chance:
            total += chance * np.exp(calibration_evidence(mu, np.array(log))[0])
    assert total == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize("sharpness", SHARPNESS)
def test_the_temperature_that_fits_is_told(sharpness):
    _, mu, _, _ = world(8000)
    sharper = mu**sharpness / (mu**sharpness).sum(axis=1, keepdims=True)
    action = draw(sharper, np.random.default_rng(0))
    evidence, found = calibration_evidence(mu, action)
    assert found == sharpness
    assert evidence > np.log(1e4)


def test_other_faults_are_not_its_business():
    _, mu, action, _ = world(2000)
    assert calibration_evidence(mu, action)[0] < 3
    uniform = np.full((2000, 4), 0.25)  # at any temperature the same
    assert calibration_evidence(uniform, action)[0] == pytest.approx(0, abs=1e-9)


def test_large_tables_are_looked_at_in_part():
    _, mu, action, _ = world(24_000)
    wrong = mu**2 / (mu**2).sum(axis=1, keepdims=True)
    some = calibration_evidence(wrong[::3], action[::3])
    assert calibration_evidence(wrong, action) == some
    assert some[0] > np.log(1e4)

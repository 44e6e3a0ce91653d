# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest

from skope_ope import BanditLogs


def logs_of(**fields):
    action, logger = ["a", "b", "b", "c"], ["x", "y", "x", "y"]
    return BanditLogs(np.zeros((4, 1)), action, np.ones(4), logger=logger, **fields)


def test_the_distribution_of_an_impossible_action_is_named():
    proba = np.array([[0.5, 0.5, 0], [0, 0.5, 0.5], [0, 1, 0], [0, 1, 0]])
    with pytest.raises(ValueError) as found:
        logs_of(logging_proba=proba)
    assert str(found.value) == (
        "logging_proba is 0 at row 3 for the logged action 'c' (1 such rows). A "
        "logged action has a positive probability. Correct logging_proba, or drop "
        "these rows."
    )


@pytest.mark.parametrize("others", [0.0, 0.5])
def test_the_logger_of_an_impossible_action_is_named(others):
    proba = np.full((4, 2), 0.5)
    proba[[1, 3]] = others, 0.0
    with pytest.raises(ValueError) as found:
        logs_of(logger_proba=proba)
    text = str(found.value)
    assert text.startswith(
        "logger_proba is 0 at row 1 for the logged action 'b' under logger 'y', which "
        "acted there"
    )
    assert "(2 such rows)" in text and "Correct logger_proba" in text
    assert ("and under every other logger" in text) == (others == 0)
    assert "propensity" not in text.replace("propensities", "")


def test_a_zero_beside_a_recorded_propensity_is_a_contradiction():
    proba = np.full((4, 2), 0.5)
    proba[2, 0] = 0.0
    message = r"propensity 0\.5 at row 2 contradicts logger_proba, which gives 0"
    with pytest.raises(ValueError, match=message):
        logs_of(logger_proba=proba, propensity=np.full(4, 0.5))


def test_a_probability_without_an_inverse_is_zero():
    with pytest.raises(ValueError, match=r"logger_proba is 4\.94065646e-324 at row 0"):
        logs_of(logger_proba=np.full((4, 2), 5e-324))


def test_rounds_of_other_loggers_may_be_impossible():
    proba = np.array([[0.5, 0.0], [0.0, 0.4], [0.3, 0.0], [0.0, 1.0]])
    assert logs_of(logger_proba=proba).propensity.tolist() == [0.5, 0.4, 0.3, 1.0]

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What may stand for a slate policy under evaluation."""

import numpy as np
import pytest

from skope_ope import PlackettLuceSlatePolicy, SlateLogs
from skope_ope.evaluators.slate._support import knows_all, never_shown
from skope_ope.evaluators.slate._target import TargetOfSlates, method

LOGS = SlateLogs(np.zeros((2, 1)), [[0, 1], [2, -1]], [0.0, 1.0], n_candidates=3)


class Foreign:
    """A policy with the three methods that a slate policy must have."""

    def slot_marginals(self, logs):
        return np.full((len(logs), 2, 3), 0.25)

    def slate_proba(self, logs, slates):
        return np.full(len(logs), 0.0625)

    def sample(self, logs, random_state):
        return np.zeros((len(logs), 2), int)


def test_an_object_with_the_three_methods():
    target = TargetOfSlates(Foreign(), LOGS)
    np.testing.assert_array_equal(target.marginal_proba(LOGS), np.full((2, 2), 0.25))
    np.testing.assert_array_equal(target.slate_proba(LOGS), 0.0625)
    assert target.slates is None
    with pytest.raises(TypeError, match="Foreign has no prefix_proba"):
        target.prefix_proba(LOGS)
    assert np.isnan(never_shown(target, LOGS, "slate_proba"))
    assert method(Foreign(), "sample")
    assert knows_all(Foreign(), target, LOGS)


def test_given_slates():
    slates = np.array([[0, 2], [2, -1]])
    target = TargetOfSlates(slates, LOGS)
    assert target.is_array
    np.testing.assert_array_equal(target.marginal_proba(target.logs), [[1, 0], [1, 1]])
    np.testing.assert_array_equal(target.slate_proba(target.logs), [0, 1])
    # parts of the rounds carry their slates along
    np.testing.assert_array_equal(
        target.prefix_proba(target.logs[1:], slates[1:]), [[1, 1]]
    )
    assert not TargetOfSlates(PlackettLuceSlatePolicy([1, 2, 3], 2), LOGS).is_array


def test_only_the_logged_candidates_are_known():
    logged = np.array([[0.5, 0.25], [1.0, 0.0]])
    target = TargetOfSlates(logged, LOGS)
    np.testing.assert_array_equal(target.marginal_proba(LOGS), logged)
    for ask in (target.marginals, target.slate_proba, target.prefix_proba):
        with pytest.raises(TypeError, match="serves IndependentSlotIPS"):
            ask(LOGS)
    with pytest.raises(ValueError, match="must have shape"):
        TargetOfSlates(logged[:, :1], LOGS)
    with pytest.raises(ValueError, match="Slates are integers"):
        TargetOfSlates(logged - 1, LOGS)


def test_floats_of_zeros_and_ones_are_ambiguous():
    both = np.array([[0.0, 1.0], [1.0, 0.0]])
    with pytest.raises(TypeError, match="may be slates or probabilities"):
        TargetOfSlates(both, LOGS)
    assert TargetOfSlates(both.astype(int), LOGS).slates.tolist() == [[0, 1], [1, 0]]
    sure = TargetOfSlates(both == 1, LOGS)
    np.testing.assert_array_equal(sure.marginal_proba(LOGS), both)
    # a column holds what it holds elsewhere, in whatever part of the rounds
    column = TargetOfSlates("p", LOGS.with_columns(p=both))
    np.testing.assert_array_equal(column.marginal_proba(column.logs), both)

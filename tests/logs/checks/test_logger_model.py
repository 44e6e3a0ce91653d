# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""One half of the rounds predicts the actions of the other."""

import numpy as np

from skope_ope import BanditLogs
from skope_ope.logs.checks._e_value import crosswise
from skope_ope.logs.checks._logger_model import (
    LOGGER_FEATURES,
    held_out_proba,
    logger_features,
)
from tests.logs.checks.test_propensity_findings import logs_of, world


def test_features():
    x = np.arange(12.0).reshape(6, 2)
    x[0, 1] = np.nan
    logs = logs_of(np.column_stack([x, np.ones(6)]), np.arange(6) % 2, None)
    X = logger_features(logs, np.arange(6))
    assert X.shape == (6, 3)  # the hole has a column, the constant none
    np.testing.assert_allclose(X.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(X.std(axis=0), 1)
    wide = logs_of(np.random.default_rng(0).normal(size=(6, 500)), np.arange(6), None)
    assert logger_features(wide, np.arange(6)).shape == (6, LOGGER_FEATURES)


def test_a_held_out_probability_is_one_of_the_other_half():
    action = np.array([0, 1, 0, 1, 2, 1, 0, 1])
    logs = BanditLogs(np.empty((8, 0)), action, np.zeros(8), actions=[0, 1, 2, 3])
    half = np.arange(8) % 2  # even rounds: 0, 0, 2, 0; odd ones: 1
    found = held_out_proba(logs, np.arange(8), crosswise(half))
    np.testing.assert_allclose(found, [0, 0, 0, 0, 0, 0, 0, 0])
    half = np.array([0, 0, 1, 1, 1, 0, 0, 1])  # 0, 1, 1, 0 and 0, 1, 2, 1
    found = held_out_proba(logs, np.arange(8), crosswise(half))
    np.testing.assert_allclose(found, [0.25, 0.5, 0.5, 0.5, 0, 0.5, 0.25, 0.5])


def test_probabilities_sum_to_one_over_what_is_offered():
    x, _, action, p = world(200)
    offered = np.random.default_rng(0).random((200, 4)) < 0.6
    offered[np.arange(200), action] = True
    half = np.arange(200) % 2
    for context in (x, np.empty((200, 0))):  # a regression, frequencies
        total = np.zeros(200)
        for other in range(4):  # the last round takes every action in turn
            changed = action.copy()
            changed[-1] = other
            could = offered.copy()
            could[-1] = [True, False, True, True]
            if not could[-1, other]:
                continue
            logs = logs_of(context, changed, p, available=could, actions=range(4))
            total += held_out_proba(logs, np.arange(200), crosswise(half))
        assert total[-1] == 1 or abs(total[-1] - 1) < 1e-12


def test_no_round_explains_itself():
    x, _, action, p = world(200)
    half = np.arange(200) % 2
    found = held_out_proba(logs_of(x, action, p), np.arange(200), crosswise(half))
    changed = action.copy()
    changed[0] = (action[0] + 1) % 4
    again = held_out_proba(logs_of(x, changed, p), np.arange(200), crosswise(half))
    same = half == 0  # the half of round 0 is predicted by the other one
    same[0] = False
    np.testing.assert_array_equal(found[same], again[same])
    assert (found[half == 1] != again[half == 1]).any()


def test_weights_count_as_repeats():
    _, _, action, p = world(60)
    weight = np.where(np.arange(60) % 3 == 0, 2.0, 1.0)
    x, half = np.empty((60, 0)), np.arange(60) % 2
    logs = logs_of(x, action, p, sample_weight=weight)
    rows = np.repeat(np.arange(60), weight.astype(int))
    repeated = logs_of(x[rows], action[rows], p[rows])
    one = held_out_proba(logs, np.arange(60), crosswise(half))[rows]
    two = held_out_proba(repeated, np.arange(len(rows)), crosswise(half[rows]))
    np.testing.assert_allclose(one, two, rtol=1e-12)

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope import EmpiricalSlatePolicy, SlateLogs
from tests.policies._slate_worlds import check_moments, check_sample, rounds

SLATES = [[0, 1], [1, 2], [0, 1], [2, 2], [1, -1]]


def test_distinct_slates_are_alike(global_random_seed):
    logs = rounds(3, 2, 3)
    policy = EmpiricalSlatePolicy(SLATES)
    given = np.array([[0, 1], [2, 2], [2, 1]])
    assert_allclose(policy.slate_proba(logs, given), [0.25, 0.25, 0])
    assert len(policy.laws(logs)) == 1
    check_moments(policy, logs)
    check_sample(policy, logs, global_random_seed)


def test_given_probabilities(global_random_seed):
    logs = rounds(1, 2, 3)
    policy = EmpiricalSlatePolicy(SLATES, [0.1, 0.2, 0.3, 0.0, 0.4])
    assert_allclose(policy.slate_proba(logs, np.array([[0, 1]])), 0.4)
    check_moments(policy, logs)
    check_sample(policy, logs, global_random_seed)


def test_slates_seen_in_logs_by_group():
    slate = [[0, 1], [1, 0], [0, 1], [2, 1], [2, 1]]
    logs = SlateLogs(np.zeros((5, 1)), slate, np.zeros(5), group=[*"aabba"])
    seen = EmpiricalSlatePolicy.seen_in(logs)
    assert_allclose(seen.slate_proba(logs), [1 / 3, 1 / 3, 1 / 2, 1 / 2, 1 / 3])
    often = EmpiricalSlatePolicy.seen_in(logs[:4], frequencies=True)
    assert_allclose(often.slate_proba(logs[:4]), 0.5)
    check_moments(seen, logs)
    assert len(seen.laws(logs)) == 2
    alone = SlateLogs(np.zeros((5, 1)), slate, np.zeros(5))
    often = EmpiricalSlatePolicy.seen_in(alone, frequencies=True)
    assert_allclose(often.slate_proba(alone), [0.4, 0.2, 0.4, 0.4, 0.4])


@pytest.mark.parametrize(
    ("slates", "proba", "error", "message"),
    [
        ([[0, 3]], None, ValueError, "slates show candidate 3, the logs have 3"),
        ([[0, 1], [2]], None, ValueError, "slates is no rectangular array"),
        ([[0.5, 1]], None, TypeError, "slates must hold integers"),
        ([], None, ValueError, r"shape \(n_slates, n_slots\)"),
        ([[0, -2]], None, ValueError, "slates holds -2"),
        ([[0, 1]], [0.5, 0.5], ValueError, "proba has 2 entries, slates has 1"),
        ([[0, 1]], [0.5], ValueError, "sum to 1, got minimum 0.5, sum 0.5"),
        ({1: [[0, 1]]}, None, ValueError, "no group 0, that of row 0"),
        ({0: [[0, 1]], 1: [[0]]}, None, ValueError, r"number of slots, got \[1, 2\]"),
        ({0: [[0, 1]]}, [1.0], TypeError, "proba must be a dict"),
        ({0: [[0, 1]], 1: [[1, 0]]}, {0: [1.0]}, ValueError, "the slates of group 1"),
    ],
)
def test_bad_slates(slates, proba, error, message):
    logs = rounds(2, 2, 3, group=[0, 0])
    with pytest.raises(error, match=message):
        EmpiricalSlatePolicy(slates, proba).slot_marginals(logs)


def test_groups_and_offers_of_the_logs():
    policy = EmpiricalSlatePolicy({0: [[0, 1]]})
    with pytest.raises(ValueError, match="the logs have no `group`"):
        policy.slot_marginals(rounds(2, 2, 3))
    mask = np.array([[True, True, True], [True, False, True]])
    logs = rounds(2, 2, 3, candidates=mask, group=[0, 0])
    with pytest.raises(ValueError, match="candidate 1, which row 1 does not offer"):
        policy.slot_marginals(logs)
    mask = np.array([[[True, False, True], [True, True, True]]] * 2)
    logs = rounds(2, 2, 3, candidates=mask, group=[0, 0])
    assert_array_equal(policy.slot_marginals(logs)[:, 1, 1], 1)
    mask[1, 1, 1] = False
    logs = rounds(2, 2, 3, candidates=mask, group=[0, 0])
    with pytest.raises(ValueError, match="candidate 1 in slot 1, which row 1 does not"):
        policy.slot_marginals(logs)


def test_many_rounds_in_parts():
    slates = np.array([[a, b] for a in range(30) for b in range(30)])
    policy = EmpiricalSlatePolicy(slates)
    logs = rounds(20_000, 2, 30)
    drawn = policy.sample(logs, 0)
    assert_array_equal(policy.slate_proba(logs, drawn), 1 / 900)

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope import PlackettLuceSlatePolicy, UniformSlatePolicy
from tests.policies._slate_worlds import all_slates, check_moments, rounds


def test_prefixes_multiply_draws_from_what_is_left():
    logs = rounds(1, 3, 4)
    policy = PlackettLuceSlatePolicy([4, 3, 2, 1], 3)
    prefix = policy.prefix_proba(logs, np.array([[1, 3, 0]]))[0]
    assert_allclose(prefix, [3 / 10, 3 / 10 * 1 / 7, 3 / 10 * 1 / 7 * 4 / 6])


def test_an_empty_slot_before_a_filled_one_is_possible_by_slot_only():
    mask = np.array([[[False, False], [True, True]]])
    logs = rounds(1, 2, 2, candidates=mask)
    policy = UniformSlatePolicy(2)
    slates = all_slates(2, 2)
    proba = [policy.slate_proba(logs, slate[None])[0] for slate in slates]
    assert_array_equal(slates[np.array(proba) > 0], [[-1, 0], [-1, 1]])
    check_moments(policy, logs)
    assert policy.sample(logs, 0)[0, 0] == -1


def test_distributions_with_other_supports_and_the_same_types():
    # both distributions have two types of two candidates, one with a slot without
    # weight
    mask = np.ones((2, 2, 4), dtype=bool)
    mask[0, 1, 2:] = False
    mask[1, 0, :2] = False
    check_moments(UniformSlatePolicy(2), rounds(2, 2, 4, candidates=mask))


def test_nothing_offered_at_all():
    logs = rounds(2, 2, 3, candidates=np.array([[False] * 3, [True] * 3]))
    policy = UniformSlatePolicy(2)
    assert_array_equal(policy.slot_marginals(logs)[0], 0)
    assert_array_equal(policy.sample(logs, 0)[0], [-1, -1])
    check_moments(policy, logs)


def test_weights_far_apart_are_drawn():
    logs = rounds(1, 3, 3)
    policy = PlackettLuceSlatePolicy([1e-200, 1.0, 1e200], 3)
    assert_array_equal(policy.sample(logs, 0), [[2, 1, 0]])
    assert_allclose(policy.slate_proba(logs, np.array([[2, 1, 0]])), 1)

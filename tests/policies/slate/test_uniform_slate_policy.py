# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

from itertools import permutations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import UniformSlatePolicy
from tests.policies._slate_worlds import check_moments, rounds


@pytest.mark.parametrize(("m", "n_slots"), [(3, 2), (4, 4), (5, 3), (4, 1)])
def test_every_ranking_alike(m, n_slots):
    slates = np.array(list(permutations(range(m), n_slots)))
    logs = rounds(len(slates), n_slots, m)
    policy = UniformSlatePolicy(n_slots)
    assert_allclose(policy.slate_proba(logs, slates), 1 / len(slates), rtol=1e-14)
    assert_allclose(policy.slot_marginals(logs), 1 / m, rtol=1e-14)
    check_moments(policy, logs[:1])


def test_large_slates_of_many_candidates():
    logs = rounds(2, 20, 500)
    (batch,) = UniformSlatePolicy(20).distributions(logs).batches()
    assert batch.sizes.tolist() == [500]
    off = ~np.eye(20, dtype=bool)
    assert_allclose(batch.moments.pairs[0][off], 1 / (500 * 499), rtol=1e-12)


def test_a_round_with_few_candidates_leaves_slots_empty():
    logs = rounds(2, 3, [2, 5])
    marginals = UniformSlatePolicy(3).slot_marginals(logs)
    assert_allclose(marginals[0, :, :2], [[0.5, 0.5], [0.5, 0.5], [0, 0]])
    assert_allclose(marginals[1], 0.2)
    drawn = UniformSlatePolicy(3).sample(logs, 0)
    assert drawn[0, 2] == -1
    proba = UniformSlatePolicy(3).slate_proba(logs, drawn)
    assert_allclose(proba, [1 / 2, 1 / 60])

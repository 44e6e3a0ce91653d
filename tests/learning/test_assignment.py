# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from skope_ope.learning._pseudo_inverse_ranker import assign, assign_greedily


def test_greedy_is_not_optimal():
    values = np.array([[1.0, 0.9], [0.75, 0.0]])
    for build, slate, total in ((assign, [1, 0], 1.65), (assign_greedily, [0, 1], 1.0)):
        np.testing.assert_array_equal(build(values[None])[0], slate)
        assert values[[0, 1], slate].sum() == pytest.approx(total, abs=1e-15)


def test_assignments_of_all_kinds(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    values = rng.normal(size=(30, 3, 5))
    for table, slate in zip(values, assign(values), strict=True):
        slots, shown = linear_sum_assignment(-table)
        np.testing.assert_array_equal(slate[slots], shown)
    greedy = assign_greedily(values)
    assert (np.sort(greedy)[:, 1:] > np.sort(greedy)[:, :-1]).all()
    sums = [
        np.take_along_axis(values, slates[:, :, None], axis=2).sum(axis=(1, 2))
        for slates in (assign(values), greedy)
    ]
    assert (sums[0] >= sums[1] - 1e-12).all()
    # one that can be shown in the second slot only, and one that nobody shows
    values[:, 0] = -np.inf
    values[:, 2, 1:] = -np.inf
    for build in (assign, assign_greedily):
        slates = build(values)
        assert (slates[:, 0] == -1).all()
        assert ((slates[:, 2] == 0) | (slates[:, 1] == 0)).all()
    assert (assign(values)[:, 1:] >= 0).all()
    assert (assign(np.full((1, 2, 3), -np.inf)) == -1).all()

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
from numpy.testing import assert_array_equal

from skope_ope.datasets._synthetic import draw_actions


class FixedUniforms:
    def __init__(self, u):
        self.u = u

    def random_sample(self, n):
        assert n == len(self.u)
        return np.asarray(self.u)


def test_inverse_of_the_cumulative_probabilities():
    proba = np.array([[0.2, 0.3, 0.5]] * 5)
    rng = FixedUniforms([0.0, 0.19, 0.2, 0.51, 0.99])
    action, propensity = draw_actions(proba, rng)
    assert_array_equal(action, [0, 0, 1, 2, 2])
    assert_array_equal(propensity, [0.2, 0.2, 0.3, 0.5, 0.5])


def test_impossible_actions_are_never_drawn():
    just_below_one = np.nextafter(1, 0)
    proba = np.array(
        [
            [0.0, 1.0, 0.0],
            [0.0, 0.0, 1.0],
            [1.0, 0.0, 0.0],
            [0.0, 0.5, 0.5],
            [0.5, 0.5, 0.0],
            [0.1, 0.2, 0.7],  # 0.1 + 0.2 + 0.7 is not 1 in floating point
            [0.7, 0.2, 0.1],
        ]
    )
    for u in (0.0, 0.5, just_below_one):
        action, propensity = draw_actions(proba, FixedUniforms([u] * len(proba)))
        assert action.max() <= 2
        assert propensity.min() > 0


def test_frequencies(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    proba = np.tile([0.05, 0.6, 0.0, 0.35], (20_000, 1))
    action, _ = draw_actions(proba, rng)
    counts = np.bincount(action, minlength=4)
    error = np.sqrt(len(proba) * proba[0] * (1 - proba[0]))
    assert (np.abs(counts - len(proba) * proba[0]) <= 4.5 * error).all()

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope import BanditLogs
from skope_ope.evaluators.core._positive_rounds import PositiveRounds

LOGS = BanditLogs(np.zeros((4, 1)), [0, 2, 1, 0], [1.0, 2, 3, 4], actions=range(4))


def test_rounds_of_weight_zero_do_not_enter():
    found = PositiveRounds(LOGS, np.array([2.0, 1.0, 0.0, 1.0]))
    assert found.n == 3
    assert_allclose(found.omega, [1.5, 0.75, 0, 0.75])  # mean one over the three
    assert_array_equal(found.mask, [True, True, False, True])
    assert_array_equal(found.logs.reward, [1, 2, 4])
    assert_array_equal(found.of(np.arange(8).reshape(2, 4)), [[0, 1, 3], [4, 5, 7]])
    assert_array_equal(found.counts(LOGS.action_index, 4), [2, 0, 1, 0])
    assert_array_equal(found.unseen, [1, 3])


def test_all_rounds_enter_where_weights_are_positive():
    weight = np.array([0.5, 1.5, 1.0, 1.0])
    for given in (None, weight):
        found = PositiveRounds(LOGS, given)
        assert found.logs is LOGS
        assert found.omega is given
        assert (found.n, found.mask) == (4, None)
        assert_array_equal(found.unseen, [3])


def test_the_design_has_the_groups_and_the_rounds_that_enter():
    assert not PositiveRounds(LOGS).design.clustered
    grouped = LOGS.replace(group=["u", "v", "w", "u"])
    found = PositiveRounds(grouped, np.array([2.0, 1.0, 0.0, 1.0])).design
    assert_array_equal(found.count, [3])
    assert_allclose(found.mass, [3])
    assert_array_equal(found.cluster_sizes, [2, 1])  # w has no round that enters
    assert found is not PositiveRounds(grouped).design

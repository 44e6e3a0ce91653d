# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope import SlateLogs
from skope_ope.policies import ProductSlatePolicy
from tests.policies._slate_worlds import check_moments, check_sample, rounds

TABLE = np.array([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]])


def test_slots_are_independent():
    logs = rounds(2, 2, 3)
    policy = ProductSlatePolicy(TABLE)
    slates = np.array([[2, 0], [1, 1]])
    assert_allclose(policy.slate_proba(logs, slates), [0.5, 0])
    assert_allclose(policy.prefix_proba(logs, slates), [[0.5, 0.5], [0.3, 0]])
    assert_array_equal(policy.slot_marginals(logs), [TABLE, TABLE])
    assert len(policy.distributions(logs)) == 1
    check_moments(policy, logs)


def test_tables_of_rounds_by_column_and_function(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    table = rng.dirichlet(np.ones(3), (4, 2))
    table[1, 1] = 0  # a slot that the round does not have
    logs = rounds(4, 2, 3).with_columns(p=table)
    policy = ProductSlatePolicy("p")
    assert_array_equal(policy.slot_marginals(logs), table)
    check_moments(policy, logs)
    check_sample(policy, logs[1:2], global_random_seed)
    own = ProductSlatePolicy(lambda logs: logs.columns["p"] * 1.0)
    assert_array_equal(own.slot_marginals(logs), table)
    assert_array_equal(policy.sample(logs, 0)[1, 1], -1)


def test_probabilities_of_the_logged_candidates_only():
    logs = SlateLogs(np.zeros((2, 1)), [[0, 1], [2, -1]], [1.0, 0.0])
    logs = logs.with_columns(p=[[0.5, 0.25], [0.1, 1.0]])
    policy = ProductSlatePolicy("p")
    assert_array_equal(policy.marginal_proba(logs), [[0.5, 0.25], [0.1, 1.0]])
    assert_array_equal(policy.slate_proba(logs), [0.125, 0.1])
    assert policy.closed_form(logs) == "product"
    for method in (policy.slot_marginals, policy.distributions, policy.sample):
        with pytest.raises(ValueError, match="of the logged candidates only"):
            method(logs)
    with pytest.raises(ValueError, match="of the logged candidates only"):
        policy.slate_proba(logs, np.array([[0, 0], [2, -1]]))
    bad = logs.with_columns(p=[[0.5, 0.0], [0.1, 1.0]])
    with pytest.raises(ValueError, match=r"in \(0, 1\], got 0 at row 0, slot 1"):
        policy.slate_proba(bad)


@pytest.mark.parametrize(
    ("table", "error", "message"),
    [
        (TABLE * 2, ValueError, "sum to 1 .*got 2 at row 0, slot 0"),
        (-TABLE, ValueError, "non-negative.*got -0.2 for candidate 0 at row 0, slot 0"),
        (TABLE[:, :2], ValueError, r"n_slots, n_candidates\) with 2 rounds and 3"),
        (np.tile(TABLE, (3, 1, 1)), ValueError, "with 2 rounds"),
        (TABLE * np.nan, ValueError, "slot_proba must be finite"),
        ("absent", ValueError, "'absent' is not a column of the logs"),
    ],
)
def test_bad_tables(table, error, message):
    with pytest.raises(error, match=message):
        ProductSlatePolicy(table).slot_marginals(rounds(2, 2, 3))


def test_probability_of_what_is_not_offered():
    logs = rounds(2, 2, 3, candidates=np.array([[True] * 3, [True, True, False]]))
    with pytest.raises(ValueError, match=r"0\.5 for candidate 2 at row 1, slot 0"):
        ProductSlatePolicy(TABLE).slot_marginals(logs)

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LinearRegression

from skope_ope import UniformSlatePolicy
from skope_ope.policies.slate._slate_policy import as_slate_array, slate_policy
from tests.policies._slate_worlds import check_moments, check_sample, rounds

SLATES = np.array([[0, 2], [1, 1], [-1, 0]])


def test_integers_stand_for_a_deterministic_policy():
    logs = rounds(3, 2, 3)
    policy = slate_policy(SLATES, logs)
    assert_array_equal(policy.deterministic_slates(logs), SLATES)
    assert_array_equal(policy.slate_proba(logs, SLATES), 1)
    assert_array_equal(policy.slate_proba(logs), 0)
    check_moments(policy, logs)
    check_moments(slate_policy(SLATES.tolist(), logs), logs)


def test_columns_go_through_folds(global_random_seed):
    logs = rounds(3, 2, 3).with_columns(target=SLATES)
    policy = slate_policy("target", logs)
    assert_array_equal(policy.deterministic_slates(logs[[2, 1]]), SLATES[[2, 1]])
    check_sample(policy, logs, global_random_seed, n_draws=10)
    assert policy.deterministic_slates(logs).dtype.kind == "i"


def test_policies_are_taken_as_they_are():
    logs = rounds(3, 2, 3)
    policy = UniformSlatePolicy(2)
    assert slate_policy(policy, logs) is policy

    class Own:
        slot_marginals = slate_proba = sample = None

    own = Own()
    assert slate_policy(own, logs) is own


def test_marginals_alone(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    table = rng.dirichlet(np.ones(3), (3, 2)) * 0.9
    logs = rounds(3, 2, 3).with_columns(q=table)
    for given in (table, "q"):
        policy = slate_policy(given, logs)
        assert_array_equal(policy.slot_marginals(logs), table)
        single = policy.marginal_proba(logs, SLATES)
        assert_allclose(single[0], [table[0, 0, 0], table[0, 1, 2]])
        assert_allclose(single[2, 0], 0.1)
        for method in (policy.slate_proba, policy.sample, policy.distributions):
            with pytest.raises(TypeError, match="by its slot marginals"):
                method(logs)
    with pytest.raises(ValueError, match="sum to at most 1"):
        slate_policy(table * 2, logs).slot_marginals(logs)
    with pytest.raises(ValueError, match="with 3 rounds and 3 candidates"):
        slate_policy(table[:, :, :2], logs).slot_marginals(logs)


@pytest.mark.parametrize(
    ("policy", "error", "message"),
    [
        (SLATES[:2], ValueError, "has 2 rows, the logs have 3: an array belongs"),
        (SLATES + 1, ValueError, "candidate 3 at row 0, slot 1"),
        (SLATES * 0.5, TypeError, "must hold integers"),
        ([[0, 1], [2], [0, 1]], ValueError, "no rectangular array: .* Fill empty"),
        (
            "absent",
            ValueError,
            r"'absent' is not a column .* an object such as UniformSlatePolicy\(n_sl",
        ),
        (UniformSlatePolicy, TypeError, "the class UniformSlatePolicy; make an inst"),
        (LinearRegression(), TypeError, "expected, .* got LinearRegression"),
        (np.zeros(3, dtype=int), TypeError, r"got ndarray of shape \(3,\)"),
    ],
)
def test_what_is_no_slate_policy(policy, error, message):
    logs = rounds(3, 2, 3)
    with pytest.raises(error, match=message):
        slate_policy(policy, logs).slot_marginals(logs)


def test_slates_that_are_not_offered():
    mask = np.ones((3, 3), dtype=bool)
    mask[1, 1] = False
    with pytest.raises(ValueError, match="shows candidate 1 at row 1, slot 0"):
        slate_policy(SLATES, rounds(3, 2, 3)).slot_marginals(
            rounds(3, 2, 3, candidates=mask)
        )
    by_slot = np.ones((3, 2, 3), dtype=bool)
    by_slot[0, 1, 2] = False
    with pytest.raises(ValueError, match=r"row 0, slot 1.*\(1 such entries\)"):
        slate_policy(SLATES, rounds(3, 2, 3)).sample(
            rounds(3, 2, 3, candidates=by_slot)
        )


def test_marginals_of_what_is_not_offered():
    mask = np.ones((3, 3), dtype=bool)
    mask[1, 2] = False
    table = np.full((3, 2, 3), 1 / 3)
    logs = rounds(3, 2, 3, candidates=mask)
    with pytest.raises(ValueError, match="candidate 2 at row 1, slot 0, which is not"):
        slate_policy(table, logs).slot_marginals(logs)
    table[1] = [0.5, 0.5, 0.0]
    assert_array_equal(slate_policy(table, logs).slot_marginals(logs), table)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_columns_of_a_frame_stand_in_the_order_of_the_slots(library):
    module = pytest.importorskip(library)
    make = module.table if library == "pyarrow" else module.DataFrame
    given = as_slate_array(make({"slot_2": [0, 1], "slot_10": [2, 3]}))
    assert given.tolist() == [[0, 2], [1, 3]]
    given = as_slate_array(make({"top": [0, 1], "below": [2, 3]}))
    assert given.tolist() == [[0, 2], [1, 3]]
    with pytest.raises(ValueError, match=r"are \['slot_2', 'slot_1'\].*order of their"):
        as_slate_array(make({"slot_2": [0, 1], "slot_1": [2, 3]}))

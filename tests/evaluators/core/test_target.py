# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.frozen import FrozenEstimator

from skope_ope import BanditLogs, ConstantPolicy, FunctionPolicy, UniformPolicy
from skope_ope.evaluators.core._target import Target

N = 10
PI = np.random.RandomState(0).dirichlet(np.ones(3), N)
LOGS = BanditLogs(
    np.arange(N).reshape(-1, 1), np.arange(N) % 3, np.zeros(N), np.full(N, 0.5)
).with_columns(pi=PI)


def rows_of_pi(X):
    return PI[X[:, 0].astype(int)]


@pytest.mark.parametrize(
    "policy",
    [PI, "pi", PI.tolist(), sparse.csr_matrix(PI), PI.astype(np.float32)],
    ids=["array", "column", "list", "sparse", "float32"],
)
def test_arrays_stand_for_a_policy(policy):
    target = Target(policy, LOGS)
    assert target.policy is None
    assert target.column == ("pi" if isinstance(policy, str) else None)
    assert not target.logged_only
    expected = PI.astype(np.float32) if getattr(policy, "dtype", 0) == "f4" else PI
    assert_array_equal(target.chunk(LOGS[3:7], 3), expected[3:7])


def test_an_array_is_not_copied():
    assert Target(PI, LOGS).array is PI
    assert np.shares_memory(Target(PI, LOGS).chunk(LOGS[3:7], 3), PI)


@pytest.mark.parametrize(
    "policy",
    [FunctionPolicy(rows_of_pi), FrozenEstimator(FunctionPolicy(rows_of_pi))],
    ids=["policy", "frozen"],
)
def test_objects_are_asked_a_chunk_at_a_time(policy):
    target = Target(policy, LOGS)
    assert target.array is None
    assert not target.logged_only
    assert isinstance(target.policy, FunctionPolicy)
    parts = [target.chunk(LOGS[low : low + 4], low) for low in (0, 4, 8)]
    assert_array_equal(np.vstack(parts), PI)


def test_objects_follow_the_actions_of_the_logs():
    target = Target(ConstantPolicy(2), LOGS)
    assert_array_equal(target.chunk(LOGS[:2], 0), [[0, 0, 1]] * 2)
    assert target.chunk(LOGS[:2], 0).dtype == np.float64
    assert_array_equal(Target(UniformPolicy(), LOGS).chunk(LOGS[:1], 0), [[1 / 3] * 3])


def test_probabilities_of_the_logged_actions():
    logged = PI[np.arange(N), LOGS.action_index]
    target = Target(logged, LOGS)
    assert target.logged_only
    assert_array_equal(target.chunk(LOGS[3:7], 3), logged[3:7])
    column = Target("logged", LOGS.with_columns(logged=logged))
    assert column.logged_only


def test_what_is_no_policy_is_refused():
    with pytest.raises(TypeError, match="a policy is expected, got BanditLogs"):
        Target(LOGS, LOGS)
    with pytest.raises(ValueError, match="10 rounds and 3 actions"):
        Target(PI[:5], LOGS)

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Pseudoinverses of second moments."""

import numpy as np
import pytest

from skope_ope import EmpiricalSlatePolicy, PlackettLuceSlatePolicy, SlateLogs
from skope_ope.evaluators.slate import _second_moments
from skope_ope.evaluators.slate._second_moments import pseudoinverse, solved
from skope_ope.evaluators.slate._target import TargetOfSlates
from tests.evaluators.slate._worlds import rankings
from tests.policies._slate_worlds import enumerated_moments


def test_pseudoinverse_drops_tiny_eigenvalues():
    rng = np.random.RandomState(0)
    root = rng.normal(size=(3, 6, 4))
    matrices = root @ root.swapaxes(1, 2)
    np.testing.assert_allclose(
        pseudoinverse(matrices), np.linalg.pinv(matrices, rcond=1e-10), atol=1e-8
    )
    assert not pseudoinverse(np.zeros((2, 2))).any()
    assert pseudoinverse(np.zeros((0, 2, 2))).shape == (0, 2, 2)


def own_weights(n_rounds, seed):
    rng = np.random.RandomState(seed)
    slates = np.resize(rankings(2, 4), (n_rounds, 2))
    logs = SlateLogs(np.zeros((n_rounds, 1)), slates, np.zeros(n_rounds))
    return logs.with_columns(w=rng.random_sample((n_rounds, 4)) + 0.1)


@pytest.mark.parametrize("shared", [False, True])
def test_solutions_by_round(shared):
    logs = own_weights(30, 0)
    logger = PlackettLuceSlatePolicy([4.0, 2.0, 2.0, 1.0] if shared else "w", 2)
    target = TargetOfSlates(PlackettLuceSlatePolicy("w", 2), logs)
    _, gamma = enumerated_moments(logger, logs)
    for rows, _, q, solution in solved(logger, target, logs):
        own = q.reshape(len(q), -1)
        laws = logger.laws(logs[rows])
        order = np.broadcast_to(laws.order, (len(q), 4))
        for i in range(len(q)):
            matrix = gamma[rows][i][:, order[i]][:, :, :, order[i]].reshape(8, 8)
            expected = np.linalg.pinv(matrix, rcond=1e-10) @ own[i]
            # on the range, what lies in the null space of either does not matter
            found = matrix @ solution.table[i].ravel()
            np.testing.assert_allclose(found, matrix @ expected, atol=1e-10)
        assert solution.residual.max() < 1e-9


def test_a_larger_null_space_is_noticed(monkeypatch):
    # few slates: the solution of the regularised system is replaced
    calls = []
    inverse = pseudoinverse
    monkeypatch.setattr(
        _second_moments, "pseudoinverse", lambda m: calls.append(len(m)) or inverse(m)
    )
    slates = {k: np.array([[0, 1], [1, 2], [2, 3 * (k == 0)]]) for k in range(4)}
    shown = np.concatenate([slates[k][:1] for k in range(4)])
    logs = SlateLogs(
        np.zeros((4, 1)), shown, np.zeros(4), n_candidates=4, group=np.arange(4)
    )
    logger = EmpiricalSlatePolicy(slates)
    target = TargetOfSlates(np.tile([3, 3], (4, 1)), logs)
    residual = np.concatenate(
        [part[-1].residual for part in solved(logger, target, target.logs)]
    )
    assert (residual > 0.5).all()
    assert len(calls) > 1

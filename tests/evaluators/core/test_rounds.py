# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope.evaluators.core._positive_rounds import PositiveRounds
from skope_ope.evaluators.core._rounds import (
    Block,
    Rounds,
    StoredRounds,
    TargetBlock,
    check_logged,
    model_values,
)
from tests._worlds import d8, d8_logs

D8 = d8()
LOGGED = np.arange(8), D8.action
W = D8.pi[LOGGED] / D8.propensity


def block_of(low, high, weight=None, **fields):
    logs = d8_logs(**fields)
    offsets = np.arange(0, 24, 3)
    return Block(logs, low, high, PositiveRounds(logs, weight), -1.0, offsets)


def test_a_block_is_a_cut_of_the_logs():
    weight = np.arange(8.0)
    block = block_of(2, 6, weight)
    assert_array_equal(block.codes, D8.action[2:6])
    assert_array_equal(block.reward, D8.reward[2:6])
    assert_array_equal(block.p, D8.propensity[2:6])
    assert_array_equal(block.omega, block.positive.omega[2:6])
    assert (block.n_rounds, block.shift, block.loggers) == (8, -1.0, None)
    assert block.of(block.positive.design) is block.of(block.positive.design)
    assert block.of(block.positive.design).low == 2


@pytest.mark.parametrize("kind", ["rows", "columns", "strided", "one row"])
def test_entries_of_the_logged_actions(kind):
    table = {
        "rows": D8.pi[2:6],
        "columns": np.asfortranarray(D8.pi[2:6]),
        "strided": np.repeat(D8.pi, 2, axis=1)[2:6, ::2],
        "one row": np.broadcast_to(D8.pi[0], (4, 3)),
    }[kind]
    expected = table[np.arange(4), D8.action[2:6]]
    assert_array_equal(block_of(2, 6).logged(table), expected)


def test_weights_of_a_policy():
    target = TargetBlock(block_of(2, 6), D8.pi[2:6])
    assert_allclose(target.w, W[2:6], rtol=1e-15)
    assert_allclose(target.of([0, 2]), D8.pi[2:6][:, [0, 2]].sum(axis=1))
    alone = TargetBlock(
        block_of(2, 6), D8.pi[LOGGED][2:6], lambda codes: np.full(4, 0.25)
    )
    assert_array_equal(alone.w, target.w)
    assert alone.table is None
    assert_array_equal(alone.of([1]), [0.25] * 4)
    assert TargetBlock(block_of(2, 6, propensity=None), D8.pi[2:6]).w is None


def test_mass_on_what_the_logger_could_not_do():
    assert TargetBlock(block_of(0, 8), D8.pi).missing == 0
    mu = D8.mu.copy()
    mu[:4, 1:] = [[0.5, 0.0]] * 4  # it never takes the third action there ...
    mu[:4, 0] = 0.5
    mu[2] = D8.mu[2]  # ... but where it did
    never = mu == 0
    logs = {"logging_proba": mu, "propensity": mu[LOGGED]}
    assert_allclose(
        TargetBlock(block_of(0, 8, **logs), D8.pi).missing, D8.pi[never].sum()
    )
    weight = np.linspace(0.5, 1.5, 8)
    found = TargetBlock(block_of(0, 8, weight, **logs), D8.pi).missing
    assert_allclose(found, (weight[:, None] * D8.pi * never).sum())
    # nothing is known of a policy that tells the logged probabilities alone
    assert TargetBlock(block_of(0, 8, **logs), D8.pi[LOGGED]).missing == 0


@pytest.mark.parametrize("offset", [0.0, 0.25])
def test_the_arguments_of_formulas(offset):
    target = TargetBlock(block_of(2, 6), D8.pi[2:6])
    found = Rounds(target, model_values(target, D8.q_hat[2:6]), offset)
    r, q = D8.reward[2:6] - offset, D8.q_hat[LOGGED][2:6] - offset
    v = (D8.pi * D8.q_hat).sum(axis=1)[2:6] - offset
    w = W[2:6]
    for name, expected in {
        "r": r,
        "q": q,
        "v": v,
        "w": w,
        "gain": w * r,
        "residual": r - q,
        "corrected": v + w * (r - q),
    }.items():
        assert_allclose(getattr(found, name), expected, rtol=1e-12, atol=1e-15)
    assert found.gain is found.gain  # one array for all that sum it
    whole = StoredRounds(w=w, r=r, q=q, v=v)
    assert_allclose(whole.corrected, found.corrected, rtol=1e-12)
    assert Rounds(TargetBlock(block_of(2, 6), D8.pi[2:6])).q is None


@pytest.mark.parametrize("bad", [np.nan, -0.1, 1.1])
def test_faulty_probabilities_are_named_by_their_row(bad):
    pi = np.array([0.5, 1.0, bad])
    with pytest.raises(ValueError, match=f"in \\[0, 1\\], got {bad} at row 12"):
        check_logged(pi, 10)
    assert check_logged(pi[:2], 10).tolist() == [0.5, 1.0]

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Weights leave contexts as they are: found where they do not, quiet where they do."""

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import norm
from sklearn.utils import check_random_state

from skope_ope import BanditLogs
from skope_ope.audit._balance import MOST_BALANCED_ROUNDS, balance_of
from skope_ope.audit._policy_checks import PolicyRounds
from tests.audit._rounds import softmax_logs

pd = pytest.importorskip("pandas")
KEY = "balance of the context"


def balance(policy, logs):
    return balance_of(PolicyRounds(policy, logs), check_random_state(0))


def half_reached(n=2000, seed=0):
    """Return logs whose logger takes other actions on each side of the first column."""
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(n, 3))
    action = rng.randint(2, size=n) + 2 * (X[:, 0] > 0)
    pi = np.tile([0.45, 0.45, 0.05, 0.05], (n, 1))
    return BanditLogs(X, action, np.ones(n), np.full(n, 0.5)), pi


def test_the_numbers():
    logs, mu = softmax_logs(500)
    facts, found = balance(np.roll(mu, 1, axis=1), logs)
    assert found == []
    table = facts[KEY]
    order = np.argsort(table["column"])
    X, w = logs.context, PolicyRounds(np.roll(mu, 1, axis=1), logs).w
    assert sorted(table["column"]) == ["0", "1", "2"]
    np.testing.assert_allclose(np.take(table["mean"], order), X.mean(axis=0))
    weighted = w @ X / w.sum()
    np.testing.assert_allclose(np.take(table["weighted mean"], order), weighted)
    near = np.abs(weighted - X.mean(axis=0)) / X.std(axis=0)
    # values beyond three standard deviations count as three
    np.testing.assert_allclose(
        np.abs(np.take(table["distance in sd"], order)), near, atol=0.02
    )


def test_the_standard_error_is_that_of_the_distance():
    z = []
    for seed in range(40):
        logs, mu = softmax_logs(400, seed=seed, group=np.arange(400) // 2)
        facts, found = balance(np.roll(mu, 1, axis=1), logs)
        assert found == []
        table = facts[KEY]
        z += (np.array(table["distance in sd"]) / table["standard error"]).tolist()
    # 120 of mean 0 and variance 1: four standard errors
    assert abs(np.mean(z)) < 4 / np.sqrt(len(z))
    assert np.std(z) == pytest.approx(1, abs=4 / np.sqrt(2 * len(z)))
    assert norm.sf(max(np.abs(z))) > 1e-6


def test_contexts_that_the_weights_leave_behind():
    logs, pi = half_reached()
    facts, [found] = balance(pi, logs)
    assert (found.name, found.severity) == ("covariate_imbalance", "warning")
    assert found.columns == (0,)
    assert facts[KEY]["column"][0] == "0"
    assert facts[KEY]["distance in sd"][0] == pytest.approx(-found.effect)
    assert found.effect > 0.5
    assert "never takes the policy's actions" in found.advice[1]  # all rewards are 1
    # users of two rounds each tell less, and still enough
    logs, pi = half_reached(6000)
    [alone] = balance(pi, logs)[1]
    [again] = balance(pi, logs.replace(group=np.arange(6000) // 2))[1]
    assert again.number < alone.number


def test_right_logs_are_quiet():
    """Sharp loggers lack rare rounds of large weights: contexts are out of balance."""
    far = 0
    for seed in range(20):
        for n in (50, 300, 2000):
            logs, mu = softmax_logs(n, 6, scale=3.0, seed=seed)
            facts, found = balance(np.full(mu.shape, 1 / 6), logs)
            assert found == []
            table = facts[KEY]
            z = np.divide(table["distance in sd"], table["standard error"])
            far += (np.abs(z) > 4).any()
    assert far > 2  # where standard errors alone would ring


def test_columns_of_all_kinds():
    logs, pi = half_reached(4000)
    side = np.where(logs.context[:, 0] > 0, "right", "left")
    frame = pd.DataFrame(
        {
            "side": side,
            "other": np.tile(["u", "v"], 2000),
            "number": logs.context[:, 1],
            "constant": 1.0,
            "gone": np.where(np.arange(4000) % 3, logs.context[:, 0], np.nan),
        }
    )
    facts, [found] = balance(
        pi, BanditLogs(frame, logs.action, logs.reward, logs.propensity)
    )
    assert set(found.columns) == {"side", "gone"}
    assert "column 'side' = 'left' by +" in found.text.replace("Col", "col")
    assert "other = 'u'" in facts[KEY]["column"]
    assert not any(name.startswith("constant") for name in facts[KEY]["column"])
    matrix = sparse.csr_matrix(logs.context)
    given = BanditLogs(matrix, logs.action, logs.reward, logs.propensity)
    assert balance(pi, given)[1][0].columns == (0,)
    huge = logs.context * np.array([1e300, 1.0, 1.0])
    given = BanditLogs(huge, logs.action, logs.reward, logs.propensity)
    assert balance(pi, given)[1][0].columns == (0,)


def test_many_rounds_are_drawn_from():
    logs, pi = half_reached(MOST_BALANCED_ROUNDS + 5000)
    one, other = (balance(pi, logs)[0][KEY] for _ in range(2))
    assert one == other  # the draw has a seed
    assert one["mean"][0] != pytest.approx(logs.context[:, 0].mean(), rel=1e-9)
    assert balance(pi, logs)[1][0].columns == (0,)


def test_nothing_to_compare():
    logs, pi = half_reached(50)
    empty = BanditLogs(np.zeros((50, 0)), logs.action, logs.reward, logs.propensity)
    assert balance(pi, empty) == ({}, [])
    assert balance(pi[:1], logs[:1]) == ({}, [])

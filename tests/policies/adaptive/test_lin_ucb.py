# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import Ridge

from skope_ope import BanditLogs, LinUCB, Replay
from skope_ope.utils.estimator_checks import check_adaptive_policy
from tests.policies._histories import live, make_logs, row_by_row


def reset(policy, n_actions, n_features):
    X = np.zeros((1, n_features))
    return policy.fit(BanditLogs(X, [0], [0.0], actions=np.arange(n_actions)))


def test_bounds_by_hand():
    """One feature: A = 2 + sum x^2, b = sum r x, bound b x / A + |x| / sqrt(A)."""
    policy = reset(LinUCB(alpha=0.5, regularization=2.0), 2, 1)
    rows = np.array([[1.0], [2.0], [1.0]])
    assert live(policy, [0, 0, 1], [1.0, 0.0, 1.0], rows) == [True] * 3
    np.testing.assert_allclose(policy.coef_, [[1 / 7], [1 / 3]], rtol=1e-15)
    np.testing.assert_array_equal(policy.counts_, [2, 1])
    x = np.array([[3.0], [-3.0]])
    block = policy.look_ahead(x)
    width = 0.5 * 3 / np.sqrt([7, 3])
    expected = [[3 / 7, -3 / 7], [1, -1]] + width[:, None]
    np.testing.assert_allclose(block.scores, expected, rtol=1e-14)
    # 3/7 + 1.5/sqrt(7) < 1 + 1.5/sqrt(3);  -3/7 + 1.5/sqrt(7) > -1 + 1.5/sqrt(3)
    assert policy.predict_proba(x).tolist() == [[0, 1], [1, 0]]
    # without the bonus: 3/7 < 1, -3/7 > -1
    assert policy.frozen().predict_proba(x).tolist() == [[0, 1], [1, 0]]


@pytest.mark.thorough
@pytest.mark.parametrize("n_features", [6, 20])
def test_inverse_stays_exact_over_20000_updates(n_features, global_random_seed):
    """Against explicit normal equations, to 1e-10."""
    rng = np.random.RandomState(global_random_seed)
    n_rounds = 20_000
    X = rng.standard_normal((n_rounds, n_features))
    reward = rng.random_sample(n_rounds)
    actions = (rng.random_sample(n_rounds) < 0.2).astype(int)
    policy = reset(LinUCB(regularization=0.3), 3, n_features)
    live(policy, actions.tolist(), reward.tolist(), X)
    for action in range(3):
        rows = X[actions == action]
        A = 0.3 * np.eye(n_features) + rows.T @ rows
        b = rows.T @ reward[actions == action]
        expected = np.linalg.solve(A, b)
        np.testing.assert_allclose(policy.coef_[action], expected, atol=1e-10)
        x = rng.standard_normal((50, n_features))
        width = (policy.look_ahead(x).scores[action] - x @ policy.coef_[action]) ** 2
        exact = np.einsum("ij,ji->i", x, np.linalg.solve(A, x.T))
        np.testing.assert_allclose(width, exact, rtol=1e-8)


def test_coefficients_are_those_of_ridge():
    logs = make_logs(n_features=5)
    policy = LinUCB(regularization=0.7).fit(logs)
    live(policy, logs.action_index.tolist(), logs.reward.tolist(), logs.context)
    for action in range(logs.n_actions):
        rows = logs.action_index == action
        ridge = Ridge(alpha=0.7, fit_intercept=False)
        ridge.fit(logs.context[rows], logs.reward[rows])
        np.testing.assert_allclose(policy.coef_[action], ridge.coef_, rtol=1e-10)


def test_ties_go_to_the_lowest_index():
    policy = reset(LinUCB(), 3, 2)
    X = np.array([[1.0, 2.0], [0.0, 0.0]])
    assert policy.predict_proba(X).argmax(axis=1).tolist() == [0, 0]
    # the same rounds in another order: coefficients differ by rounding only
    rows = np.array([[0.1, 0.7], [0.3, 0.2], [1.1, -0.4]])
    live(policy, [2] * 3, [1.0, 0.0, 1.0], rows)
    live(policy, [1] * 3, [1.0, 1.0, 0.0], rows[[2, 0, 1]])
    live(policy, [0] * 3, [0.0] * 3, rows * 100)  # no bonus left, no reward
    assert (policy.coef_[1] != policy.coef_[2]).any()
    np.testing.assert_allclose(policy.coef_[1], policy.coef_[2], rtol=1e-14)
    x = np.array([[1.0, 0.5], [0.4, 1.0]])
    assert policy.predict_proba(x).argmax(axis=1).tolist() == [1, 1]
    offered = np.array([[True, False, True], [False, True, True]])
    assert policy.predict_proba(x, offered).argmax(axis=1).tolist() == [2, 1]


def test_no_action_offered():
    policy = reset(LinUCB(), 2, 1)
    with pytest.raises(ValueError, match="offered at row 1"):
        policy.predict_proba(np.ones((2, 1)), np.array([[True, False], [False, False]]))


def test_frozen_leaves_out_the_bonus():
    policy = reset(LinUCB(alpha=3.0), 2, 1)
    live(policy, [0] * 9, [1.0] * 9, np.ones((9, 1)))
    assert policy.predict_proba([[1.0]]).tolist() == [[0, 1]]
    assert policy.frozen().predict_proba([[1.0]]).tolist() == [[1, 0]]
    offered = np.array([[False, True]])
    assert policy.frozen().predict_proba([[1.0]], offered).tolist() == [[0, 1]]


def test_contexts_of_other_kinds():
    logs = make_logs(60)
    X = logs.context
    pandas = pytest.importorskip("pandas")
    policies = []
    for rows in (X, sparse.csr_matrix(X), pandas.DataFrame(X), X.astype(np.float32)):
        policy = LinUCB().fit(logs)
        for row in range(len(logs)):
            action = int(logs.action_index[row])
            policy.update(rows[row : row + 1], action, logs.reward[row], 1.0)
        policies.append(policy)
        assert policy.predict_proba(rows).shape == (60, 4)
    for policy in policies[1:3]:
        np.testing.assert_array_equal(policy.coef_, policies[0].coef_)
    np.testing.assert_allclose(policies[3].coef_, policies[0].coef_, rtol=1e-4)


def test_contexts_that_are_not_numbers():
    policy = reset(LinUCB(), 2, 1)
    with pytest.raises(ValueError, match=r"finite contexts, but row 1 is \[nan\]"):
        policy.predict_proba(np.array([[1.0], [np.nan]]))
    with pytest.raises(TypeError, match="LinUCB needs contexts of numbers"):
        policy.predict_proba(np.array([["red"]]))


def test_bad_parameters():
    with pytest.raises(ValueError, match="'alpha' parameter of LinUCB"):
        reset(LinUCB(alpha=-1), 2, 1)
    with pytest.raises(ValueError, match="'regularization' parameter of LinUCB"):
        reset(LinUCB(regularization=0), 2, 1)


@pytest.mark.thorough
def test_keeps_the_contract():
    check_adaptive_policy(LinUCB())
    check_adaptive_policy(LinUCB(alpha=0.0, regularization=1e-3))
    check_adaptive_policy(LinUCB(), make_logs(n_features=18, available=True))


@pytest.mark.parametrize(
    ("size", "regularization", "n_features"),
    [(1e7, 1.0, 3), (1e4, 1e-8, 5), (1e5, 1e-4, 8)],
)
def test_digits_that_updates_lose_are_found_again(size, regularization, n_features):
    n = 150
    rng = np.random.RandomState(0)
    X, reward = size * rng.random_sample((n, n_features)), rng.random_sample(n)
    policy = LinUCB(regularization=regularization)
    policy.reset(BanditLogs(X, [0, 1] * 75, reward)[:0])
    for row in range(n):
        policy.update(X[row : row + 1], 0, reward[row], 1.0)
    gram = X.T @ X + regularization * np.eye(n_features)
    np.testing.assert_allclose(
        X @ policy.coef_[0], X @ np.linalg.solve(gram, X.T @ reward), rtol=0, atol=1e-10
    )
    widths = (policy.look_ahead(X).scores[0] - X @ policy.coef_[0]) ** 2
    truth = np.einsum("ij,ji->i", X, np.linalg.solve(gram, X.T))
    np.testing.assert_allclose(widths, truth, rtol=1e-9)


def with_ties(n_rounds, n_actions, n_features, available, seed):
    """Logs with few distinct contexts: whole numbers, so that many bounds are tied."""
    rng = np.random.RandomState(seed)
    X = rng.randint(-1, 2, (n_rounds, n_features)).astype(float)
    X[:, 0] = 1.0
    actions = rng.randint(n_actions, size=n_rounds)
    offered = None
    if available:
        offered = rng.random_sample((n_rounds, n_actions)) < 0.5
        offered[np.arange(n_rounds), actions] = True
    reward = rng.randint(2, size=n_rounds).astype(float)
    every = np.arange(n_actions)
    return BanditLogs(X, actions, reward, actions=every, available=offered)


@pytest.mark.few_cases
@pytest.mark.parametrize("n_features", [3, 17])
@pytest.mark.parametrize("available", [False, True])
def test_given_actions_are_those_of_the_table(
    n_features, available, global_random_seed
):
    """Of many actions only rivals are scored; the answers stay the same."""
    logs = with_ties(3000, 130, n_features, available, global_random_seed)
    policy = LinUCB(alpha=0.7).fit(logs)
    codes, rows = logs.action_index, np.arange(len(logs))
    table = policy.look_ahead(logs.context, logs.available)
    given = policy.look_ahead_at(logs.context, codes, logs.available)
    n_taken = 0
    for row in rows.tolist():
        taken = table.proba[rows[row:], codes[row:]]
        np.testing.assert_array_equal(given.proba[row:], taken)
        if not taken[0]:
            continue
        n_taken += 1
        x, action = logs.context[row : row + 1], codes.item(row)
        policy.update(x, action, logs.reward.item(row), 1.0)
        assert table.refresh(row + 1, action)
        assert given.refresh(row + 1, action)
    assert n_taken > 20


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
def test_the_history_is_that_of_single_rows():
    rng = np.random.RandomState(0)
    X, n_actions = rng.standard_normal((2000, 4)), 150
    actions = rng.randint(n_actions, size=2000)
    every = np.arange(n_actions)
    logs = BanditLogs(X, actions, rng.random_sample(2000), actions=every)
    few = Replay(random_state=0).fit(logs).evaluate(LinUCB())
    np.testing.assert_array_equal(few.accepted, row_by_row(LinUCB(), logs)[0])


def test_an_action_that_is_not_offered_is_not_taken():
    policy = reset(LinUCB(), 200, 2)
    offered = np.ones((3, 200), dtype=bool)
    offered[:, 0] = False
    block = policy.look_ahead_at(np.ones((3, 2)), np.array([0, 1, 2]), offered)
    assert block.proba.tolist() == [0, 1, 0]

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Learners of bandits: traces by hand, textbook loops, bounds to the last digits."""

from math import log, sqrt

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.linear_model import (
    LinearRegression,
    LogisticRegression,
    Ridge,
    SGDRegressor,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

from skope_ope import UCB1, BanditLogs, EpsilonGreedy, LinUCB, Replay
from skope_ope.policies import EpochGreedy
from skope_ope.utils.estimator_checks import check_adaptive_policy
from tests.policies._histories import live, make_logs, row_by_row

NO_CONTEXT = np.empty((4, 0))


def logs_of(n_actions, n_features=0):
    """One round, for policies to start from."""
    context = np.zeros((1, n_features))
    return BanditLogs(context, [0], [0.0], actions=np.arange(n_actions))


def test_epsilon_greedy_by_hand():
    policy = EpsilonGreedy(epsilon=0.3).fit(logs_of(3))
    best = []
    for action, reward in [(0, 1.0), (1, 0.0), (2, 0.5), (0, 0.0), (0, 0.0), (2, 0.0)]:
        best.append(int(np.argmax(policy.action_row())))
        assert policy.update(None, action, reward, 0.8) is True
    # untried 0, 1, 2; then means (1, 0, .5), (.5, 0, .5): a tie, (1/3, 0, .5)
    assert best == [0, 1, 2, 0, 0, 2]
    assert policy.action_row() == pytest.approx([0.8, 0.1, 0.1])  # (1/3, 0, .25)
    assert_array_equal(policy.counts_, [3, 1, 2])
    assert_allclose(policy.means_, [1 / 3, 0, 0.25])
    # choice and exploration run over the offered actions
    policy = EpsilonGreedy(epsilon=0.3).fit(logs_of(3))
    live(policy, [0, 1, 2], [1.0, 0.5, 0.0])
    offered = np.array([[1, 1, 1], [0, 1, 1], [0, 0, 1], [1, 0, 1]], dtype=bool)
    proba = policy.predict_proba(NO_CONTEXT, offered)
    expected = [[0.8, 0.1, 0.1], [0, 0.85, 0.15], [0, 0, 1], [0.85, 0, 0.15]]
    assert_allclose(proba, expected)
    # ties and untried actions
    policy = EpsilonGreedy(0).fit(logs_of(3))
    live(policy, [0, 1], [1e300, -5.0])
    assert policy.action_row() == [0.0, 0.0, 1.0]  # the untried one
    assert_array_equal(policy.means_, [1e300, -5.0, np.nan])
    policy = EpsilonGreedy(0).fit(logs_of(2))
    # 0.1 three times sums to .30000000000000004, once .3 does not
    live(policy, [0, 0, 0, 1], [0.1, 0.1, 0.1, 0.1])
    assert policy.means_[0] != policy.means_[1]
    assert policy.action_row() == [1.0, 0.0]
    live(policy, [1], [0.1 * (1 + 1e-11)])  # a difference, however small
    assert policy.action_row() == [0.0, 1.0]


def test_epsilon_may_be_a_function_of_the_coming_round():
    asked = []

    def epsilon(t):
        asked.append(t)
        return min(1.0, 1.5 / t)

    policy = EpsilonGreedy(epsilon).fit(logs_of(2))
    rows = [policy.action_row()]
    for _ in range(2):
        policy.update(None, 0, 1.0, 1.0)
        rows.append(policy.action_row())
    assert asked == [1, 2, 3]
    assert_allclose(rows, [[0.5, 0.5], [0.375, 0.625], [0.25, 0.75]])


def test_bad_parameters():
    for policy, message in (
        (EpsilonGreedy(lambda t: 2 / t), r"epsilon\(1\) is 2; it must lie in \[0, 1\]"),
        (EpsilonGreedy(1.5), "'epsilon' parameter of EpsilonGreedy"),
        (UCB1(alpha=-1), "'alpha' parameter of UCB1"),
        (UCB1(width="sqrt"), "'width' parameter of UCB1"),
        (LinUCB(alpha=-1), "'alpha' parameter of LinUCB"),
        (LinUCB(regularization=0), "'regularization' parameter of LinUCB"),
        (EpochGreedy(exploit=-1), "'exploit' parameter of EpochGreedy"),
    ):
        with pytest.raises(ValueError, match=message):
            policy.fit(logs_of(2, 1))


def test_frozen_takes_what_was_tried():
    one = NO_CONTEXT[:1]
    policy = EpsilonGreedy(epsilon=0.4).fit(logs_of(3))
    assert policy.frozen().predict_proba(one).tolist() == [[1, 0, 0]]
    live(policy, [1], [-2.0])
    assert policy.frozen().predict_proba(one).tolist() == [[0, 1, 0]]
    offered = np.array([[True, False, True], [True, True, False]])
    proba = policy.frozen().predict_proba(NO_CONTEXT[:2], offered)
    assert proba.tolist() == [[1, 0, 0], [0, 1, 0]]
    explored = policy.frozen(explore=True).predict_proba(one)
    assert_allclose(explored, [policy.action_row()])
    # the best mean, not the best bound
    policy = UCB1().fit(logs_of(2))
    live(policy, [0, 1, *[0] * 50], [1.0, 0.0, *[1.0] * 50])
    while policy.action_row() == [1.0, 0.0]:  # until it looks at the other again
        policy.update(None, 0, 1.0, 1.0)
    assert policy.frozen().predict_proba(one).tolist() == [[1, 0]]
    policy = LinUCB(alpha=3.0).fit(logs_of(2, 1))
    live(policy, [0] * 9, [1.0] * 9, np.ones((9, 1)))
    assert policy.predict_proba([[1.0]]).tolist() == [[0, 1]]
    assert policy.frozen().predict_proba([[1.0]]).tolist() == [[1, 0]]
    offered = np.array([[False, True]])
    assert policy.frozen().predict_proba([[1.0]], offered).tolist() == [[0, 1]]
    # what was explored
    policy = EpochGreedy(exploit=lambda epoch: 1).fit(logs_of(2, 1))
    live(policy, [1, 1, 0, 0], [1.0, 1.0, 0.0, 0.0], np.zeros((4, 1)))
    assert explores(policy)
    assert policy.frozen().predict_proba(ZERO).tolist() == [[0, 1]]
    assert policy.frozen(explore=True).predict_proba(ZERO).tolist() == [[0.5, 0.5]]


def test_ucb1_by_hand():
    policy = UCB1().fit(logs_of(3))
    best = []
    for reward in (0.0, 1.0, 0.0):
        best.append(policy.action_row().index(1.0))
        assert policy.update(None, best[-1], reward, 1.0) is True
    assert best == [0, 1, 2]
    assert policy.action_row() == [0.0, 1.0, 0.0]
    # equal arms take turns from the lowest index
    policy, taken = UCB1().fit(logs_of(3)), []
    for _ in range(9):
        taken.append(policy.action_row().index(1.0))
        policy.update(None, taken[-1], 0.1, 1.0)
    assert taken == [0, 1, 2] * 3
    # without a bonus it is greedy
    policy = UCB1(alpha=0).fit(logs_of(2))
    live(policy, [0, 1, 1], [0.2, 0.0, 0.3])
    assert policy.action_row() == [1.0, 0.0]
    # sqrt(2 log t / n): one pull of each, and the mean of one decides
    policy = UCB1().fit(logs_of(2))
    for gap, best in ((1.01, 0), (0.99, 1)):  # of the bonuses of 1 and of 3 pulls
        bonus = sqrt(2 * log(4)) - sqrt(2 * log(4) / 3)
        policy.fit(logs_of(2))
        live(policy, [0, 0, 0, 1], [gap * bonus] * 3 + [0.0])
        assert policy.action_row().index(1.0) == best


BANDITS = [EpsilonGreedy(0.2), UCB1(0.7, width="log"), UCB1(0.7, width="constant")]


@pytest.mark.parametrize("policy", BANDITS, ids=repr)
@pytest.mark.parametrize("available", [False, True])
def test_is_the_textbook_loop(policy, available, global_random_seed):
    logs = make_logs(400, seed=global_random_seed, available=available)
    draws = np.random.RandomState(global_random_seed).random_sample(len(logs))
    accepted, proba, _ = row_by_row(policy, logs, draws)
    epsilon, alpha = getattr(policy, "epsilon", 0.0), getattr(policy, "alpha", 0.0)
    counts, totals, seen = np.zeros(4), np.zeros(4), []
    for row in range(len(logs)):
        offered = logs.available[row] if available else np.ones(4, bool)
        constant = getattr(policy, "width", "") == "constant"
        growth = 1.0 if constant else np.log(max(counts.sum(), 1))
        with np.errstate(divide="ignore", invalid="ignore"):
            score = totals / counts + alpha * np.sqrt(growth / counts)
        score[counts == 0] = np.inf
        score = np.where(offered, score, -np.inf)
        top = score.max()
        best = np.argmax(score == top if np.isinf(top) else score >= top - 1e-9)
        expected = epsilon * offered / offered.sum()
        expected[best] += 1 - epsilon
        assert_allclose(proba[row], expected)
        action = logs.action_index[row]
        if draws[row] < expected[action]:
            counts[action] += 1
            totals[action] += logs.reward[row]
            seen.append(row)
    assert accepted == seen


ZERO = np.zeros((1, 1))


def reset(policy, n_actions=2, n_features=1):
    return policy.fit(logs_of(n_actions, n_features))


def explores(policy):
    return (policy.predict_proba(ZERO) == 1 / len(policy.classes_)).all()


def test_epochs_of_a_function():
    """One explored round, then 2, 0 and 1 rounds of exploitation."""
    policy = reset(EpochGreedy(exploit=lambda epoch: [2, 0, 1][epoch - 1]))
    seen = []
    for _ in range(6):
        seen.append((bool(explores(policy)), policy.update(ZERO, 1, 1.0, 0.5)))
    assert seen == [
        (True, True),
        (False, False),
        (False, True),
        (True, False),  # an epoch without exploitation: it explores again
        (True, True),
        (False, True),
    ]
    assert policy.n_epochs_ == 3


def test_length_of_the_default_epochs():
    """floor(c sqrt(l / K)) rounds of exploitation in epoch l."""
    for c, n_actions in [(1.0, 4), (3.0, 2)]:
        policy, lengths = reset(EpochGreedy(exploit=c), n_actions), [-1]
        while len(lengths) <= 40:
            if explores(policy):
                lengths.append(-1)
            policy.update(ZERO, 0, 1.0, 0.25)
            lengths[-1] += 1
        expected = np.floor(c * np.sqrt(np.arange(1, 40) / n_actions))
        assert_array_equal(lengths[1:-1], expected)


def test_what_epoch_greedy_learns():
    policy = reset(EpochGreedy(LinearRegression(), exploit=lambda epoch: 2))
    X = np.arange(9.0)[:, None]
    # rounds 0, 3 and 6 explore; what the others say contradicts them
    live(policy, [0, 1, 1, 1, 0, 0, 0], [0.0, 9, 9, 3.0, 9, 9, 6.0], X[:7])
    # the estimates are x and 3
    proba = policy.predict_proba(np.array([[1.0], [2.99], [3.01], [10.0]]))
    assert proba.argmax(axis=1).tolist() == [1, 1, 0, 0]
    # an action not explored yet gets the mean of all
    policy = reset(EpochGreedy(exploit=lambda epoch: 1 if epoch == 3 else 0), 3)
    live(policy, [1, 1, 2], [-3.0, -1.0, 1.0], np.zeros((3, 1)))
    assert policy.predict_proba(ZERO).tolist() == [[0, 0, 1]]
    offered = np.array([[True, True, False]])
    assert policy.predict_proba(ZERO, offered).tolist() == [[1, 0, 0]]
    # exploration runs over the offered actions
    policy = reset(EpochGreedy(), 3)
    offered = np.array([[True, False, True], [False, True, False]])
    proba = policy.predict_proba(np.zeros((2, 1)), offered)
    assert proba.tolist() == [[0.5, 0, 0.5], [0, 1, 0]]
    with pytest.raises(ValueError, match="offered at row 0"):
        policy.predict_proba(ZERO, np.zeros((1, 3), dtype=bool))
    # classifier for 0 1 rewards
    policy = reset(EpochGreedy(GaussianNB(), exploit=lambda epoch: int(epoch == 5)))
    X = np.array([[0.0], [0.2], [1.0], [1.2], [0.5]])
    live(policy, [0, 0, 0, 0, 1], [1.0, 1.0, 0.0, 0.0, 1.0], X)
    # action 1 has seen one reward: (1 + 1) / (1 + 2)
    assert policy.predict_proba([[0.1], [1.1]]).tolist() == [[1, 0], [0, 1]]
    with pytest.raises(ValueError, match="EpochGreedy learns 0/1 rewards"):
        reset(EpochGreedy(GaussianNB())).update(ZERO, 0, 0.5, 0.5)


def test_epochs_that_cannot_be():
    with pytest.raises(TypeError, match="LinearSVC has no predict_proba"):
        reset(EpochGreedy(LinearSVC()))
    for wrong in (1.5, -1):
        policy = reset(EpochGreedy(exploit=lambda epoch, wrong=wrong: wrong))
        with pytest.raises(ValueError, match=rf"exploit\(1\) is {wrong}; it must be"):
            policy.update(ZERO, 0, 1.0, 0.5)


@pytest.mark.thorough
@pytest.mark.parametrize("available", [False, True])
@pytest.mark.parametrize(
    "policy",
    [
        EpsilonGreedy(),
        EpsilonGreedy(0),
        EpsilonGreedy(lambda t: min(1, 5 / t)),
        UCB1(),
        UCB1(alpha=0.1, width="constant"),
        EpochGreedy(),
        EpochGreedy(SGDRegressor(), exploit=lambda epoch: epoch),
        EpochGreedy(LogisticRegression(), exploit=5),
        LinUCB(),
        LinUCB(alpha=0.0, regularization=1e-3),
    ],
)
def test_keeps_the_contract(policy, available):
    check_adaptive_policy(policy, make_logs(60, n_actions=3, available=available))


def test_bounds_by_hand():
    """One feature: A = 2 + sum x^2, b = sum r x, bound b x / A + |x| / sqrt(A)."""
    policy = reset(LinUCB(alpha=0.5, regularization=2.0))
    rows = np.array([[1.0], [2.0], [1.0]])
    assert live(policy, [0, 0, 1], [1.0, 0.0, 1.0], rows) == [True] * 3
    assert_allclose(policy.coef_, [[1 / 7], [1 / 3]], rtol=1e-15)
    assert_array_equal(policy.counts_, [2, 1])
    x = np.array([[3.0], [-3.0]])
    block = policy.look_ahead(x)
    width = 0.5 * 3 / np.sqrt([7, 3])
    expected = [[3 / 7, -3 / 7], [1, -1]] + width[:, None]
    assert_allclose(block.scores, expected, rtol=1e-14)
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
        assert_allclose(policy.coef_[action], expected, atol=1e-10)
        x = rng.standard_normal((50, n_features))
        width = (policy.look_ahead(x).scores[action] - x @ policy.coef_[action]) ** 2
        exact = np.einsum("ij,ji->i", x, np.linalg.solve(A, x.T))
        assert_allclose(width, exact, rtol=1e-8)


def test_coefficients_are_those_of_ridge():
    logs = make_logs(n_features=5)
    policy = LinUCB(regularization=0.7).fit(logs)
    live(policy, logs.action_index.tolist(), logs.reward.tolist(), logs.context)
    for action in range(logs.n_actions):
        rows = logs.action_index == action
        ridge = Ridge(alpha=0.7, fit_intercept=False)
        ridge.fit(logs.context[rows], logs.reward[rows])
        assert_allclose(policy.coef_[action], ridge.coef_, rtol=1e-10)


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
    assert_allclose(policy.coef_[1], policy.coef_[2], rtol=1e-14)
    x = np.array([[1.0, 0.5], [0.4, 1.0]])
    assert policy.predict_proba(x).argmax(axis=1).tolist() == [1, 1]
    offered = np.array([[True, False, True], [False, True, True]])
    assert policy.predict_proba(x, offered).argmax(axis=1).tolist() == [2, 1]


def test_contexts_that_are_not_numbers():
    policy = reset(LinUCB())
    with pytest.raises(ValueError, match="offered at row 1"):
        policy.predict_proba(np.ones((2, 1)), np.array([[True, False], [False, False]]))
    with pytest.raises(ValueError, match=r"finite contexts, but row 1 is \[nan\]"):
        policy.predict_proba(np.array([[1.0], [np.nan]]))
    with pytest.raises(TypeError, match="LinUCB needs contexts of numbers"):
        policy.predict_proba(np.array([["red"]]))


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
        assert_array_equal(policy.coef_, policies[0].coef_)
    assert_allclose(policies[3].coef_, policies[0].coef_, rtol=1e-4)


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
    assert_allclose(
        X @ policy.coef_[0], X @ np.linalg.solve(gram, X.T @ reward), rtol=0, atol=1e-10
    )
    widths = (policy.look_ahead(X).scores[0] - X @ policy.coef_[0]) ** 2
    truth = np.einsum("ij,ji->i", X, np.linalg.solve(gram, X.T))
    assert_allclose(widths, truth, rtol=1e-9)


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
        assert_array_equal(given.proba[row:], taken)
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
    X, actions = rng.standard_normal((2000, 4)), rng.randint(150, size=2000)
    logs = BanditLogs(X, actions, rng.random_sample(2000), actions=np.arange(150))
    few = Replay(random_state=0).fit(logs).evaluate(LinUCB())
    assert_array_equal(few.accepted, row_by_row(LinUCB(), logs)[0])
    # an action that is not offered is not taken
    offered = np.tile(np.arange(200) > 0, (3, 1))
    policy = reset(LinUCB(), 200, 2)
    block = policy.look_ahead_at(np.ones((3, 2)), np.array([0, 1, 2]), offered)
    assert block.proba.tolist() == [0, 1, 0]

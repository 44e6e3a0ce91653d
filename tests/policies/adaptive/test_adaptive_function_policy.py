# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from scipy import sparse

from skope_ope import AdaptiveFunctionPolicy, BanditLogs
from skope_ope.utils.estimator_checks import check_adaptive_policy
from tests.policies._histories import live, make_logs, replayed, row_by_row


def mostly_the_better(X, history):
    """4/5 on the larger (successes + 1) / (pulls + 2), 1/5 on the other."""
    if not len(history.actions):
        return np.full((X.shape[0], 2), 0.5)
    pulls = np.bincount(history.actions, minlength=2)
    successes = np.bincount(history.actions, history.rewards, minlength=2)
    best = np.argmax((successes + 1) / (pulls + 2))
    return np.tile(np.where(np.arange(2) == best, 0.8, 0.2), (X.shape[0], 1))


def test_the_policy_of_the_fixed_trace():
    """The histories that accept rows 1, 3, 5, ... of the trace of DR-ns."""
    X = np.array([0, 1, 1, 0, 1, 0, 0, 1, 1, 0.0])[:, None]
    actions = [1, 0, 1, 1, 1, 0, 1, 1, 0, 1]
    rewards = [1, 0, 1, 0, 1, 1, 1, 0, 0, 1.0]
    logs = BanditLogs(X, actions, rewards)
    policy = AdaptiveFunctionPolicy(mostly_the_better).fit(logs)
    said = []
    for row in [0, 2, 4, 7, 8, 9]:
        proba = policy.predict_proba(X[row : row + 1])[0]
        said.append(proba.tolist())
        chance = proba[actions[row]]
        assert policy.update(X[row : row + 1], actions[row], rewards[row], chance)
    half, first, second = [0.5, 0.5], [0.8, 0.2], [0.2, 0.8]
    assert said == [half, second, second, second, second, second]
    assert first != second


def test_history_is_what_was_lived():
    logs = make_logs(50)
    policy = AdaptiveFunctionPolicy(lambda X, history: None).fit(logs)
    assert [len(part) for part in policy.history_] == [0, 0, 0, 0]
    for row in range(50):  # more than the first buffer holds
        policy.update(
            logs.context[row : row + 1], logs.action_index[row], logs.reward[row], 0.3
        )
    contexts, actions, rewards, proba = policy.history_
    np.testing.assert_array_equal(contexts, logs.context)
    np.testing.assert_array_equal(actions, logs.action_index)
    np.testing.assert_array_equal(rewards, logs.reward)
    np.testing.assert_array_equal(proba, np.full(50, 0.3))
    assert actions.dtype.kind == "i"
    assert policy.history_.contexts.shape == (50, 3)


def test_history_of_other_contexts():
    pandas = pytest.importorskip("pandas")
    logs = make_logs(30)
    kinds = []

    def uniform(X, history):
        kinds.append((type(history.contexts), history.contexts.shape[0]))
        return np.full((X.shape[0], 4), 0.25)

    for context in (sparse.csr_matrix(logs.context), pandas.DataFrame(logs.context)):
        data = BanditLogs(context, logs.action, logs.reward, actions=logs.actions)
        kinds.clear()
        draws = np.random.RandomState(0).random_sample(30)
        accepted = replayed(AdaptiveFunctionPolicy(uniform), data, draws)
        assert {kind for kind, _ in kinds} == {type(context)}
        assert kinds[-1][1] <= len(accepted) < 30


def test_offers_renormalise():
    logs = make_logs(4, 2)
    policy = AdaptiveFunctionPolicy(mostly_the_better).fit(logs)
    live(policy, [0], [1.0], logs.context[:1])
    offered = np.array([[False, True], [True, True]])
    proba = policy.predict_proba(logs.context[:2], offered)
    np.testing.assert_allclose(proba, [[0, 1], [0.8, 0.2]])


def test_bad_functions():
    logs = make_logs(4, 2)

    def ask(func):
        AdaptiveFunctionPolicy(func).fit(logs).predict_proba(logs.context)

    with pytest.raises(ValueError, match=r"shape \(4, 3\), expected \(4, 2\)"):
        ask(lambda X, history: np.full((4, 3), 1 / 3))
    with pytest.raises(ValueError, match=r"func must sum to 1 .* got 0\.8"):
        ask(lambda X, history: np.full((4, 2), 0.4))
    with pytest.raises(ValueError, match="'func' parameter of AdaptiveFunctionPolicy"):
        ask("uniform")


def test_keeps_the_contract():
    logs = make_logs(200, 2)
    check_adaptive_policy(AdaptiveFunctionPolicy(mostly_the_better), logs)
    assert len(row_by_row(AdaptiveFunctionPolicy(mostly_the_better), logs)[0]) == 200

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from scipy import sparse

from skope_ope import BanditLogs, Replay
from skope_ope.base import AdaptivePolicy
from skope_ope.policies import AdaptiveFunctionPolicy, BatchPolicy
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


def test_labels_and_frames_stand_for_probabilities():
    logs = BanditLogs(np.zeros((2, 1)), ["a", "b"], [1.0, 0.0])
    rule = AdaptiveFunctionPolicy(lambda X, history: ["b"] * len(X)).fit(logs)
    assert rule.predict_proba(logs).tolist() == [[0, 1]] * 2
    wrong = AdaptiveFunctionPolicy(lambda X, history: ["B"] * len(X)).fit(logs)
    with pytest.raises(ValueError, match=r"names 'B' at row 0 .*Did you mean 'b'"):
        wrong.predict_proba(logs)
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"b": [0.75, 0.75], "a": [0.25, 0.25]})
    named = AdaptiveFunctionPolicy(lambda X, history: table[: len(X)]).fit(logs)
    assert named.predict_proba(logs).tolist() == [[0.25, 0.75]] * 2
    table.columns = ["b", "q"]
    with pytest.raises(ValueError, match=r"are \['b', 'q'\], the actions are"):
        named.predict_proba(logs)


def test_frames_that_own_policies_give_are_matched_by_name():
    pd = pytest.importorskip("pandas")

    class Own(AdaptivePolicy):
        def predict_proba(self, X, available=None):
            return pd.DataFrame({"b": np.ones(len(X)), "a": np.zeros(len(X))})

        def update(self, X, action, reward, proba):
            return False

    actions, times = ["a", "b"] * 20, range(40)
    reward = [float(one == "b") for one in actions]
    half = np.full(40, 0.5)
    logs = BanditLogs(np.zeros((40, 1)), actions, reward, half, timestamp=times)
    value = Replay(horizon=10, random_state=0).fit(logs).evaluate(Own())
    assert value.value == 1.0
    expected = np.tile([0.0, 1.0], (40, 1))
    batches = BatchPolicy(Own(), logs, 10)
    assert batches.logs_proba(logs).tolist() == expected.tolist()
    frozen = Own().fit(logs).frozen()
    assert frozen.predict_proba(logs).tolist() == expected.tolist()

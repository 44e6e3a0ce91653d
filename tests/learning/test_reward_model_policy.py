# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skope_ope import ActionRewardModel, BanditLogs, DoublyRobust, RewardModelPolicy
from skope_ope.datasets import make_bandit_logs
from skope_ope.policies import action_probabilities

LOGS = make_bandit_logs(300, reward="continuous", random_state=0)
X = LOGS.context
LABELLED = BanditLogs(
    X, np.array([*"xyz"])[LOGS.action], LOGS.reward, LOGS.propensity, actions=[*"zxy"]
)


@pytest.mark.few_cases
@pytest.mark.parametrize(
    "model",
    [
        Ridge(),
        make_pipeline(StandardScaler(), Ridge()),
        GridSearchCV(Ridge(), {"alpha": [0.1, 10]}, cv=2),
        ActionRewardModel(Ridge(), encoding="one_hot"),
    ],
    ids=str,
)
@pytest.mark.parametrize("weight", ["uniform", "inverse_propensity"])
def test_it_takes_the_best_prediction(model, weight):
    policy = RewardModelPolicy(model, weight=weight).fit(LABELLED)
    whole = isinstance(model, ActionRewardModel)
    by_hand = clone(model) if whole else ActionRewardModel(model)
    weights = None if weight == "uniform" else 1 / LOGS.propensity
    q_hat = by_hand.fit(LABELLED, sample_weight=weights).predict(X)
    assert_array_equal(policy.predict_proba(X), np.eye(3)[q_hat.argmax(axis=1)])
    assert_array_equal(policy.predict(X), LABELLED.actions[q_hat.argmax(axis=1)])
    policy.set_params(epsilon=0.3, temperature=0.5)
    soft = np.exp(q_hat / 0.5)
    soft /= soft.sum(axis=1, keepdims=True)
    assert_allclose(policy.predict_proba(X), 0.7 * soft + 0.1)
    offered = np.tile([True, False, True], (300, 1))
    some = soft * offered
    expected = 0.7 * some / some.sum(axis=1, keepdims=True) + 0.3 * offered / 2
    assert_allclose(policy.predict_proba(X, offered), expected, atol=1e-12)


def test_classifiers_weights_and_propensities():
    logs = make_bandit_logs(300, random_state=0)
    policy = RewardModelPolicy(LogisticRegression(), temperature=0.1).fit(logs)
    q_hat = ActionRewardModel(LogisticRegression()).fit(logs).predict(logs.context)
    soft = np.exp(q_hat / 0.1)
    expected = soft / soft.sum(axis=1, keepdims=True)
    assert_allclose(policy.predict_proba(logs.context), expected)
    with pytest.raises(ValueError, match="rewards only if they are 0 or 1"):
        RewardModelPolicy(LogisticRegression()).fit(LOGS)
    # weights are those of the logs times inverse propensities
    keep = 1.0 + np.arange(300) % 3
    logs = LOGS.replace(sample_weight=keep)
    weights = {"uniform": keep, "inverse_propensity": keep / LOGS.propensity}
    for weight, expected in weights.items():
        policy = RewardModelPolicy(LinearRegression(), weight=weight).fit(logs)
        by_hand = ActionRewardModel(LinearRegression()).fit(
            LOGS, sample_weight=expected
        )
        assert_allclose(policy.reward_model_.predict(X), by_hand.predict(X))
    # propensities are needed only for weights
    logs = LOGS.replace(propensity=None, logging_proba=None)
    RewardModelPolicy(Ridge(), weight="uniform").fit(logs)
    with pytest.raises(ValueError, match=r"needs the propens.*PropensityEstimator"):
        RewardModelPolicy(Ridge(), weight="inverse_propensity").fit(logs)


def test_importance_weights_mend_a_model_that_cannot_be_right_everywhere():
    """A line through three points, fitted where the logger went, or everywhere.

    Action 0 earns 0.6. Action 1 earns 0, 0.2 and 1 at x = 0, 1, 2, so that it is the
    better one at 2 only. The logger hardly ever took it there.
    """
    x = np.repeat([0.0, 1.0, 2.0], 20)
    action = np.r_[[1] * 18, [0] * 2, [1] * 18, [0] * 2, [1] * 1, [0] * 19]
    q_1 = np.array([0.0, 0.2, 1.0])[x.astype(int)]
    p_1 = np.array([0.9, 0.9, 0.05])[x.astype(int)]
    reward, p = np.where(action == 1, [q_1, p_1], [0.6 + 0 * q_1, 1 - p_1])
    logs = BanditLogs(x[:, None], action, reward, p)
    contexts = [[0.0], [1.0], [2.0]]
    model = LinearRegression()
    uniform = RewardModelPolicy(model).fit(logs)
    assert uniform.predict(contexts).tolist() == [0, 0, 0]
    weighted = RewardModelPolicy(model, weight="inverse_propensity").fit(logs)
    assert weighted.predict(contexts).tolist() == [0, 0, 1]
    # least squares where every context counts alike
    line = LinearRegression().fit(contexts, [0.0, 0.2, 1.0])
    assert_allclose(
        weighted.reward_model_.predict(np.array(contexts))[:, 1], line.predict(contexts)
    )


def test_actions_never_logged():
    logs = LOGS[LOGS.action != 1]
    for encoding in ("per_action", "one_hot"):
        model = ActionRewardModel(Ridge(), encoding=encoding)
        for temperature in (None, 1.0):
            policy = RewardModelPolicy(model, temperature=temperature, epsilon=0.3)
            proba = policy.fit(logs).predict_proba(X)
            assert_allclose(proba[:, 1], 0.1)
            only = np.array([[False, True, False]])
            assert_array_equal(policy.predict_proba(X[:1], only), only)
    # features make an action known
    given = np.zeros((20, 1)), [0, 1] * 10, [0.0, 1.0] * 10, 0.5
    features = np.array([[0.0], [1.0], [2.0]])
    logs = BanditLogs(*given, actions=[0, 1, 2], action_context=features)
    model = ActionRewardModel(LinearRegression(), encoding="action_context")
    assert RewardModelPolicy(model).fit(logs).predict([[0.0]]) == [2]


def features_of(n_rounds, seed=0):
    """Logs whose reward is the first feature of the action, another one every round."""
    rng = np.random.RandomState(seed)
    features = rng.normal(size=(n_rounds, 3, 2))
    action = rng.randint(3, size=n_rounds)
    reward = features[np.arange(n_rounds), action, 0]
    given = np.zeros((n_rounds, 1)), action, reward, 1 / 3
    return BanditLogs(*given, actions=np.arange(3), action_context=features)


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.LowOverlapWarning")
def test_features_of_actions_that_vary_by_round():
    train, test = features_of(60), features_of(40, seed=1)
    model = ActionRewardModel(LinearRegression(), encoding="action_context")
    policy = RewardModelPolicy(model)
    assert not hasattr(policy, "logs_proba")
    policy.fit(train)
    best = test.action_context[:, :, 0].argmax(axis=1)
    assert_array_equal(action_probabilities(policy, test), np.eye(3)[best])
    value = DoublyRobust(reward_model=model).fit(test).score(policy)
    assert_allclose(value, test.action_context[:, :, 0].max(axis=1).mean())
    with pytest.raises(ValueError, match=r"vary by round: call predict_logs"):
        policy.predict_proba(test.context)
    offered = test.replace(available=np.eye(3, dtype=bool)[test.action])
    assert_array_equal(action_probabilities(policy, offered), np.eye(3)[test.action])

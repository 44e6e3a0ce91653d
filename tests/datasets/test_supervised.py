# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Logs of labelled rows, by loggers of known probabilities; the demonstration."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.stats import sem
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from skope_ope.__main__ import main
from skope_ope.datasets import load_classification, make_logs_from_classification
from skope_ope.policies import (
    ClassifierPolicy,
    ConstantPolicy,
    UniformPolicy,
    action_probabilities,
)


def problem(n=60, n_actions=4, seed=0):
    rng = np.random.RandomState(seed)
    y = np.r_[np.arange(n_actions), rng.randint(n_actions, size=n - n_actions)]
    return rng.standard_normal((n, 3)), y


@pytest.mark.parametrize("labels", [[0, 1, 2, 3], [7, 3, 11, 5], list("dbca")], ids=str)
@pytest.mark.parametrize("logging", ["confounded", "uniform"])
def test_rewards_are_the_labels(labels, logging):
    X, codes = problem()
    y = np.array(labels)[codes]
    logs, rewards = make_logs_from_classification(X, y, logging=logging, random_state=0)
    assert_array_equal(logs.actions, np.unique(y))
    assert_array_equal(rewards, y[:, None] == logs.actions)
    assert_array_equal(logs.reward, logs.action == y)
    rows = np.arange(len(y))
    assert_array_equal(logs.propensity, logs.logging_proba[rows, logs.action_index])
    assert logs.reward_range == (0.0, 1.0)
    assert np.shares_memory(logs.context, X)
    again, other = (
        make_logs_from_classification(X, y, logging=logging, random_state=seed)[0]
        for seed in (0, 1)
    )
    assert_array_equal(again.logging_proba, logs.logging_proba)
    assert_array_equal(again.action, logs.action)
    assert not np.array_equal(other.action, logs.action)


def test_confounded_rule():
    X, y = problem(n=500)
    logs, rewards = make_logs_from_classification(X, y, random_state=0)
    rest = logs.logging_proba - 0.7 * rewards
    assert_allclose(rest.sum(axis=1), 0.3, rtol=1e-12)
    # 0.3 s_a / sum s with s in [0.1, 1]: no two entries differ by more than 10 times
    assert (rest.max(axis=1) <= 10 * rest.min(axis=1)).all()
    assert rest.min() >= 0.3 * 0.1 / 3.1
    assert rest.max() <= 0.3 / 1.3
    # a new draw for every row
    assert len(np.unique(rest[:, 0])) == 500


def test_confounded_s_is_uniform(global_random_seed):
    # With K = 2 the share s_1 / (s_1 + s_2) has mean 1/2 by symmetry, and
    # P(s_1 > s_2 / 2) has a closed form; both over 20,000 rows.
    n, seed = 20_000, global_random_seed
    X, y = np.zeros((n, 1)), np.arange(n) % 2
    logs, rewards = make_logs_from_classification(X, y, random_state=seed)
    share = (logs.logging_proba[:, 0] - 0.7 * rewards[:, 0]) / 0.3
    assert abs(share.mean() - 0.5) < 4.5 * sem(share)
    # s_1 <= s_2 / 2: integral over s_2 in [.2, 1] of (s_2 / 2 - .1) / .9 / .9
    below = (0.25 * (1 - 0.2**2) - 0.1 * 0.8) / 0.81
    found = (share < 1 / 3).mean()
    assert abs(found - below) < 4.5 * np.sqrt(below * (1 - below) / n)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix, sparse.csr_array])
def test_several_labels(container):
    Y = np.array([[1, 0, 1, 1], [0, 1, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1]])
    given = {"actions": list("abcd"), "random_state": 0}
    logs, rewards = make_logs_from_classification(np.eye(4), container(Y), **given)
    assert_array_equal(rewards, Y)
    assert_array_equal(logs.actions, list("abcd"))
    assert_array_equal(logs.reward, Y[np.arange(4), logs.action_index])
    count = np.array([[3], [1], [1], [4]])
    rest = logs.logging_proba - 0.7 * Y / count
    # a row without labels has no label to be confounded by
    assert_allclose(rest.sum(axis=1), [0.3, 0.3, 1.0, 0.3], rtol=1e-12)
    assert rest.min() > 0


def test_truth_is_what_ips_estimates(global_random_seed):
    X, y = load_iris(return_X_y=True)
    X, y = np.repeat(X[:, :2], 40, axis=0), np.repeat(y, 40)
    policy = ClassifierPolicy(LogisticRegression(max_iter=500), epsilon=0.2).fit(X, y)
    for logging in ("confounded", "uniform"):
        given = {"logging": logging, "random_state": global_random_seed}
        logs, rewards = make_logs_from_classification(X, y, **given)
        pi = action_probabilities(policy, logs)
        truth = (pi * rewards).sum(axis=1).mean()
        w = pi[np.arange(len(logs)), logs.action_index] / logs.propensity
        assert abs((w * logs.reward).mean() - truth) < 5 * sem(w * logs.reward)
        assert abs(w.mean() - 1) < 5 * sem(w)


def test_confounding_biases_the_mean_reward_of_an_action(global_random_seed):
    # Features without any information: given x, action a earns 1/4; among the rows
    # in which it was logged it earns more, since the logger knew the label.
    rng = np.random.RandomState(global_random_seed)
    y = rng.randint(4, size=4000)
    X = np.zeros((4000, 1))
    logs, _ = make_logs_from_classification(X, y, random_state=rng)
    assert logs.reward.mean() > 0.7
    logs, _ = make_logs_from_classification(X, y, logging="uniform", random_state=rng)
    assert abs(logs.reward.mean() - 0.25) < 5 * sem(logs.reward)


def test_logging_by_probabilities():
    X, y = problem(n=40)
    proba = np.random.RandomState(0).dirichlet(np.ones(4), size=40)
    logs, _ = make_logs_from_classification(X, y, logging=proba, random_state=0)
    assert_array_equal(logs.logging_proba, proba)
    half = [0.0, 0.5, 0.0, 0.5]
    logs, _ = make_logs_from_classification(X, y, logging=half, random_state=0)
    assert set(logs.action.tolist()) == {1, 3}
    assert_array_equal(logs.propensity, 0.5)


def test_logging_by_a_policy_is_aligned_by_label():
    X, codes = problem(n=60)
    y = np.array(list("wxyz"))[codes]
    policy = ClassifierPolicy(LogisticRegression(), epsilon=0.1)
    policy.fit(X[y != "w"], y[y != "w"])  # does not know "w"
    logs, _ = make_logs_from_classification(X, y, logging=policy, random_state=0)
    assert_array_equal(logs.logging_proba[:, 0], 0.0)
    assert_array_equal(logs.logging_proba[:, 1:], policy.predict_proba(X))
    assert "w" not in logs.action
    assert_array_equal(logs.actions, list("wxyz"))
    uniform = UniformPolicy().fit(logs)
    logs, _ = make_logs_from_classification(X, y, logging=uniform, random_state=0)
    assert_allclose(logs.propensity, 0.25)


def test_contexts_keep_their_container():
    pd = pytest.importorskip("pandas")
    X, y = problem(n=12)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    logs, _ = make_logs_from_classification(frame, y, random_state=0)
    assert list(logs.context.columns) == ["a", "b", "c"]
    logs, _ = make_logs_from_classification(sparse.csr_matrix(X), y, random_state=0)
    assert sparse.issparse(logs.context)


def test_more_actions_than_labels():
    (X, y), actions = problem(n=20), [9, 0, 1, 2, 3]
    logs, rewards = make_logs_from_classification(X, y, actions=actions, random_state=0)
    assert_array_equal(logs.actions, actions)
    assert_array_equal(rewards[:, 0], 0.0)
    one, rewards = make_logs_from_classification(X, np.zeros(20, int), random_state=0)
    assert_allclose(one.propensity, 1.0)
    assert_array_equal(rewards, np.ones((20, 1)))


def test_bad_input():
    X, y = problem(n=20)
    for error, params, match in (
        (ValueError, {"logging": "random"}, "'random'"),
        (ValueError, {"logging": [0.5, 0.5]}, r"\(20, 4\)"),
        (ValueError, {"logging": [0.5, 0.5, 0.5, 0.5]}, "sum to 1"),
        (ValueError, {"logging": [-0.5, 0.5, 0.5, 0.5]}, "negative"),
        (ValueError, {"logging": 0.25}, "logging"),
        (ValueError, {"actions": [0, 1, 2]}, "not among actions"),
        (ValueError, {"y": np.zeros((20, 2, 2))}, "shape"),
        (ValueError, {"y": np.full((20, 2), 2)}, "row 0, column 0"),
        (ValueError, {"y": np.full((20, 2), "a")}, "MultiLabelBinarizer"),
        (ValueError, {"y": np.full(20, np.nan)}, "missing label"),
        (ValueError, {"y": np.zeros(0)}, "at least one row"),
        (ValueError, {"y": np.zeros((20, 2)), "actions": [1]}, "columns of y"),
        (ValueError, {"y": [0, 1]}, "20 rows"),
        (TypeError, {"logging": LogisticRegression()}, "Wrap it"),
        (ValueError, {"logging": ConstantPolicy(77)}, r"do not know: \[77\]"),
    ):
        with pytest.raises(error, match=match):
            make_logs_from_classification(X, **{"y": y, **params})


# Draws of a logger


class FixedUniforms(np.random.RandomState):
    """Gives the uniform numbers that it was told."""

    def __init__(self, u):
        super().__init__(0)
        self.u = np.asarray(u)

    def random_sample(self, size=None):
        assert size == len(self.u)
        return self.u


def drawn(proba, u):
    """Actions and propensities of a logger with these probabilities."""
    y, rng = np.arange(len(proba)) % proba.shape[1], u
    if not isinstance(u, int):
        rng = FixedUniforms(u)
    X = np.zeros((len(proba), 1))
    logs, _ = make_logs_from_classification(X, y, logging=proba, random_state=rng)
    return logs.action_index, logs.propensity


def test_inverse_of_the_cumulative_probabilities():
    proba = np.array([[0.2, 0.3, 0.5]] * 5)
    action, propensity = drawn(proba, [0.0, 0.19, 0.2, 0.51, 0.99])
    assert_array_equal(action, [0, 0, 1, 2, 2])
    assert_array_equal(propensity, [0.2, 0.2, 0.3, 0.5, 0.5])


@pytest.mark.parametrize("u", [0.0, 0.5, np.nextafter(1, 0)])
def test_impossible_actions_are_never_drawn(u):
    proba = [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 0.5, 0.5]]
    # 0.1 + 0.2 + 0.7 is not 1 in floating point
    proba = np.array([*proba, [0.5, 0.5, 0.0], [0.1, 0.2, 0.7], [0.7, 0.2, 0.1]])
    action, propensity = drawn(proba, [u] * len(proba))
    assert action.max() <= 2 and propensity.min() > 0


def test_frequencies(global_random_seed):
    proba = np.tile([0.05, 0.6, 0.0, 0.35], (20_000, 1))
    counts = np.bincount(drawn(proba, global_random_seed)[0], minlength=4)
    error = np.sqrt(len(proba) * proba[0] * (1 - proba[0]))
    assert (np.abs(counts - len(proba) * proba[0]) <= 4.5 * error).all()


# The demonstration


def test_the_demonstration_says_what_is_so(capsys):
    """Models are too high by many standard errors, weights are not."""
    assert main(["demo", "--json", "--random-state", "1"]) == 0
    report = json.loads(capsys.readouterr().out)
    X, y = load_classification("digits", return_X_y=True)
    order = np.random.RandomState(1).permutation(len(y))
    train, rest = order[:180], order[180:]  # the policy did not see what is logged
    policy = ClassifierPolicy(LogisticRegression(max_iter=1000))
    policy.fit(X[train] / 16, y[train])
    accuracy = policy.score(X[rest] / 16, y[rest])
    assert report["truth"] == pytest.approx(accuracy) and 0.8 < accuracy < 1
    assert f"{len(rest):,} handwritten digits" in report["about"]["log"]
    found = {one["evaluator"]: one for one in report["values"]}
    errors = {name: one["error"] / one["standard_error"] for name, one in found.items()}
    for name in ("DirectMethod", "DRos"):
        assert errors.pop(name) > 4
    assert set(errors) == {"IPS", "SNIPS", "DoublyRobust", "SNDR"}
    assert np.abs(list(errors.values())).max() < 4
    direct, shrunk = report["notes"]
    assert "used the label" in direct
    assert f"{found['DirectMethod']['error']:+.3f}" in direct
    assert f"DRos ({found['DRos']['error']:+.3f})" in shrunk

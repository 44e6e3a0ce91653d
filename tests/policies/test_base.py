# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn import config_context
from sklearn.model_selection import cross_validate

from skope_ope import (
    IPS,
    BanditLogs,
    ClassifierPolicy,
    IPSPolicy,
    PolicyScorer,
    UniformPolicy,
)
from skope_ope.base import BasePolicy
from skope_ope.policies._base import (
    check_some_available,
    explore,
    first_best,
    greedy,
    mostly,
    n_rows,
    restrict,
    row_max,
)

OFFERED = np.array([[True, True, False], [False, True, True]])


@pytest.mark.parametrize(
    ("scores", "best"),
    [
        ([0.1, 0.3, 0.2], 1),
        ([0.3, 0.1, 0.3], 0),  # the lowest index wins
        ([1.0, 1.0 + 1e-13, 0.0], 0),  # tied within 1e-12 of the maximum
        ([1.0, 1.0 + 1e-11, 0.0], 1),
        ([1e9, 1e9 * (1 + 1e-13), 0], 0),  # relative to it
        ([-1.0, -1.0 + 1e-13, -2.0], 0),
        ([-3.0, -1.0, -2.0], 1),
        ([-np.inf, -5.0, -np.inf], 1),
        ([-np.inf, -np.inf, 0.0], 2),
        ([0.0, 0.0, 0.0], 0),
    ],
)
def test_first_best(scores, best):
    assert first_best(np.array([scores, scores])).tolist() == [best, best]


def test_the_largest_of_every_row():
    rng = np.random.default_rng(0)
    for shape in [(3, 4), (200, 4), (200, 1), (200, 40)]:
        table = rng.normal(size=shape)
        assert_array_equal(row_max(table), table.max(axis=1))
        assert_array_equal(row_max(table > 1), (table > 1).any(axis=1))


def test_mostly_one_action():
    chosen = np.array([2, 0, 2, 1])
    expected = np.eye(3)[chosen] * 0.7 + 0.1
    assert_allclose(mostly(chosen, 3, 0.3), expected)
    assert_allclose(mostly(chosen[:2], 3, 0.3), expected[:2])  # fewer than actions


def test_greedy_runs_over_the_offered_actions():
    scores = np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])
    assert_array_equal(greedy(scores), [[0, 0, 1], [1, 0, 0]])
    assert_array_equal(greedy(scores, 0.0, OFFERED), [[0, 1, 0], [0, 1, 0]])


def test_exploration_runs_over_the_offered_actions():
    scores = np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])
    assert_allclose(greedy(scores, 0.3), [[0.1, 0.1, 0.8], [0.8, 0.1, 0.1]])
    assert_allclose(greedy(scores, 0.3, OFFERED), [[0.15, 0.85, 0], [0, 0.85, 0.15]])
    assert_allclose(explore(np.eye(3), 1.0), np.full((3, 3), 1 / 3))
    proba = np.eye(3)
    assert explore(proba, 0.0) is proba


def test_restrict_renormalises():
    proba = np.array([[0.2, 0.2, 0.6], [0.5, 0.1, 0.4]])
    assert_allclose(restrict(proba, OFFERED), [[0.5, 0.5, 0], [0, 0.2, 0.8]])
    assert restrict(proba, None) is proba


def test_restrict_refuses_a_policy_with_nothing_to_say():
    proba = np.array([[0.2, 0.2, 0.6], [1.0, 0.0, 0.0]])
    with pytest.raises(ValueError, match=r"every offered action at row 1 \(1 such"):
        restrict(proba, OFFERED)


def test_nothing_offered_is_refused():
    with pytest.raises(ValueError, match=r"offered at row 1 \(1 such rows\)"):
        check_some_available(np.array([[True], [False]]))
    check_some_available(OFFERED)


def test_rows_of_anything():
    for X in (np.zeros((3, 2)), sparse.eye(3), [[1], [2], [3]]):
        assert n_rows(X) == 3


class HalfPolicy(BasePolicy):
    def _proba(self, X, available):
        return restrict(np.full((n_rows(X), len(self.classes_)), 0.5), available)


def test_a_policy_of_ones_own():
    policy = HalfPolicy().fit(np.zeros((3, 1)), ["b", "a", "b"])
    assert policy.classes_.tolist() == ["a", "b"]
    assert_array_equal(policy.predict_proba([[1.0]]), [[0.5, 0.5]])
    assert policy.predict([[1.0], [2.0]]).tolist() == ["a", "a"]
    assert_array_equal(policy.predict_proba([[1.0]], [[False, True]]), [[0, 1]])


@pytest.mark.parametrize(
    "available",
    [[[True]], [True, True], [[1, 0]], [[True, True]] * 2, [["a", "b"]], None],
    ids=str,
)
def test_offers_must_fit_the_classes(available):
    policy = HalfPolicy().fit(np.zeros((2, 1)), ["a", "b"])
    if available is None:
        policy.predict_proba([[0.0]], available)
        return
    with pytest.raises(ValueError, match=r"boolean array of shape \(1, 2\)"):
        policy.predict_proba([[0.0]], available)


def test_logs_stand_for_their_context_and_offers():
    policy = HalfPolicy().fit(np.zeros((2, 1)), ["a", "b"])
    logs = BanditLogs(np.zeros((2, 1)), ["a", "b"], [1, 1])
    assert_array_equal(policy.predict_proba(logs), policy.predict_proba(logs.context))
    assert_array_equal(policy.predict(logs), policy.predict(logs.context))
    with pytest.raises(TypeError, match="beside BanditLogs, which hold their own"):
        policy.predict_proba(logs, np.ones((2, 2), dtype=bool))


def test_offers_are_matched_by_label():
    policy = UniformPolicy().fit(np.zeros((3, 1)), ["a", "b", "c"])
    offered = np.array([[True, False], [True, True]])
    logs = BanditLogs(
        np.zeros((2, 1)), ["c", "a"], [1, 1], actions=["c", "a"], available=offered
    )
    assert policy.predict_proba(logs).tolist() == [[0, 0, 1], [0.5, 0, 0.5]]
    assert policy.predict(logs).tolist() == ["c", "a"]
    policy = HalfPolicy().fit(np.zeros((3, 1)), ["a", "b"])
    assert policy.predict_proba(logs[1:], None).shape == (1, 2)


def test_a_policy_that_knows_no_actions_takes_those_of_the_logs():
    logs = BanditLogs(np.zeros((2, 1)), ["c", "a"], [1, 1])
    assert_array_equal(UniformPolicy().predict_proba(logs), np.full((2, 2), 0.5))
    assert UniformPolicy().predict(logs).tolist() == ["a", "a"]


def test_labels_are_needed():
    with pytest.raises(
        ValueError, match=r"HalfPolicy\.fit needs logs, .* y is missing"
    ):
        HalfPolicy().fit(np.zeros((2, 1)))


@pytest.mark.filterwarnings("ignore:scores of .* rest on few effective rounds")
@pytest.mark.parametrize("policy", [UniformPolicy(), ClassifierPolicy(), IPSPolicy()])
def test_metadata_routing_reads_the_methods_of_policies(policy):
    X = np.arange(40.0)[:, None] % 7
    logs = BanditLogs(X, [0, 1] * 20, X[:, 0] > 3, [0.5] * 40)
    options = {"scoring": PolicyScorer(IPS()), "cv": 2, "error_score": "raise"}
    options["params"] = {}  # old releases unpack it
    without = cross_validate(policy, logs, **options)["test_score"]
    with config_context(enable_metadata_routing=True):
        routed = cross_validate(policy, logs, **options)["test_score"]
    assert_array_equal(routed, without)

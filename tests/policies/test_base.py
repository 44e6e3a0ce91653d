# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Policies of one's own, and what all of them share; policies of the loggers."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.model_selection import cross_validate

from skope_ope import (
    IPS,
    BanditLogs,
    ClassifierPolicy,
    EpsilonGreedy,
    FunctionPolicy,
    IPSPolicy,
    MultiLoggerIPS,
    PolicyScorer,
    UniformPolicy,
)
from skope_ope.base import BasePolicy
from tests._quiet import quiet


class HalfPolicy(BasePolicy):
    """Takes every action, or every offered one, with the same probability."""

    def _proba(self, X, available):
        share = (
            np.ones((len(X), len(self.classes_))) if available is None else available
        )
        return share / share.sum(axis=1, keepdims=True)


def test_a_policy_of_ones_own():
    policy = HalfPolicy().fit(np.zeros((3, 1)), ["b", "a", "b"])
    assert policy.classes_.tolist() == ["a", "b"]
    assert_array_equal(policy.predict_proba([[1.0]]), [[0.5, 0.5]])
    assert policy.predict([[1.0], [2.0]]).tolist() == ["a", "a"]
    assert_array_equal(policy.predict_proba([[1.0]], [[False, True]]), [[0, 1]])
    for bad in ([[True]], [True, True], [[1, 0]], [[True, True]] * 2, [["a", "b"]]):
        with pytest.raises(ValueError, match=r"boolean array of shape \(1, 2\)"):
            policy.predict_proba([[0.0]], bad)
    # logs stand for their context and offers
    logs = BanditLogs(np.zeros((2, 1)), ["a", "b"], [1, 1])
    assert_array_equal(policy.predict_proba(logs), policy.predict_proba(logs.context))
    assert_array_equal(policy.predict(logs), policy.predict(logs.context))
    with pytest.raises(TypeError, match="beside BanditLogs, which hold their own"):
        policy.predict_proba(logs, np.ones((2, 2), dtype=bool))
    # labels are needed
    message = r"HalfPolicy\.fit needs logs, .* y is missing"
    with pytest.raises(ValueError, match=message):
        HalfPolicy().fit(np.zeros((2, 1)))


def test_offers_are_matched_by_label():
    policy = UniformPolicy().fit(np.zeros((3, 1)), ["a", "b", "c"])
    offered, given = (
        [[True, False], [True, True]],
        (np.zeros((2, 1)), ["c", "a"], [1, 1]),
    )
    logs = BanditLogs(*given, actions=["c", "a"], available=np.array(offered))
    assert policy.predict_proba(logs).tolist() == [[0, 0, 1], [0.5, 0, 0.5]]
    assert policy.predict(logs).tolist() == ["c", "a"]
    policy = HalfPolicy().fit(np.zeros((3, 1)), ["a", "b"])
    assert policy.predict_proba(logs[1:], None).shape == (1, 2)
    # a policy that knows no actions takes those of the logs
    logs = BanditLogs(*given)
    assert_array_equal(UniformPolicy().predict_proba(logs), np.full((2, 2), 0.5))
    assert UniformPolicy().predict(logs).tolist() == ["a", "a"]


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


# Policies of the loggers of a log
N = 60


def tilted(slope):
    def proba(X):
        p = 1 / (1 + np.exp(-slope * np.asarray(X)[:, 0]))
        return np.column_stack([p, 1 - p])

    return FunctionPolicy(proba)


POLICIES = {"a": tilted(1.0), "b": UniformPolicy(), "c": tilted(-2.0)}


def unknown_propensities(**fields):
    rng = np.random.RandomState(0)
    arguments = {
        "context": rng.normal(size=(N, 2)),
        "action": rng.randint(0, 2, N),
        "reward": rng.random_sample(N),
        "actions": [0, 1],
        "logger": np.array(["a", "b", "c"])[np.arange(N) % 3],
        **fields,
    }
    return BanditLogs(**arguments)


def expected(logs):
    columns = [POLICIES[k].func(logs.context) for k in ("a", "c")]
    columns.insert(1, np.full((N, 2), 0.5))
    return np.column_stack([c[np.arange(N), logs.action] for c in columns])


def test_probabilities_of_all_loggers():
    logs = unknown_propensities()
    found = logs.with_logger_policies(dict(reversed(POLICIES.items())))
    proba = expected(logs)
    assert_allclose(found.logger_proba, proba)
    assert_allclose(found.propensity, proba[np.arange(N), logs.logger_index])
    assert found.row_id == logs.row_id
    assert logs.logger_proba is None
    assert logs.propensity is None
    pi = np.full((N, 2), 0.5)
    for pooling in ("naive", "balanced", "weighted"):
        evaluator = MultiLoggerIPS(pooling=pooling).fit(found)
        assert np.isfinite(quiet(evaluator, pi).value)
    # arrays columns and objects
    whole = POLICIES["c"].func(logs.context)
    logs = logs.with_columns(third=whole)
    given = {"a": proba[:, 0], "b": np.full((N, 2), 0.5), "c": "third"}
    assert_allclose(logs.with_logger_policies(given).logger_proba, proba)
    # a policy that did not act
    never = np.tile([1.0, 0.0], (N, 1))
    logs = unknown_propensities()
    row = int(np.flatnonzero((logs.logger == "b") & (logs.action == 1))[0])
    with pytest.raises(ValueError, match=rf"logger 'b' gives .* at row {row} "):
        logs.with_logger_policies({**POLICIES, "b": never})


def test_chunks_do_not_matter():
    """A table of all probabilities would have more entries than are asked at once."""
    action, labels = np.arange(6000) % 200, np.arange(200)
    fields = {"actions": labels, "logger": np.arange(6000) % 2}
    logs = BanditLogs(np.zeros((6000, 1)), action, np.ones(6000), **fields)
    whole = np.random.RandomState(0).dirichlet(np.ones(200), 6000)
    found = logs.with_logger_policies({0: UniformPolicy(), 1: whole})
    assert_allclose(found.logger_proba[:, 0], 1 / 200)
    logged = whole[np.arange(6000), logs.action_index]
    assert_array_equal(found.logger_proba[:, 1], logged)


def test_recorded_propensities_must_agree():
    proba = expected(unknown_propensities())
    own = proba[np.arange(N), np.arange(N) % 3]
    logs = unknown_propensities(propensity=own).with_logger_policies(POLICIES)
    assert_array_equal(logs.propensity, own)
    own = own.copy()
    own[4] = 0.9
    with pytest.raises(ValueError, match=r"0\.9 at row 4 contradicts the po"):
        unknown_propensities(propensity=own).with_logger_policies(POLICIES)


def test_bad_policies():
    for policies, error, match in (
        ([UniformPolicy()], TypeError, "dict of policies"),
        ({"a": UniformPolicy()}, ValueError, "'b' has no policy"),
        (POLICIES | {"d": UniformPolicy()}, ValueError, "'d' is not a logger"),
        (POLICIES | {"b": EpsilonGreedy()}, TypeError, r"'b', EpsilonGreedy, learns"),
        (POLICIES | {"b": np.full((N, 2), 0.4)}, ValueError, r"'b' must sum to 1"),
        (POLICIES | {"b": np.full((3, 2), 0.5)}, ValueError, "belongs to the rows"),
        (POLICIES | {"b": "nowhere"}, ValueError, "not a column"),
        (POLICIES | {"b": np.full(N, -0.5)}, ValueError, r"probability -0.5 to "),
        (POLICIES | {"b": np.full(N, 1.5)}, ValueError, r"must lie in .*got 1.5"),
    ):
        with pytest.raises(error, match=match):
            unknown_propensities().with_logger_policies(policies)
    nameless = BanditLogs(np.zeros((2, 1)), [0, 1], [0.0, 1.0])
    with pytest.raises(ValueError, match="the logs have no logger"):
        nameless.with_logger_policies(POLICIES)

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

from unittest.mock import patch

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope import (
    BanditLogs,
    EpsilonGreedy,
    FunctionPolicy,
    MultiLoggerIPS,
    UniformPolicy,
)
from skope_ope.policies import _logger_policies

N = 60


def tilted(slope):
    def proba(X):
        p = 1 / (1 + np.exp(-slope * np.asarray(X)[:, 0]))
        return np.column_stack([p, 1 - p])

    return FunctionPolicy(proba)


POLICIES = {"a": tilted(1.0), "b": UniformPolicy(), "c": tilted(-2.0)}


def unknown(**fields):
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
    logs = unknown()
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
        assert np.isfinite(evaluator._result(pi, None, None).value)


def test_arrays_columns_and_objects():
    logs = unknown()
    proba = expected(logs)
    whole = POLICIES["c"].func(logs.context)
    logs = logs.with_columns(third=whole)
    given = {"a": proba[:, 0], "b": np.full((N, 2), 0.5), "c": "third"}
    assert_allclose(logs.with_logger_policies(given).logger_proba, proba)


def test_chunks_do_not_matter():
    logs = unknown()
    whole = {**POLICIES, "b": np.full((N, 2), 0.5)}
    with patch.object(_logger_policies, "CHUNK_ENTRIES", 14):
        found = logs.with_logger_policies(whole)
    assert_array_equal(found.logger_proba, expected(logs))


def test_recorded_propensities_must_agree():
    proba = expected(unknown())
    own = proba[np.arange(N), np.arange(N) % 3]
    logs = unknown(propensity=own).with_logger_policies(POLICIES)
    assert_array_equal(logs.propensity, own)
    own = own.copy()
    own[4] = 0.9
    with pytest.raises(ValueError, match=r"0\.9 at row 4 contradicts the po"):
        unknown(propensity=own).with_logger_policies(POLICIES)


def test_a_policy_that_did_not_act():
    never = np.tile([1.0, 0.0], (N, 1))
    logs = unknown()
    row = int(np.flatnonzero((logs.logger == "b") & (logs.action == 1))[0])
    with pytest.raises(ValueError, match=rf"logger 'b' gives .* at row {row} "):
        logs.with_logger_policies({**POLICIES, "b": never})


@pytest.mark.parametrize(
    ("policies", "error", "match"),
    [
        ([UniformPolicy()], TypeError, "dict of policies"),
        ({"a": UniformPolicy()}, ValueError, "'b' has no policy"),
        ({**POLICIES, "d": UniformPolicy()}, ValueError, "'d' is not a logger"),
        ({**POLICIES, "b": EpsilonGreedy()}, TypeError, r"'b', EpsilonGreedy, learns"),
        ({**POLICIES, "b": np.full((N, 2), 0.4)}, ValueError, r"'b' must sum to 1"),
        ({**POLICIES, "b": np.full((3, 2), 0.5)}, ValueError, "belongs to the rows"),
        ({**POLICIES, "b": "nowhere"}, ValueError, "not a column"),
        ({**POLICIES, "b": np.full(N, -0.5)}, ValueError, r"probability -0.5 to "),
        (
            {**POLICIES, "b": np.full(N, 1.5)},
            ValueError,
            r"must lie in .*got 1.5",
        ),
    ],
)
def test_bad_policies(policies, error, match):
    with pytest.raises(error, match=match):
        unknown().with_logger_policies(policies)


def test_bad_logs():
    nameless = BanditLogs(np.zeros((2, 1)), [0, 1], [0.0, 1.0])
    with pytest.raises(ValueError, match="the logs have no logger"):
        nameless.with_logger_policies(POLICIES)

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest

from skope_ope import BanditLogs, audit
from skope_ope.audit._logger_findings import exploration_findings


def logs_of(slope, n=2000, seed=0, **fields):
    rng = np.random.RandomState(seed)
    X = rng.randn(n, 2)
    action = (rng.random_sample(n) < 1 / (1 + np.exp(-slope * X[:, 0]))).astype(int)
    return BanditLogs(X, action, rng.random_sample(n), **fields)


def test_a_logger_that_looks_at_the_context_is_noted():
    facts, (one,) = exploration_findings(logs_of(1.0))
    assert one.severity == "note" and one.name == "context_tells_actions"
    assert one.number > 4 and one.effect > 0.05
    assert "with PropensityEstimator" in one.text
    assert (
        "the context predicts the actions (z = " in facts["actions against the context"]
    )


def test_a_weak_dependence_is_told_as_such():
    for seed in range(20):
        _, found = exploration_findings(logs_of(0.22, seed=seed))
        if found and found[0].number < 4:
            assert "The context seems to predict the logged actions" in found[0].found
            return
    raise AssertionError("no log of a weak dependence")


def test_a_logger_that_does_not_look():
    for seed in range(4):
        facts, found = exploration_findings(logs_of(0.0, seed=seed))
        assert not found
        assert "no classifier" in facts["actions against the context"]


def test_loggers_are_asked_one_by_one():
    one, two = logs_of(1.0), logs_of(0.0, seed=1)
    logs = BanditLogs(
        np.vstack([one.context, two.context]),
        np.r_[one.action, two.action],
        np.zeros(4000),
        logger=np.repeat(["looks", "blind"], 2000),
    )
    facts, (found,) = exploration_findings(logs)
    assert "of logger 'looks'" in found.found
    assert "LoggerPropensityEstimator" in found.text
    assert set(facts) == {
        "actions against the context of logger 'looks'",
        "actions against the context of logger 'blind'",
    }


@pytest.mark.parametrize("n", [1, 5])
def test_nothing_to_ask(n):
    facts, found = exploration_findings(logs_of(1.0, n=n))
    assert not found and "nothing to test" in facts["actions against the context"]
    known = logs_of(0.0, n=n, propensity=np.full(n, 0.5))
    assert exploration_findings(known) == ({}, [])


def test_the_audit_asks_and_does_not_ring():
    found = audit(logs_of(1.0))
    assert "context_tells_actions" in {one.name for one in found.findings}
    assert "context_tells_actions" not in {one.name for one in found.alarms}

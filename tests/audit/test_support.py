# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What the policy wants and the log does not hold, by action and by logger."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import BanditLogs, ConstantPolicy, FunctionPolicy
from skope_ope.audit._policy_checks import PolicyRounds
from skope_ope.audit._support import support_of
from tests.audit._rounds import names, softmax_logs

LOGS, MU = softmax_logs()


def support(policy, logs):
    return support_of(PolicyRounds(policy, logs))


def test_a_policy_within_the_logs():
    facts, found = support(np.roll(MU, 1, axis=1), LOGS)
    assert found == []
    assert facts["unsupported mass"] == 0
    table = facts["actions of the policy"]
    assert sum(table["policy's share"]) == pytest.approx(1)
    assert sum(table["rounds"]) == len(LOGS)
    assert_allclose(table["policy's share"], sorted(table["policy's share"])[::-1])


def test_actions_that_were_never_logged_are_named():
    labels = ["a", "b", "c", "d", "e", "f"]
    logs = BanditLogs(
        LOGS.context,
        np.array(labels)[LOGS.action_index],
        LOGS.reward,
        LOGS.propensity,
        actions=labels,
    )
    pi = np.tile([0.3, 0.1, 0.1, 0.1, 0.05, 0.35], (len(logs), 1))
    for one in (logs, logs.replace(propensity=None)):
        facts, [found] = support(pi, one)
        assert facts["unsupported mass"] == pytest.approx(0.4)
        assert names([found]) == [("unsupported_mass", "warning")]
        assert found.actions == ("f", "e")
        assert (found.number, found.effect) == pytest.approx((0.4, 0.4))
    # a share that moves nothing is a note
    pi = np.tile([0.9996, 1e-4, 1e-4, 1e-4, 1e-4, 0.0], (len(logs), 1))
    _, [found] = support(pi, logs)
    assert names([found]) == [("unsupported_mass", "note")]


def test_mass_beyond_reach_needs_the_whole_law():
    sharp, mu = softmax_logs(scale=3.0)
    uniform = np.full(mu.shape, 0.25)
    facts, _ = support(uniform, sharp)
    assert "mass beyond weight sqrt(n)" not in facts
    facts, found = support(uniform, sharp.replace(logging_proba=mu))
    beyond = (0.25 * (np.sqrt(2000) * mu < 0.25)).sum(axis=1).mean()
    assert facts["mass beyond weight sqrt(n)"] == pytest.approx(beyond)
    assert beyond > 0.05
    assert names(found) == [("out_of_reach", "note")]
    # the estimates miss about that, or have it from a few rounds
    assert support(mu, sharp.replace(logging_proba=mu))[1] == []


def test_an_array_of_the_logged_actions_does_not_tell():
    facts, found = support(np.full(len(LOGS), 0.25), LOGS)
    assert found == []
    assert "not known" in facts["unsupported mass"]
    assert "actions of the policy" not in facts


def test_loggers_apart():
    who = np.where(np.arange(len(LOGS)) % 4 == 0, "new", "old")
    logs, _ = softmax_logs(logger=who)
    facts, _ = support(np.roll(MU, 1, axis=1), logs)
    table = facts["loggers and the policy"]
    assert table["logger"] == ["new", "old"]
    assert table["rounds"] == [500, 1500]
    w = PolicyRounds(np.roll(MU, 1, axis=1), LOGS).w[who == "new"]
    assert table["effective rounds"][0] == pytest.approx(w.sum() ** 2 / (w @ w))
    assert table["mean weight"][0] == pytest.approx(w.mean())


def test_a_rule_that_takes_one_action_in_all_rounds():
    misspelt = FunctionPolicy(lambda X: np.where(X[:, 0] > 99, 1, 2))
    logs = LOGS
    _, [found] = support(misspelt, logs)
    assert names([found]) == [("one_action", "note")]
    assert found.actions == (2,)
    assert found.text.startswith("The policy takes action 2 in all rounds. If its rule")
    sometimes = FunctionPolicy(lambda X: np.where(X[:, 0] > 0, 1, 2))
    always = ConstantPolicy(2)
    array = np.tile([0.0, 0.0, 1.0, 0.0], (len(logs), 1))
    for policy in (sometimes, always, array):
        assert support(policy, logs)[1] == []

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Weights of a policy: what is seen in their sums, and what these miss."""

import numpy as np
import pytest

from skope_ope.audit._policy_checks import PolicyRounds, weights_of_policy
from tests.audit._rounds import names, softmax_logs

LOGS, MU = softmax_logs()
OTHER = np.roll(MU, 1, axis=1)


def test_the_facts():
    facts, found = weights_of_policy(PolicyRounds(OTHER, LOGS))
    w = OTHER[np.arange(2000), LOGS.action_index] / LOGS.propensity
    assert found == []
    assert facts["effective sample size"] == pytest.approx(w.sum() ** 2 / (w @ w))
    assert facts["largest weight"] == w.max()
    assert facts["mean weight"] == pytest.approx(w.mean())
    assert facts["policy's mass on weights above 20"] == (w * (w > 20)).mean()
    top = np.sort(w * LOGS.reward)[-20:].sum() / (w @ LOGS.reward)
    share = facts["share of the largest 1% of weighted rewards"]
    assert share == pytest.approx(top)


def test_an_effective_size_does_not_see_a_heavy_tail():
    rng = np.random.RandomState(3)
    logs = LOGS.replace(reward=rng.pareto(0.6, 2000))
    facts, found = weights_of_policy(PolicyRounds(MU, logs))
    assert facts["effective share"] == pytest.approx(1)  # it knows no rewards
    assert facts["tail shape of weighted rewards"] > 0.9
    assert names(found) == [("heavy_tail", "warning")]


def test_a_policy_that_copied_the_log():
    copied = np.eye(4)[LOGS.action_index]
    for policy in (copied, np.ones(2000)):
        _, found = weights_of_policy(PolicyRounds(policy, LOGS))
        assert ("mean_weight", "error") in names(found)


def test_nothing_to_weigh():
    never, _ = softmax_logs(actions=range(5))
    pi = np.tile([0, 0, 0, 0, 1.0], (2000, 1))
    facts, found = weights_of_policy(PolicyRounds(pi, never))
    assert names(found) == [("low_overlap", "error")]
    assert "tail shape of weighted rewards" not in facts
    nothing = LOGS.replace(reward=np.zeros(2000))
    facts, found = weights_of_policy(PolicyRounds(OTHER, nothing))
    assert found == []
    assert np.isnan(facts["share of the largest 1% of weighted rewards"])
    assert "not estimated" in facts["tail shape of weighted rewards"]


def test_a_weight_that_no_float_holds():
    p = LOGS.propensity.copy()
    p[7] = 1e-150
    _, found = weights_of_policy(PolicyRounds(OTHER, LOGS.replace(propensity=p)))
    assert names(found) == [("impossible_propensity", "error")]
    assert found[0].rows == (7,)

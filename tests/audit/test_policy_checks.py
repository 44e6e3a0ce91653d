# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""An audit of a policy takes what evaluators take, and says what it cannot check."""

import warnings

import numpy as np
import pytest

from skope_ope import (
    BanditLogs,
    ClassifierPolicy,
    ConstantPolicy,
    EpsilonGreedy,
    UniformPolicy,
    audit,
)
from skope_ope.audit._policy_checks import policy_findings
from tests.audit._rounds import names, softmax_logs

LOGS, MU = softmax_logs(scale=0.5)
OTHER = np.roll(MU, 1, axis=1)
WEIGHTS = "weights of the policy"


def checked(policy, logs, random_state=0):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return policy_findings(policy, logs, random_state)


@pytest.mark.parametrize(
    "policy", [OTHER, UniformPolicy(), "pi", "p_logged", np.full(2000, 0.25)], ids=str
)
def test_policies_of_all_kinds(policy):
    p_logged = OTHER[np.arange(2000), LOGS.action_index]
    logs = LOGS.with_columns(pi=OTHER, p_logged=p_logged)
    facts, found = checked(policy, logs)
    assert found == []
    assert facts["effective sample size"] > 100
    assert "balance of the context" in facts


def test_what_a_check_cannot_do_it_says():
    facts, found = checked(OTHER, LOGS.replace(propensity=None))
    assert (facts[WEIGHTS], found) == ("not possible: no propensities", [])
    with pytest.raises(TypeError, match="EpsilonGreedy learns while it acts"):
        checked(EpsilonGreedy(), LOGS)
    # the sentence says how, and so it goes
    frozen = EpsilonGreedy().fit(LOGS).frozen(explore=True)
    assert "effective sample size" in checked(frozen, LOGS)[0]


def test_rounds_that_the_policy_has_learned_from():
    policy = ClassifierPolicy(epsilon=0.2).fit(LOGS[:1000])
    assert checked(policy, LOGS[1000:])[1] == []
    _, found = checked(policy, LOGS)
    assert ("learned_rounds", "error") in names(found)
    one = next(one for one in found if one.name == "learned_rounds")
    assert one.number == 0.5
    assert "train_test_split" in one.text


@pytest.mark.parametrize("n", [1, 2, 5])
def test_few_rounds(n):
    facts, _ = checked(OTHER[:n], LOGS[:n])
    assert facts["effective sample size"] <= n + 1e-9


def test_logs_without_anything_to_see():
    one = BanditLogs(np.zeros((50, 0)), np.zeros(50), np.zeros(50), np.ones(50))
    facts, found = checked(UniformPolicy(), one)
    assert found == []
    assert facts["mean weight"] == 1


def test_many_actions():
    rng = np.random.RandomState(0)
    n, k = 300, 100_000
    p = np.full(n, 1 / k)
    logs = BanditLogs(
        rng.normal(size=(n, 2)), rng.randint(k, size=n), np.ones(n), p, actions=range(k)
    )
    facts, found = checked(UniformPolicy(), logs)
    assert names(found) == [("unsupported_mass", "note")]  # all weights are one
    assert facts["unsupported mass"] > 0.99 and facts["mean weight"] == 1
    _, found = checked(ConstantPolicy(k - 1), logs)
    assert ("low_overlap", "error") in names(found)
    assert ("unsupported_mass", "warning") in names(found)


def test_the_audit_runs_them():
    copied = np.eye(4)[LOGS.action_index]
    found = audit(copied, LOGS)
    assert "mean_weight" in [one.name for one in found.alarms]
    assert audit(OTHER, LOGS).facts["effective sample size"] > 100
    first = str(found).index("[error] mean_weight")
    assert first < str(found).index("values by clipping")


@pytest.mark.thorough
def test_right_logs_are_quiet():
    for seed in range(20):
        for scale in (0.2, 0.4):
            for n in (300, 1000):
                logs, mu = softmax_logs(n, scale=scale, seed=seed)
                flat = np.sqrt(mu)
                flat /= flat.sum(axis=1, keepdims=True)
                for policy in (UniformPolicy(), mu, flat):
                    _, found = checked(policy, logs)
                    assert [one for one in found if one.is_alarm] == []

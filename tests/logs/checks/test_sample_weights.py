# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Probabilities of being kept are told from their inverses."""

import warnings

import numpy as np
import pytest

from skope_ope import IPS, BanditLogs, audit, evaluate
from skope_ope.exceptions import LogsWarning
from skope_ope.logs.checks import _propensity_findings
from tests.logs.checks._found import world

NAME = "kept_share_as_weight"


def kept(share_of, seed=0, n_rounds=3000, **fields):
    """Columns of the rounds that were kept, and the probability of that."""
    x, _, action, p = world(n_rounds, seed)
    rng = np.random.default_rng(seed + 1000)
    reward = (rng.random(n_rounds) < 0.1 + 0.1 * (action == 0)).astype(float)
    share = share_of(x, action, reward, rng)
    some = rng.random(n_rounds) < share
    columns = (column[some] for column in (x, action, reward, p))
    return BanditLogs(*columns, actions=range(4), **fields), share[some]


KEPT = {
    "by reward": lambda x, a, r, rng: np.where(r > 0, 1.0, 0.2),
    "most by reward": lambda x, a, r, rng: np.where(r > 0, 1.0, 0.02),
    "by action": lambda x, a, r, rng: np.array([1.0, 0.5, 0.3, 0.8])[a],
}


def by_context(x, action, reward, rng):
    return np.where(x[:, 0] > 0, 0.9, 0.3)


def of_kept_shares(logs):
    found = _propensity_findings.tested_propensities(logs)[1]
    return [one for one in found if one.name == NAME]


@pytest.mark.few_cases
@pytest.mark.parametrize("how", KEPT)
def test_probabilities_of_being_kept_are_told(how):
    for seed in range(20):
        logs, share = kept(KEPT[how], seed)
        [found] = of_kept_shares(logs.replace(sample_weight=share))
        assert found.severity == "error"
        assert "1 / sample_weight" in found.text


@pytest.mark.few_cases
@pytest.mark.parametrize("how", [*KEPT, "by context"])
def test_right_weights_are_quiet(how):
    for seed in range(40):
        logs, share = kept(KEPT.get(how, by_context), seed, 1000)
        right = 1 / share
        for weight in (right, right / right.mean()):
            assert of_kept_shares(logs.replace(sample_weight=weight)) == []
        if "reward" not in how:
            largest = logs.replace(sample_weight=right / right.max())
            assert of_kept_shares(largest) == []


def test_weights_that_say_nothing_are_quiet():
    for seed in range(40):
        logs, _ = kept(lambda x, a, r, rng: np.ones(len(x)), seed, 500)
        random = np.random.default_rng(seed)
        for weight in (
            np.full(len(logs), 0.5),
            random.lognormal(size=len(logs)),
            random.uniform(0.05, 1, len(logs)),
            (random.random(len(logs)) < 0.5).astype(float),
        ):
            assert of_kept_shares(logs.replace(sample_weight=weight)) == []


def test_audits_and_values_tell_it():
    logs, share = kept(KEPT["by reward"])
    logs = logs.replace(sample_weight=share)
    assert NAME in [one.name for one in audit(logs).alarms]
    bare = logs.replace(propensity=None)
    assert NAME in [one.name for one in audit(bare).alarms]
    policy = np.full((len(logs), 4), 0.25)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        IPS().fit(logs).score(policy)
        assert "sample_weight seems to hold" in str(evaluate(policy, logs))
    assert any(isinstance(one.message, LogsWarning) for one in caught)

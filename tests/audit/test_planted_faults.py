# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Planted faults are told by the call that the guide names, right logs are quiet."""

import warnings

import numpy as np
import pytest

from skope_ope import audit, evaluate
from skope_ope.exceptions import ModelErrorWarning
from tests._faults import FAULTS, RIGHT_LOGS, SEEN_BY, UNSEEN, faulty, right

SEEDS = range(20)


def warned(policy, logs):
    """What `evaluate` warns of, but for the fit of its reward models."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        evaluate(policy, logs)
    told = [one.message for one in caught]
    return [str(one) for one in told if not isinstance(one, ModelErrorWarning)]


def names(found):
    return [one.name for one in found.alarms]


CALLS = {
    "evaluate": lambda logs, policy: warned(policy, logs),
    "audit": lambda logs, policy: names(audit(logs)),
}


def all_alarms(logs, policy):
    """What all three calls tell: an audit with a policy tells all of one without."""
    return [*names(audit(policy, logs)), *warned(policy, logs)]


def test_every_fault_is_told_by_some_call():
    assert set(SEEN_BY) == set(FAULTS)
    assert set(SEEN_BY.values()) == {*CALLS, "BanditLogs"}
    assert not set(FAULTS) & set(UNSEEN)


@pytest.mark.few_cases(8)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_told(fault):
    if SEEN_BY[fault] == "BanditLogs":
        with pytest.raises(ValueError, match="propensity must lie in"):
            faulty(fault, 2000, seed=0)
    else:
        assert CALLS[SEEN_BY[fault]](*faulty(fault, 2000, seed=0))


@pytest.mark.few_cases(7)
@pytest.mark.parametrize("world", RIGHT_LOGS)
def test_a_right_log_raises_no_alarm(world):
    assert all_alarms(*right(world, 2000, seed=0)) == []


@pytest.mark.theory
@pytest.mark.parametrize("sharp", [1, 3])
@pytest.mark.parametrize("fault", [name for name in FAULTS if name != "-log p"])
def test_planted_faults_are_told_in_most_logs(fault, sharp):
    # of 20 logs at least 16: where 95% are told this fails once in 400 times
    call = CALLS[SEEN_BY[fault]]
    told = [bool(call(*faulty(fault, 3000, seed, sharp))) for seed in SEEDS]
    assert np.sum(told) >= 16


@pytest.mark.theory
@pytest.mark.parametrize("world", RIGHT_LOGS)
def test_right_logs_raise_no_alarm_in_nearly_all(world):
    # at most 1 of 20: where one in a hundred raises an alarm it fails once in 60 times
    told = [all_alarms(*right(world, 3000, seed)) for seed in SEEDS]
    assert sum(map(bool, told)) <= 1, told

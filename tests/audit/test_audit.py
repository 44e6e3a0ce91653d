# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest

from skope_ope import BanditLogs, UniformPolicy, audit
from skope_ope.datasets import make_bandit_logs, make_slate_logs

LOGS = make_bandit_logs(n_rounds=400, random_state=0)


def test_the_two_calls_and_the_method_agree():
    policy = UniformPolicy()
    assert audit(LOGS).to_dict() == LOGS.audit().to_dict()
    assert audit(policy, LOGS).to_dict() == LOGS.audit(policy).to_dict()


def test_a_policy_adds_facts_to_those_of_the_log():
    alone, both = audit(LOGS).facts, audit(UniformPolicy(), LOGS).facts
    assert alone.keys() < both.keys()


def test_the_same_rounds_are_drawn_every_time():
    assert audit(LOGS).to_dict() == audit(LOGS, random_state=0).to_dict()


def test_slates_are_audited():
    logs = make_slate_logs(n_rounds=300, random_state=0)
    found = audit(logs)
    assert found.facts["rounds"] == 300
    assert found.ok


def test_arguments_in_the_wrong_order_are_named():
    with pytest.raises(TypeError, match="Policies come before logs"):
        audit(LOGS, LOGS)
    with pytest.raises(TypeError, match=r"audit\(policies, logs\), or audit\(logs\)"):
        audit(UniformPolicy())
    with pytest.raises(TypeError, match="got ndarray"):
        audit(UniformPolicy(), np.zeros((3, 2)))


def test_no_rounds_are_refused():
    with pytest.raises(ValueError, match="audit needs at least one round"):
        audit(LOGS[:0])


def test_one_round_is_enough():
    logs = BanditLogs(np.zeros((1, 2)), ["a"], [1.0], [0.5])
    assert audit(logs).facts["rounds"] == 1
    assert audit(UniformPolicy(), logs).facts["rounds"] == 1

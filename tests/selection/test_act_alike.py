# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest

from skope_ope import (
    BanditLogs,
    ConstantPolicy,
    EpsilonGreedy,
    UniformPolicy,
    UniformSlatePolicy,
)
from skope_ope.datasets import make_bandit_logs, make_slate_logs
from skope_ope.selection import _compare_policies as _act_alike
from skope_ope.selection._compare_policies import act_alike


@pytest.fixture(scope="module")
def logs():
    return make_bandit_logs(50, logging_temperature=np.inf, random_state=0)


@pytest.mark.parametrize("block", [7, 4096])
def test_two_policies(logs, block, monkeypatch):
    monkeypatch.setattr(_act_alike, "ACTS_BLOCK", block)
    table = np.full((50, logs.n_actions), 1 / logs.n_actions)
    assert act_alike(UniformPolicy(), UniformPolicy(), logs)
    assert act_alike(table, UniformPolicy(), logs)
    assert act_alike(table[:, 0], UniformPolicy(), logs)  # of the logged actions
    table[49] = [1.0, 0.0, 0.0]  # one round is enough
    assert not act_alike(table, UniformPolicy(), logs)
    assert not act_alike(table, ConstantPolicy(logs.actions[0]).fit(logs), logs)


def test_the_logger(logs):
    assert act_alike(UniformPolicy(), None, logs)
    assert not act_alike(ConstantPolicy(logs.actions[0]).fit(logs), None, logs)
    bare = BanditLogs(logs.context, logs.action, logs.reward, logs.propensity)
    assert bare.logging_proba is None and act_alike(UniformPolicy(), None, bare)
    assert not act_alike(ConstantPolicy(logs.actions[0]).fit(logs), None, bare)


def test_what_is_not_known(logs):
    bare = BanditLogs(logs.context, logs.action, logs.reward)
    assert not act_alike(UniformPolicy(), None, bare)
    assert not act_alike(EpsilonGreedy(1.0), UniformPolicy(), logs)
    slates = make_slate_logs(20, logging="uniform", random_state=0)
    policy = UniformSlatePolicy(slates.n_slots)
    assert not act_alike(policy, policy, slates)

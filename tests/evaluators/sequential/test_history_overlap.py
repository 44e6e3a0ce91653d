# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

"""Wrong propensities are as loud for sequential evaluators as for static ones."""

import warnings

import numpy as np
import pytest

from skope_ope import (
    IPS,
    BanditLogs,
    ConstantPolicy,
    DRns,
    EpsilonGreedy,
    RejectionSampling,
    Replay,
    UniformPolicy,
)
from skope_ope.datasets import make_bandit_logs
from skope_ope.exceptions import OPEWarning, PropensityWarning

SEQUENTIAL = [RejectionSampling(random_state=0), DRns(random_state=0)]


def evaluated(evaluator, logs, policy):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)
        return evaluator.fit(logs).evaluate(policy)


def loud(result):
    return [w for w in result.warnings if type(w) is PropensityWarning]


@pytest.fixture
def logs(global_random_seed):
    return make_bandit_logs(3000, random_state=global_random_seed)


@pytest.mark.parametrize("evaluator", SEQUENTIAL, ids=str)
def test_wrong_propensities_warn_as_those_of_ips_do(evaluator, logs):
    wrong = logs.replace(propensity=np.sqrt(logs.propensity))
    static = evaluated(IPS(), wrong, UniformPolicy())
    assert {str(w) for w in loud(static)} <= {
        str(w) for w in loud(evaluated(evaluator, wrong, UniformPolicy()))
    }
    assert loud(static)
    assert loud(evaluated(evaluator, wrong, EpsilonGreedy()))


@pytest.mark.parametrize("evaluator", SEQUENTIAL, ids=str)
@pytest.mark.parametrize("policy", [UniformPolicy(), EpsilonGreedy()], ids=str)
def test_right_ones_do_not(evaluator, policy, logs):
    assert not [
        w
        for w in loud(evaluated(evaluator, logs, policy))
        if "acceptance" not in str(w)
    ]


def test_the_history_of_a_policy_that_always_does_the_same(logs):
    """Its weights are those of the stationary policy."""
    constant = EpsilonGreedy(epsilon=1.0)
    ours = evaluated(DRns(random_state=0), logs, constant)
    static = evaluated(IPS(), logs, UniformPolicy())
    assert ours.effective_sample_size == pytest.approx(static.effective_sample_size)
    fixed = evaluated(DRns(random_state=0), logs, UniformPolicy())
    assert fixed.effective_sample_size == pytest.approx(static.effective_sample_size)
    assert "unsupported_mass" in fixed.diagnostics
    assert "unsupported_mass" not in ours.diagnostics


def test_a_constant_propensity_that_is_wrong(logs):
    wrong = logs.replace(propensity=np.full(3000, 1 / 3))
    skewed = wrong[(logs.action_index > 0) | (np.arange(3000) % 2 == 0)]
    for evaluator in (*SEQUENTIAL, Replay(random_state=0)):
        for policy in (EpsilonGreedy(), ConstantPolicy(logs.actions[0])):
            assert loud(evaluated(evaluator, skewed, policy))


def test_actions_that_are_never_logged_lower_the_mean_weight_of_a_history():
    n = 2000
    logs = BanditLogs(
        np.zeros((n, 1)), np.zeros(n), np.ones(n), np.ones(n), actions=[0, 1]
    )
    result = evaluated(DRns(random_state=0), logs, EpsilonGreedy(epsilon=0.9))
    assert not loud(result)

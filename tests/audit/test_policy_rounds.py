# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import UniformPolicy
from skope_ope.audit._policy_checks import PolicyRounds
from tests.audit._rounds import softmax_logs

LOGS, MU = softmax_logs(n=700, scale=3.0)
PI = np.roll(MU, 1, axis=1)
OMEGA = np.random.RandomState(0).choice([0.0, 1.0, 2.0], 700)


@pytest.mark.parametrize("weighted", [False, True])
def test_what_a_policy_does(weighted):
    logs = LOGS.replace(logging_proba=MU)
    omega = np.ones(700)
    if weighted:
        logs, omega = logs.replace(sample_weight=OMEGA), OMEGA
    enter = omega > 0
    share = omega[enter] / omega[enter].mean()
    rounds = PolicyRounds(PI, logs)
    w = PI[np.arange(700), LOGS.action_index] / LOGS.propensity
    assert_allclose(rounds.w, w[enter])
    assert_allclose(rounds.counted, (w[enter] * share))
    assert_allclose(rounds.wanted, (share[:, None] * PI[enter]).mean(axis=0))
    n = np.count_nonzero(enter)
    beyond = np.where(np.sqrt(n) * MU < PI, PI, 0.0).sum(axis=1)[enter]
    assert rounds.unreached == pytest.approx((share * beyond).mean())
    assert rounds.unreached > 0
    assert len(rounds.logs) == n


def test_what_is_not_known():
    rounds = PolicyRounds(PI, LOGS)
    assert np.isnan(rounds.unreached)  # no whole law
    alone = PolicyRounds(UniformPolicy(), LOGS)
    assert alone.wanted is None  # it was asked for the logged actions alone
    assert_allclose(alone.w, 0.25 / LOGS.propensity)
    nothing = PolicyRounds(PI, LOGS.replace(propensity=None))
    assert not nothing.known
    assert_allclose(nothing.wanted, PI.mean(axis=0))

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest

from skope_ope import EpsilonGreedy, Replay, suggest
from tests.selection import _situations


def test_the_horizon_lets_several_trajectories_fit():
    logs, policy, _ = _situations.learner_uniform()
    evaluator = suggest(policy, logs).evaluator
    assert isinstance(evaluator, Replay)
    value = evaluator.fit(logs).evaluate(policy)
    assert 15 <= value.n_trajectories <= 25
    assert value.standard_error > 0


@pytest.mark.filterwarnings("ignore")
def test_the_horizon_of_other_loggers():
    logs, policy, _ = _situations.learner()
    value = suggest(policy, logs).evaluator.fit(logs).evaluate(policy)
    assert value.n_trajectories >= 10


def test_without_propensities_they_are_estimated_first():
    logs, policy, _ = _situations.learner_unknown()
    found = suggest(policy, logs)
    assert found.situation == "learner_unknown"
    assert "estimated_propensities" in found.doubts
    assert "fit_transform(logs)" in found.code


def test_a_frozen_copy_does_not_learn():
    logs, policy, _ = _situations.learner_uniform()
    frozen = policy.fit(logs[:1500]).frozen()
    assert suggest(frozen, logs[1500:]).situation == "one_logger"


@pytest.mark.thorough
def test_intervals_cover_the_life_of_a_learner():
    """The true value is that of many lives in a long log of even chances."""

    def even(x, t):
        return np.full(len(x), 0.5)

    def skewed(x, t):
        return 0.25 + 0.5 * x

    policy = EpsilonGreedy()
    long = _situations._of_actions(99, even, 50_000, propensity=_situations._own)
    for proba in (even, skewed):
        covered = 0
        for seed in range(20):
            logs = _situations._of_actions(
                seed, proba, 2000, propensity=_situations._own
            )
            evaluator = suggest(policy, logs).evaluator.set_params(horizon=40)
            if not seed:
                truth = Replay(horizon=40, random_state=0).fit(long).score(policy)
            interval = evaluator.fit(logs).evaluate(policy).confidence_interval()
            covered += interval.low <= truth <= interval.high
        assert covered >= 17

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import random

import numpy as np
import pytest
from sklearn.base import clone

from skope_ope import DRns, Replay
from skope_ope.base import AdaptivePolicy
from skope_ope.datasets import make_bandit_logs
from skope_ope.evaluators import repeated_runs
from skope_ope.exceptions import OPEWarning
from skope_ope.policies._own_draws import generator_states, repeated_draws
from tests._quiet import quiet


class Held:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


def everything(seed):
    bits = np.random.PCG64(seed)
    return Held(
        old=np.random.RandomState(seed),
        new=np.random.default_rng(seed),
        bits=[1, {"deep": bits}],
        inner=Held(plain=random.Random(seed), number=seed),
        number=3,
    )


def test_generators_are_found_wherever_they_are():
    held = everything(1)
    held.itself = held  # no end of it
    held.kind = np.random.RandomState  # a class draws nothing
    states = generator_states(held)
    assert set(states) == {"old", "new", "bits[1]['deep']", "inner.plain"}
    assert repeated_draws(states, generator_states(everything(1))) == list(states)
    assert repeated_draws(states, generator_states(everything(2))) == []
    assert repeated_draws(states, generator_states(Held(new=3))) == []


@pytest.mark.parametrize("name", ["old", "new", "inner.plain"])
def test_a_draw_moves_a_state(name):
    held = everything(1)
    before = generator_states(held)
    generator = held.inner.plain if name == "inner.plain" else getattr(held, name)
    generator.random()
    after = generator_states(held)
    assert {key for key in before if before[key] != after[key]} == {name}


class Sampler(AdaptivePolicy):
    """Prefers an action that it draws again after every round."""

    def __init__(self, random_state=0):
        self.random_state = random_state

    def reset(self, logs):
        super().reset(logs)
        self.best_, self.rng_ = 0, np.random.RandomState(self._seed())

    def _seed(self):
        return self.random_state

    def _proba(self, X, available):
        best = np.arange(len(self.classes_)) == self.best_
        row = 0.1 + best * (1 - 0.1 * len(best))
        return np.tile(row, (len(X), 1))

    def update(self, X, action, reward, proba):
        self.best_ = self.rng_.randint(len(self.classes_))
        return True


class SameSampler(Sampler):
    def __init__(self, seed=0):
        self.seed = seed

    def _seed(self):
        return self.seed


LOGS = make_bandit_logs(600, n_actions=3, logging_temperature=np.inf, random_state=0)


def told(result):
    return [w for w in result.warnings if "the same in every history" in str(w)]


@pytest.mark.parametrize("evaluator", [Replay(horizon=40), DRns(horizon=40)])
def test_trajectories_that_draw_alike_are_told(evaluator):
    evaluator = clone(evaluator).set_params(random_state=0).fit(LOGS)
    (warning,) = told(quiet(evaluator, SameSampler()))
    assert "'rng_' does not follow random_state" in str(warning)
    assert not told(quiet(evaluator, Sampler()))
    single = evaluator.set_params(horizon=None).fit(LOGS)
    assert not told(quiet(single, SameSampler()))  # one history, one seed


def test_runs_that_draw_alike_are_told():
    with pytest.warns(OPEWarning, match="SameSampler are the same in every history"):
        repeated_runs(Replay(), SameSampler(), LOGS, n_runs=3, random_state=0)
    repeated_runs(Replay(), Sampler(), LOGS, n_runs=3, random_state=0)

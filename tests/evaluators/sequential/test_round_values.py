# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The spread of round values is that of the value, however it was put together."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

from skope_ope import BanditLogs, DRns, RejectionSampling, Replay
from skope_ope.exceptions import OPEWarning

N_WORLDS, N_ROUNDS = 300, 300
FIRST = np.tile([0.5, 0.3, 0.2], (N_ROUNDS, 1))
SECOND = np.tile([0.1, 0.3, 0.6], (N_ROUNDS, 1))
QUICK = [
    Replay(horizon=1),
    DRns(reward_model=0.5, acceptance="worst_case", normalize=False),
]
SLOW = [
    Replay(horizon=3),
    Replay(),
    RejectionSampling(horizon=2),
    DRns(reward_model=0.5, horizon=3, normalize="pooled"),
    DRns(reward_model=0.5, horizon=10),
    DRns(reward_model=0.5, n_splits=5),
    DRns(reward_model=0.5, normalize=False),
]
EVALUATORS = [*QUICK, *(pytest.param(one, marks=pytest.mark.theory) for one in SLOW)]


def world(seed):
    """Rounds of a uniform logger; every action wins half of the time."""
    rng = np.random.default_rng(seed)
    action, reward = rng.integers(0, 3, N_ROUNDS), rng.integers(0, 2, N_ROUNDS)
    context = np.zeros((N_ROUNDS, 1))
    propensity = np.full(N_ROUNDS, 1 / 3)
    return BanditLogs(context, action, reward, propensity, actions=[0, 1, 2])


@pytest.mark.theory
@pytest.mark.parametrize("evaluator", EVALUATORS, ids=str)
def test_errors_are_those_of_many_worlds(evaluator, global_random_seed):
    values, differences = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)
        for k in range(N_WORLDS):
            one = clone(evaluator).set_params(random_state=k)
            one.fit(world([global_random_seed, k]))
            first, second = one.evaluate(FIRST), one.evaluate(SECOND)
            spread = first.round_values.std(ddof=1) / np.sqrt(N_ROUNDS)
            values.append([first.value, first.standard_error, spread])
            gap = first - second
            differences.append([gap.value, gap.standard_error])
            assert first.round_values.mean() == pytest.approx(first.value, abs=1e-12)
            above, below = first._rows.terms
            assert above.sum() == pytest.approx(first.value, abs=1e-12)
            assert below.sum() == pytest.approx(1, abs=1e-12)
    for found in (values, differences):
        found = np.array(found)
        truth = found[:, 0].std(ddof=1)
        # the deviation of so many worlds is known to 1 / sqrt(2 N_WORLDS) = 4%
        for k in range(1, found.shape[1]):
            told = np.sqrt((found[:, k] ** 2).mean())
            assert 0.8 < told / truth < 1.2

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope import BanditLogs
from skope_ope.evaluators.core._engine import WEIGHTS, Job, run
from skope_ope.evaluators.core._entering import Entering
from skope_ope.evaluators.core._tally import Tally, bins_of, edges_of
from skope_ope.evaluators.core._target import Target

N = 400
RNG = np.random.RandomState(0)
MU = RNG.dirichlet(np.ones(3), N)
ACTION = RNG.randint(3, size=N)
LOGGER = RNG.randint(2, size=N)
REWARD = RNG.choice([0.0, 1.0, -2.0], N)
PI = RNG.dirichlet(np.ones(3), N)
OMEGA = RNG.choice([0.0, 0.5, 2.0], N)
W = PI[np.arange(N), ACTION] / MU[np.arange(N), ACTION]


def tally_of(rows, omega=None, logger=True):
    logs = BanditLogs(
        np.zeros((len(rows), 1)),
        ACTION[rows],
        REWARD[rows],
        MU[rows, ACTION[rows]],
        actions=[0, 1, 2],
        logger=np.array(["a", "b"])[LOGGER[rows]] if logger else None,
    )
    entering = Entering(logs, None if omega is None else omega[rows])
    tally = Tally(logs)
    run(logs, [Job(WEIGHTS, Target(PI[rows], logs), None)], entering, [tally])
    return tally


def scaled(omega):
    return omega * np.count_nonzero(omega) / omega.sum()


@pytest.mark.parametrize("weighted", [False, True])
def test_what_it_counts(weighted):
    found = tally_of(np.arange(N), OMEGA if weighted else None)
    omega = scaled(OMEGA) if weighted else np.ones(N)
    gain = np.abs(W * REWARD)
    enter = omega > 0
    assert found.largest == {
        "weights": W[enter].max(),
        "weighted_rewards": gain[enter].max(),
    }
    events = omega * gain
    assert_allclose(found.rewarded_events, events.sum() ** 2 / (events @ events))
    events = omega * W * (REWARD == 0)
    assert_allclose(found.unrewarded_events, events.sum() ** 2 / (events @ events))
    assert found.reward_range == (-2, 1)
    for name, size in (("weights", W), ("weighted_rewards", gain)):
        assert_allclose(found.histograms[name].sum(), omega.sum())
        low = edges_of(np.flatnonzero(found.histograms[name])).min()
        assert low <= size[enter].min()
    for (logger, action), count in found.counts.items():
        own = (action == ACTION) & (np.array(["a", "b"])[LOGGER] == logger)
        assert count == own.sum()


def test_quantiles_within_the_width_of_a_bin():
    found = tally_of(np.arange(N))
    for q in (0.1, 0.5, 0.9):
        exact = np.quantile(W, q, method="inverted_cdf")
        assert exact / 1.017 <= found.quantile("weights", q) <= exact
    never = Tally(BanditLogs(np.zeros((1, 1)), [0], [0.0], [1.0], actions=[0, 1]))
    assert np.isnan(never.quantile("weights", 0.5))
    assert never.rewarded_events == 0


def test_bins_are_narrow():
    size = np.geomspace(1e-300, 1e300, 5000)
    low, high = edges_of(bins_of(size)), edges_of(bins_of(size) + 1)
    assert (low <= size).all()
    assert (size < high).all()
    assert (high / low <= 1 + 1 / 64).all()
    assert bins_of(np.zeros(1))[0] == 0


@pytest.mark.parametrize("logger", [True, False])
def test_parts_add_up(logger):
    whole = tally_of(np.arange(N), logger=logger)
    parts = np.split(np.random.RandomState(1).permutation(N), [30, 200])
    first, second, third = (tally_of(rows, logger=logger) for rows in parts)
    merged = first + second + third
    assert merged.counts == whole.counts
    assert merged.largest == whole.largest
    assert merged.reward_range == whole.reward_range
    for name, histogram in whole.histograms.items():
        assert_array_equal(merged.histograms[name], histogram)
    assert_allclose(merged.rewarded_events, whole.rewarded_events, rtol=1e-12)
    with pytest.raises(TypeError, match="unsupported operand"):
        whole + 1


def test_the_table_is_small():
    table = tally_of(np.arange(N)).to_table()
    assert all(isinstance(values, np.ndarray) for values in table.values())
    assert sum(values.size for values in table.values()) < 5 * N
    assert table["tally_weights"].sum() == N
    assert table["tally_counts"].sum() == N

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Means of 1/p and their errors, by rounds and by groups."""

import numpy as np
import pytest

from skope_ope import BanditLogs
from skope_ope.logs.checks._inverse_propensities import (
    Excess,
    InversePropensities,
    rounding_error,
)
from skope_ope.logs.checks._propensity_findings import quick_propensity_findings
from tests._worlds import d8
from tests.logs.checks.test_propensity_findings import draw, logs_of, world


def test_the_means_by_hand():
    log = d8()
    logs = BanditLogs(log.x[:, None], log.action, log.reward, log.propensity)
    inverse = InversePropensities(logs, np.arange(8))
    assert inverse.half_step == 0.005
    inverse.half_step = 0  # as if they had more digits
    np.testing.assert_allclose(inverse.by_action(), [1.125, 1.0417, 1.0417], atol=5e-4)
    one = inverse.too_small_for(0)
    values = np.where(log.action == 0, 1 / log.propensity, 0)
    error = values.std(ddof=1) / np.sqrt(8)
    assert one.ratio == pytest.approx(1.125)
    assert one.z == pytest.approx(0.125 / error)
    assert not one.beyond(0, 1)  # eight rounds tell nothing


def test_significance_and_effect():
    assert Excess(1.2, 5.0, 1000).beyond(4, 1.1)
    assert not Excess(1.2, 3.9, 1000).beyond(4, 1.1)
    assert not Excess(1.09, 50.0, 1000).beyond(4, 1.1)
    assert not Excess(2.0, 50.0, 29).beyond(4, 1.1)
    # without any spread: that 40 rounds all hit what has probability 1 / 1.2 is luck
    assert not Excess(1.2, np.inf, 40).beyond(4, 1.1)
    assert Excess(1.2, np.inf, 50).beyond(4, 1.1)


def test_groups_of_one_round_are_rounds():
    x, _, action, p = world(400)
    alone = InversePropensities(logs_of(x, action, p), np.arange(400))
    logs = logs_of(x, action, p, group=np.arange(400))
    grouped = InversePropensities(logs, np.arange(400))
    assert grouped.too_small_for(1) == alone.too_small_for(1)
    assert grouped.too_large() == alone.too_large()


def test_rounds_repeated_in_their_group_say_no_more_than_once():
    x, _, action, p = world(400)
    rows = np.repeat(np.arange(400), 3)
    alone = InversePropensities(logs_of(x, action, p), np.arange(400))
    logs = logs_of(x[rows], action[rows], p[rows], group=rows)
    repeated = InversePropensities(logs, np.arange(1200))
    for action in range(4):
        one, same = alone.too_small_for(action), repeated.too_small_for(action)
        assert same.ratio == pytest.approx(one.ratio, rel=1e-12)
        assert same.z == pytest.approx(one.z, rel=1e-12)
        assert same.n == one.n == 400


def test_the_frequent_actions_are_those_of_the_other_half():
    # the mean of 1/p over actions chosen by their own counts would be too large
    excess = []
    for seed in range(200):
        action = np.random.default_rng(seed).integers(21, size=600)
        logs = logs_of(np.empty((600, 0)), action, np.full(600, 1 / 21))
        inverse = InversePropensities(logs, np.arange(600))
        assert 0 < inverse.frequent.mean() < 1
        excess.append(inverse.too_small().ratio - 1)
    error = np.std(excess) / np.sqrt(200)
    assert abs(np.mean(excess)) < 4 * error < 0.02


def test_loggers_have_actions_of_their_own():
    action, logger = np.tile([0, 1, 1, 2], 100), np.tile([0, 0, 1, 1], 100)
    fields = {"logger": logger, "actions": [0, 1, 2]}
    logs = logs_of(np.empty((400, 0)), action, np.full(400, 0.5), **fields)
    excess = InversePropensities(logs, np.arange(400)).too_small()
    assert excess.ratio == pytest.approx(2 / (0.505 * 4))  # .5 may be .505


def test_the_grid_of_rounded_propensities():
    def error(*p, n_actions=3):
        return rounding_error(np.array(p), n_actions)

    assert error(0.33) == 0.005
    assert error(np.float64(np.float32(0.33))) == 0.005
    assert error(0.5, 0.1) == 0.005  # settings, not roundings to one digit
    assert error(*np.arange(1, 10) / 10) == 0.05
    assert error(0.123, 0.5) == 0.0005
    assert error(1 / 3, 0.5) == error(0.2, 1e-300) == 0
    # what adds up over the actions was not rounded
    assert error(0.05, 0.05, n_actions=20) == error(0.9, 0.1, n_actions=2) == 0
    assert error(0.05, 0.05, n_actions=19) == error(0.9, 0.1, n_actions=3) == 0.005


def test_few_rounds_of_a_known_law_tell_of_no_gap():
    mu = np.full((60, 3), 1 / 3)  # none above 4 / sqrt(60)
    logs = logs_of(np.zeros((60, 1)), np.arange(60) % 3, None, logging_proba=mu)
    assert InversePropensities(logs, np.arange(60)).too_large() is None


def test_sharp_loggers_and_those_that_hardly_explore_are_left_alone():
    for seed in range(3):
        x, mu, action, p = world(3000, seed, scale=20.0)
        assert quick_propensity_findings(logs_of(x, action, p))[1] == []
        known = logs_of(x, action, None, logging_proba=mu)
        assert quick_propensity_findings(known)[1] == []
        mu = np.full((1000, 5), 2e-4)
        mu[np.arange(1000), np.arange(1000) % 5] = 1 - 8e-4
        action = draw(mu, np.random.default_rng(seed))
        p = mu[np.arange(1000), action]
        assert (
            quick_propensity_findings(logs_of(np.zeros((1000, 1)), action, p))[1] == []
        )

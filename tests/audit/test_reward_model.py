# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest

from skope_ope import BanditLogs
from skope_ope.audit._reward_leak import reward_leak_findings

REWARDS = {
    "normal": lambda rng: rng.normal(size=2000),
    "lognormal": lambda rng: rng.lognormal(sigma=1.5, size=2000),
    "stars": lambda rng: rng.integers(1, 6, 2000) * 1.0,
}


def found(columns, reward, action=None, names=None):
    """Return the findings of a log of four columns of noise and those given."""
    rng = np.random.default_rng(1)
    context = np.column_stack([rng.normal(size=(len(reward), 4)), columns])
    action = rng.integers(0, 3, len(reward)) if action is None else action
    return reward_leak_findings(BanditLogs(context, action, reward))[1]


@pytest.mark.parametrize("name", REWARDS)
def test_a_difference_of_two_columns(name):
    rng = np.random.default_rng(0)
    reward = REWARDS[name](rng)
    before = 10 * rng.normal(size=2000)
    columns = np.column_stack([before + reward, before])
    (one,) = found(columns, reward)
    assert (one.severity, set(one.columns)) == ("warning", {4, 5})
    assert "written after the reward" in one.advice[0]
    assert "determine the reward" in one.advice[1]


def test_a_product_of_two_columns():
    columns = np.random.default_rng(0).normal(size=(2000, 2))
    (one,) = found(columns, columns.prod(axis=1))
    assert set(one.columns) == {4, 5}


def test_a_reward_made_of_a_column_and_the_action():
    rng = np.random.default_rng(0)
    revenue = rng.normal(size=2000)
    action = rng.integers(0, 3, 2000)
    (one,) = found(revenue, revenue - np.array([0.0, 1.0, 3.0])[action], action)
    assert (one.severity, one.columns) == ("warning", (4,))
    assert "and the action" in one.found

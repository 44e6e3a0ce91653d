# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""That rounds were dropped is among the causes, the first one in a log of orders."""

import numpy as np
import pytest

from skope_ope import BanditLogs, audit
from skope_ope.logs.checks._lost_rows import UNLOGGED, lacks_zeros, with_dropped


def orders(n=12_000, seed=0):
    """Arrays of a log from which rounds without an order were dropped."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    action = rng.integers(4, size=n)
    bought = rng.random(n) < 0.1 + 0.12 * action
    x, action = x[bought], action[bought]
    return x, action, rng.gamma(9, 1.0, len(x)), np.full(len(x), 0.25)


def test_where_it_stands():
    logs = BanditLogs(*orders())
    assert with_dropped(["other"], None) == ("other", UNLOGGED)
    first, second = with_dropped(["other"], logs)
    assert first.startswith("No reward of the log is 0. Rounds were dropped")
    assert second == "other"
    some = logs.replace(reward=np.arange(len(logs)))  # one is 0
    assert with_dropped(["other"], some) == ("other", UNLOGGED)


def test_rewards_of_both_signs_are_no_export_of_orders():
    rng = np.random.default_rng(0)
    assert not lacks_zeros(rng.normal(size=100))
    assert lacks_zeros(rng.normal(size=100) + 3)
    assert lacks_zeros(-1 - rng.random(100))
    assert not lacks_zeros(np.empty(0))


@pytest.mark.parametrize("policy", [None, [0.0, 0.0, 0.0, 1.0], [1.0, 0.0, 0.0, 0.0]])
def test_an_audit_of_orders_names_it_first(policy):
    logs = BanditLogs(*orders())
    if policy is None:
        found = audit(logs)
    else:
        found = audit(np.tile(policy, (len(logs), 1)), logs)
    assert found.alarms
    for one in found.alarms:
        assert one.advice[0].startswith("No reward of the log is 0.")

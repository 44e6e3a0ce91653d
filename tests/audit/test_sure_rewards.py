# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import re

import numpy as np
import pytest

from skope_ope import BanditLogs, SlateLogs
from skope_ope.audit._reward_leak import reward_leak_findings


def visits(seed=0, n_rounds=5000):
    """Return actions, who visited, and who of them bought."""
    rng = np.random.default_rng(seed)
    action = rng.integers(0, 3, n_rounds)
    visit = rng.random(n_rounds) < 0.1 + 0.03 * action
    return rng, action, visit, visit & (rng.random(n_rounds) < 0.1)


def found(column, action, reward):
    noise = np.random.default_rng(1).normal(size=len(reward))
    logs = BanditLogs(np.column_stack([noise, column]), action, reward * 1.0)
    return reward_leak_findings(logs)[1]


def test_who_bought_has_visited():
    rng, action, visit, bought = visits()
    (one,) = found(bought, action, visit)
    assert (one.name, one.severity, one.columns) == ("reward_leak", "warning", (1,))
    count = int(bought.sum())
    assert one.found.startswith(
        f"All {count} rounds in which context column 1 is 1 are rewarded"
    )
    assert one.number == count
    (one,) = found(bought * rng.gamma(2, 50, len(bought)), action, visit)
    assert "is not 0" in one.found


def test_all_columns_and_the_rounds_drawn_are_told():
    rng, action, visit, bought = visits(n_rounds=24_000)
    spend = bought * rng.gamma(2, 50, len(bought))
    context = np.column_stack([bought, spend])
    logs = BanditLogs(context * 1.0, action, visit * 1.0)
    (one,) = reward_leak_findings(logs)[1]
    assert one.columns == (0, 1)
    assert "The same is true of values of context column 1." in one.found
    assert re.search(r" Of all \d,\d{3} rounds drawn from 24,000 1\d\.\d% ", one.found)
    (one,) = reward_leak_findings(logs[:8000])[1]
    assert re.search(r"Of all 8,000 rounds 1\d\.\d% are\.", one.found)


def test_names_and_missing_values():
    pd = pytest.importorskip("pandas")
    _, action, visit, bought = visits()
    pages = np.where(bought, "checkout", np.where(action == 0, "start", "other"))
    frame = pd.DataFrame({"page": pages})
    (one,) = reward_leak_findings(BanditLogs(frame, action, visit * 1.0))[1]
    assert "column 'page' is 'checkout'" in one.found
    frame["page"] = pd.Series(pages).where(bought)
    (one,) = reward_leak_findings(BanditLogs(frame, action, visit * 1.0))[1]
    assert "column 'page' is 'checkout'" in one.found
    frame["page"] = pd.Series(pages).where(~bought)
    (one,) = reward_leak_findings(BanditLogs(frame, action, visit * 1.0))[1]
    assert "column 'page' is missing" in one.found


def test_an_exception_a_chance_or_one_action_is_no_outcome():
    _, action, visit, bought = visits()
    once = bought.copy()
    once[np.flatnonzero(~visit)[0]] = True
    assert found(once, action, visit) == []
    few = np.zeros(len(visit), dtype=bool)
    few[np.flatnonzero(visit)[:11]] = True  # 1e-10 of one column, but few
    assert found(few, action, visit) == []
    # whoever is in the segment and gets action 2 comes, and gets nothing else
    segment = bought & (action == 2)
    assert found(segment, action, visit) == []
    # most rounds are rewarded: a segment that always is, is no wonder
    assert found(bought, action, ~visit | bought) == []


def test_rewards_that_follow_from_context_and_action_are_quiet():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        label = rng.integers(0, 3, 3000)
        action = np.where(rng.random(3000) < 0.9, label, rng.integers(0, 3, 3000))
        reward = (action == label) & (label > 0)
        noisy = np.where(rng.random(3000) < 0.8, label, 0)
        assert found(noisy, action, reward) == []


def test_slates():
    _, action, visit, bought = visits()
    logs = SlateLogs(bought[:, None] * 1.0, action[:, None], visit * 1.0)
    assert len(reward_leak_findings(logs)[1]) == 1

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Propensities that are wrong for some combinations of values, and right ones."""

import numpy as np
import pytest

from skope_ope.logs.checks._e_value import crosswise
from skope_ope.logs.checks._propensity_fit import (
    cell_bets,
    cell_text,
    fitted_propensity_findings,
)
from tests.logs.checks.test_propensity_findings import draw, logs_of, softmax, world

RULE = np.array([[0.1, 0.3, 0.3, 0.3], [0.4, 0.4, 0.1, 0.1], [0.55, 0.15, 0.15, 0.15]])


def shop(n, seed=0):
    """Contexts (vip, hour, basket) of a shop, and the branches of its rule."""
    rng = np.random.default_rng(seed)
    vip, hour = rng.random(n) < 0.15, rng.integers(24, size=n)
    x = np.column_stack([vip, hour, rng.gamma(4, 10, n)])
    return x, vip, hour, draw(RULE[np.where(vip, 0, np.where(hour >= 18, 1, 2))], rng)


def wrong_branch(vip, hour, action):
    """The vip branch comes last: vips of the evening get the others' propensities."""
    return RULE[np.where(hour >= 18, 1, np.where(vip, 0, 2)), action]


def right_branch(vip, hour, action):
    return RULE[np.where(vip, 0, np.where(hour >= 18, 1, 2)), action]


def alarms(logs, random_state=0):
    return fitted_propensity_findings(logs, random_state)[1]


# -- that bets are fair ---------------------------------------------------------------
def expected_f(x, mu, action, half, **fields):
    """Mean of f over what the logger might have done in the rounds that are bet on."""
    rows, total = np.arange(len(x)), np.zeros(len(x))
    for a in range(mu.shape[1]):
        taken = np.where(half == 1, a, action)
        p = mu[rows, taken]
        logs = logs_of(x, taken, p, actions=np.arange(mu.shape[1]), **fields)
        bets = cell_bets(logs, rows, p, [(half == 0, half == 1)])
        total += mu[:, a] * np.nan_to_num(bets.f)
    return total[half == 1], bets


def test_the_mean_of_a_bet_is_one():
    x, vip, hour, action = shop(6000)
    learned = np.arange(6000) < 4000
    mu = RULE[np.where(hour >= 18, 1, np.where(vip, 0, 2))]  # wrong where it learned
    mean, bets = expected_f(x, mu, action, (~learned).astype(int))
    assert bets.cell.max() >= 0  # something is bet
    assert mean == pytest.approx(1, abs=1e-12)


def test_nothing_is_lost_where_nothing_deviates():
    x, _, action, p = world(3000)
    bets = cell_bets(
        logs_of(x, action, p), np.arange(3000), p, crosswise(np.arange(3000) % 2)
    )
    inside = bets.cell >= 0
    assert (bets.f[~inside] == 1).all()
    assert inside.mean() < 0.2


# -- faults ---------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(3))
def test_a_branch_in_the_wrong_place(seed):
    x, vip, hour, action = shop(10_000, seed)
    [alarm] = alarms(logs_of(x, action, wrong_branch(vip, hour, action)))
    assert (alarm.name, alarm.severity) == ("propensity_misfit", "error")
    assert set(alarm.columns) == {0, 1}
    assert alarm.actions[0] in (2, 3)  # logged three times as often as recorded
    assert "context column 0 is 1 and context column 1 is" in alarm.found
    assert "times as often as its propensities predict" in alarm.found
    assert "at most one log of" in alarm.found
    assert vip[list(alarm.rows)].all() and (hour[list(alarm.rows)] >= 15).all()
    assert alarms(logs_of(x, action, right_branch(vip, hour, action))) == []


def test_a_limit_that_is_off_by_one():
    x, vip, hour, action = shop(10_000)
    late = RULE[np.where(vip, 0, np.where(hour > 18, 1, 2)), action]
    [alarm] = alarms(logs_of(x, action, late))
    assert alarm.columns == (1,)
    assert "context column 1 is 18 (" in alarm.found


def test_a_combination_whose_columns_alone_are_right():
    rng = np.random.default_rng(0)
    x = rng.integers(2, size=(8000, 4))
    odd = x[:, 1] ^ x[:, 3]
    action = (rng.random(8000) < np.where(odd, 0.8, 0.2)).astype(int)
    [alarm] = alarms(logs_of(x, action, np.full(8000, 0.5)))
    assert set(alarm.columns) == {1, 3}


def test_groups_weights_and_offers():
    x, vip, hour, action = shop(10_000)
    wrong = wrong_branch(vip, hour, action)
    right = right_branch(vip, hour, action)
    group = np.arange(10_000) // 2
    assert alarms(logs_of(x, action, wrong, group=group))
    assert alarms(logs_of(x, action, right, group=group)) == []
    kept = np.where(action == 0, 1.0, 0.5)
    rows = np.random.default_rng(0).random(10_000) < kept
    some = {"sample_weight": 1 / kept[rows]}
    assert alarms(logs_of(x[rows], action[rows], right[rows], **some)) == []
    assert alarms(logs_of(x[rows], action[rows], wrong[rows], **some))


def test_names_of_cells():
    pd = pytest.importorskip("pandas")
    _, vip, hour, action = shop(10_000)
    frame = pd.DataFrame(
        {
            "segment": np.where(vip, "vip", "new"),
            "hour": np.where(hour == 3, np.nan, hour),
        }
    )
    [alarm] = alarms(logs_of(frame, action, wrong_branch(vip, hour, action)))
    assert "column 'segment' is 'vip' and column 'hour' is" in alarm.found
    assert alarm.columns == ("segment", "hour")
    p = right_branch(vip, hour, action) / np.where(hour == 3, 2, 1)
    half = crosswise(np.arange(10_000) % 2)
    bets = cell_bets(logs_of(frame, action, p), np.arange(10_000), p, half)
    texts = {cell_text(bets, cell) for cell in set(bets.cell.tolist()) - {-1}}
    assert any("column 'hour' is missing" in one for one in texts)


# -- right logs -----------------------------------------------------------------------
def of_a_shop(rng):
    x, vip, hour, action = shop(3000, rng)
    return logs_of(x, action, right_branch(vip, hour, action))


def of_a_softmax(rng):
    x = rng.normal(size=(3000, 6))
    mu = softmax(2 * x @ rng.normal(scale=0.5, size=(6, 5)))
    action = draw(mu, rng)
    return logs_of(x, action, mu[np.arange(3000), action])


def of_rare_actions(rng):
    x = rng.integers(3, size=(3000, 5))
    mu = np.full((3000, 30), 0.002) + 0.94 * np.eye(30)[x.sum(axis=1)]
    action = draw(mu, rng)
    return logs_of(x, action, mu[np.arange(3000), action])


def of_two_levels(rng):
    x = rng.integers(2, size=(600, 10))
    p = np.where(x[:, 0] ^ x[:, 1], 0.9, 0.05)
    action = (rng.random(600) < p).astype(int)
    return logs_of(x, action, np.where(action, p, 1 - p))


@pytest.mark.parametrize(
    "right", [of_a_shop, of_a_softmax, of_rare_actions, of_two_levels]
)
def test_right_logs_are_left_alone(right):
    for seed in range(10):
        assert alarms(right(np.random.default_rng(seed))) == []


def test_propensities_that_no_square_holds():
    x, _, action, p = world(2000)
    p = np.where(np.arange(2000) % 50 == 0, 1e-200, p)
    logs = logs_of(x, action, p)
    bets = cell_bets(logs, np.arange(2000), p, crosswise(np.arange(2000) % 2))
    assert np.isfinite(bets.f).all()
    if bets.cell.max() >= 0:
        assert cell_text(bets, bets.cell.max())

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""An e-value has mean at most one, whatever the rounds look like."""

from itertools import product

import numpy as np
import pytest

from skope_ope.logs.checks._e_value import (
    STAKES,
    crosswise,
    forwards,
    log_e_forward,
    log_e_of_parts,
    log_e_value,
    log_mean_exp,
    misfit_effect,
    quarters_by_time,
)

MU = np.array([0.9, 0.09, 0.01])  # of three actions
GUESS = np.array([0.2, 0.3, 0.5])


def mean_e(n_rounds, share=None, group=None, choices=None):
    """Exact mean over all logs of some rounds with the law MU."""
    total = 0.0
    for log in product(range(3), repeat=n_rounds) if choices is None else choices:
        log = np.array(log)
        chance = MU[log] if group is None else MU[log[np.unique(group, True)[1]]]
        f = GUESS[log] / MU[log]
        total += chance.prod() * np.exp(log_e_value(f, share, group))
    return total


def test_by_hand():
    f = np.array([2.0, 0.5])
    expected = np.mean([(1 + s) * (1 - s / 2) for s in STAKES])
    assert np.exp(log_e_value(f)) == pytest.approx(expected, rel=1e-14)
    assert log_e_value(np.empty(0)) == pytest.approx(0, abs=1e-15)
    assert log_mean_exp([0.0, np.log(3)]) == pytest.approx(np.log(2))
    assert misfit_effect(f) == pytest.approx(0.25)  # of f - 1: ln f has mean 0


def test_its_mean_is_one_under_right_propensities():
    assert mean_e(6) == pytest.approx(1, rel=1e-12)
    assert mean_e(3, share=np.array([1.0, 0.1, 0.4])) == pytest.approx(1, rel=1e-12)


def test_rounds_that_repeat_the_choice_of_their_group():
    group = np.array([0, 0, 0, 1, 2])
    repeated = [(a, a, a, b, c) for a, b, c in product(range(3), repeat=3)]
    assert mean_e(5, group=group, choices=repeated) == pytest.approx(1, rel=1e-12)
    # as if they were independent it is none
    f = GUESS / MU
    alone = [np.exp(log_e_value(np.repeat(f[a], 3))) for a in range(3)]
    assert MU @ alone > 3


def test_thinned_rounds_with_their_weights():
    # rounds of action 2 are all kept, others with probability 1/2, 1/10
    kept = np.array([0.5, 0.1, 1.0])
    law = MU * kept / (MU @ kept)
    share = (1 / kept) / (1 / kept).max()
    f = GUESS / MU
    total = 0.0
    for log in product(range(3), repeat=3):
        log = np.array(log)
        total += law[log].prod() * np.exp(log_e_value(f[log], share[log]))
    assert total == pytest.approx(1, rel=1e-12)


def frequencies(action, plan):
    """Shares of two actions where they are learned, of those that are predicted."""
    out = np.full(len(action), np.nan)
    for learned, told in plan:
        out[told] = np.bincount(action[learned], minlength=2)[action[told]]
        out[told] /= learned.sum()
    return out


def test_what_its_past_predicts_is_fair_to_a_logger_that_learns():
    # an urn: an action is drawn as often as it was, plus a half
    across, ahead = 0.0, 0.0
    quarter = quarters_by_time(np.arange(8))
    plan = crosswise(quarter % 2)
    for log in product(range(2), repeat=8):
        action, drawn = np.array(log), np.full(2, 0.5)
        p = np.empty(8)
        for t, a in enumerate(action):
            p[t] = drawn[a] / drawn.sum()
            drawn[a] += 1
        f = frequencies(action, plan) / p
        across += p.prod() * np.exp(log_e_of_parts(f, [told for _, told in plan]))
        f = frequencies(action, forwards(quarter)) / p
        ahead += p.prod() * np.exp(log_e_forward(f, quarter))
    assert ahead == pytest.approx(1, rel=1e-12)
    assert across > 1.02


def test_quarters_and_what_belongs_to_them():
    ranks = np.array([7, 1, 3, 5, 0, 2, 4, 6])
    quarter = quarters_by_time(ranks)
    np.testing.assert_array_equal(quarter, ranks // 2)
    for learned, told in forwards(quarter):
        assert quarter[learned].max() < quarter[told].min()
    f, half = np.array([2.0, 0.5, 3.0, 0.1]), np.array([0, 1, 0, 1])
    share, group = np.array([1.0, 0.5, 1.0, 1.0]), np.array([0, 1, 0, 1])
    parts = [half == 0, half == 1]
    e = [log_e_value(f[told], share[told], np.zeros(2, int)) for told in parts]
    mean = log_e_of_parts(f, parts, share, group)
    assert np.exp(mean) == pytest.approx(np.exp(e).mean())


def test_a_wrong_round_ruins_a_better_who_stakes_all():
    assert log_e_value(np.zeros(1)) == pytest.approx(np.log((0.9 + 0.5) / 3))


def test_the_other_actions_propensities_are_found_out():
    rng = np.random.RandomState(0)
    action = rng.choice(3, 500, p=GUESS)
    ratio = GUESS[action] / MU[action]
    assert log_e_value(ratio) > 100
    assert misfit_effect(ratio) > 0.05
    nothing = np.array([1.02, 0.97])[action % 2]
    assert log_e_value(nothing) < 3
    assert misfit_effect(nothing) < 0.05

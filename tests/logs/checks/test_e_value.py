# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""An e-value has mean at most one, whatever the rounds look like."""

from itertools import product

import numpy as np
import pytest

from skope_ope.logs.checks._e_value import (
    STAKES,
    log_e_value,
    log_mean_exp,
    misfit_effect,
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

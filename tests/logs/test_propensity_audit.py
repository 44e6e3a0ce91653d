# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Propensities that do not fit the logged actions are noticed."""

import numpy as np
import pytest

from skope_ope import IPS, BanditLogs, UniformPolicy
from skope_ope.exceptions import PropensityWarning
from tests._worlds import d8


def logged(n_rounds, seed, *, wrong=None, available=None):
    """Draw actions from (.5, .3, .2), and record other propensities if `wrong`."""
    rng = np.random.RandomState(seed)
    mu = np.tile([0.5, 0.3, 0.2], (n_rounds, 1))
    if available is not None:
        mu = np.where(available, mu, 0)
        mu /= mu.sum(axis=1, keepdims=True)
    action = (rng.random_sample((n_rounds, 1)) > mu.cumsum(axis=1)).sum(axis=1)
    p = (mu if wrong is None else np.asarray(wrong)[None])[
        np.arange(n_rounds) if wrong is None else 0, action
    ]
    X = np.empty((n_rounds, 0))
    return BanditLogs(X, action, np.zeros(n_rounds), p, available=available)


def test_by_hand():
    log = d8()
    p = log.mu[np.arange(8), log.action]
    logs = BanditLogs(log.x.reshape(-1, 1), log.action, log.reward, p)
    gap = 1 / logs.propensity - 3
    z = gap.mean() / (gap.std(ddof=1) / np.sqrt(8))
    assert logs.inverse_propensity_z == pytest.approx(z, rel=1e-12)
    assert round(z, 3) == 0.375


def test_right_propensities_are_left_alone(global_random_seed):
    assert abs(logged(20_000, global_random_seed).inverse_propensity_z) < 4.5


def test_varying_offers(global_random_seed):
    rng = np.random.RandomState(1000 + global_random_seed)
    available = rng.random_sample((20_000, 3)) < 0.7
    available[:, 0] = True
    logs = logged(20_000, global_random_seed, available=available)
    assert abs(logs.inverse_propensity_z) < 4.5


def test_wrong_propensities_warn(global_random_seed):
    # uniform propensities recorded for a logger that is not uniform fit no worse on
    # average; the probabilities of other actions do
    logs = logged(2000, global_random_seed, wrong=[0.2, 0.3, 0.5])
    assert logs.inverse_propensity_z > 4
    with pytest.warns(PropensityWarning) as caught:
        IPS().fit(logs).evaluate(UniformPolicy())
    assert any(w.message.value == logs.inverse_propensity_z for w in caught)


def test_actions_that_were_never_logged_do_not_count():
    rng = np.random.RandomState(0)
    logs = BanditLogs(
        np.empty((100, 0)),
        rng.randint(2, size=100),
        np.zeros(100),
        np.full(100, 0.5),
        actions=[0, 1, 2],
    )
    assert logs.inverse_propensity_z == 0


def test_the_same_wrong_number_everywhere():
    logs = BanditLogs(np.empty((4, 0)), [0, 1, 0, 1], np.zeros(4), np.full(4, 0.25))
    assert logs.inverse_propensity_z == np.inf  # four actions were promised
    assert np.isnan(logs[:1].inverse_propensity_z)

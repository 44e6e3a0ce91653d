# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Propensities that do not fit the logged actions are noticed."""

import warnings

import numpy as np
import pytest
from scipy.special import bdtr, bdtrc

from skope_ope import IPS, BanditLogs, Replay, UniformPolicy
from skope_ope.exceptions import OPEWarning, PropensityWarning
from skope_ope.logs.checks._propensity_sums import count_chance
from tests._worlds import d8


def logged(n_rounds, seed, *, wrong=None, available=None):
    """Draw actions from (.5, .3, .2), and record other propensities if `wrong`."""
    rng = np.random.RandomState(seed)
    mu = np.tile([0.5, 0.3, 0.2], (n_rounds, 1))
    if available is not None:
        mu = np.where(available, mu, 0)
        mu /= mu.sum(axis=1, keepdims=True)
    action = (rng.random_sample((n_rounds, 1)) > mu.cumsum(axis=1)).sum(axis=1)
    p = mu[np.arange(n_rounds), action] if wrong is None else np.array(wrong)[action]
    X = np.empty((n_rounds, 0))
    return BanditLogs(X, action, np.zeros(n_rounds), p, available=available)


def action_count_z(logs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)
        value = IPS().fit(logs).evaluate(UniformPolicy())
    return np.array(value.diagnostics["action_count_z"])


def test_by_hand():
    log = d8()
    X = log.x.reshape(-1, 1)
    logs = BanditLogs(X, log.action, log.reward, log.mu[np.arange(8), log.action])
    gap = 1 / logs.propensity - 3
    z = gap.mean() / (gap.std(ddof=1) / np.sqrt(8))
    assert logs._inverse_propensity_z == pytest.approx(z, rel=1e-12)
    assert round(z, 3) == 0.375
    # actions that were never logged do not count
    action = np.random.RandomState(0).randint(2, size=100)
    logs = BanditLogs(np.empty((100, 0)), action, np.zeros(100), 0.5, actions=range(3))
    assert logs._inverse_propensity_z == 0
    # how often each action was logged
    logs = BanditLogs(X, log.action, log.reward, logging_proba=log.mu)
    mean, variance = logs._action_count_law
    np.testing.assert_allclose(mean, log.mu.sum(axis=0))
    np.testing.assert_allclose(variance, (log.mu * (1 - log.mu)).sum(axis=0))
    np.testing.assert_allclose(action_count_z(logs), [0.156, 0, -0.158], atol=5e-4)


def test_right_propensities_are_left_alone(global_random_seed):
    rng = np.random.RandomState(1000 + global_random_seed)
    offers = rng.random_sample((20_000, 3)) < 0.7
    offers[:, 0] = True
    for available in (None, offers):
        logs = logged(20_000, global_random_seed, available=available)
        assert abs(logs._inverse_propensity_z) < 4.5


def test_wrong_propensities_warn(global_random_seed):
    # uniform propensities recorded for a logger that is not uniform fit no worse on
    # average; the probabilities of other actions do
    logs = logged(2000, global_random_seed, wrong=[0.2, 0.3, 0.5])
    assert logs._inverse_propensity_z > 4
    with pytest.warns(PropensityWarning) as caught:
        IPS().fit(logs).evaluate(UniformPolicy())
    assert "propensities predict" in "".join(str(w.message) for w in caught)


def test_the_same_wrong_number_everywhere():
    def z(n_rounds, p, n_seen=2, **fields):
        action = np.arange(n_rounds) % n_seen
        X, p = np.empty((n_rounds, 0)), np.full(n_rounds, p)
        return BanditLogs(X, action, np.zeros(n_rounds), p, **fields)

    # of four actions two were never drawn, a probability of 6 / 2^n at most
    few, many = z(4, 0.25), z(400, 0.25)
    assert few._inverse_propensity_z == pytest.approx(np.sqrt(2 * np.log(16 / 6)))
    assert many._inverse_propensity_z > 20
    assert z(1500, 1 / 300, 296)._inverse_propensity_z < 2  # as uniform draws do
    assert z(50, 0.25, group=np.arange(50) // 25)._inverse_propensity_z < 2
    assert z(40, 0.5, 4)._inverse_propensity_z == -np.inf  # two of four at a time
    assert np.isnan(few[:1]._inverse_propensity_z)


# -- how often each action was logged -------------------------------------------------


def test_the_law_of_the_counts_is_known_or_not():
    logs = logged(5000, 0)  # propensities belong to the actions
    mean, variance = logs._action_count_law
    np.testing.assert_allclose(mean, [2500, 1500, 1000])
    np.testing.assert_allclose(variance, [1250, 1050, 800])
    rng = np.random.RandomState(0)
    p = rng.uniform(0.2, 0.9, 5000)
    assert logs.replace(propensity=p)._action_count_law is None
    one = logs.propensity.copy()
    one[-1] = 0.45  # a single row of another experiment
    assert logs.replace(propensity=one)._action_count_law is None
    assert logs.replace(propensity=None)._action_count_law is None
    # shares of another experiment: left to the mean of 1 / p
    assert logs.replace(propensity=np.full(5000, 0.25))._action_count_law is None


def test_uniform_choices_among_varying_offers(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    available = rng.random_sample((20_000, 3)) < 0.7
    available[:, 0] = True
    mu = available / available.sum(axis=1, keepdims=True)
    action = (rng.random_sample((20_000, 1)) > mu.cumsum(axis=1)).sum(axis=1)
    p = mu[np.arange(20_000), action]
    logs = BanditLogs(np.empty((20_000, 0)), action, p, p, available=available)
    np.testing.assert_allclose(logs._action_count_law[0], mu.sum(axis=0))
    assert np.abs(action_count_z(logs)).max() < 4.5
    assert logs.replace(propensity=p / 2)._action_count_law is None


def test_the_chance_bounds_the_binomial():
    logs = logged(2000, 0)
    for counts in ([900, 700, 400], [1400, 500, 100], [1000, 600, 400]):
        mean, variance = logs._action_count_law
        chance = count_chance(np.array(counts) - mean, variance)
        for k, p in enumerate([0.5, 0.3, 0.2]):
            above = bdtrc(max(counts[k], 2000 * p) - 1, 2000, p)
            below = bdtr(min(counts[k], 2000 * p), 2000, p)
            far = min(above, below) if counts[k] != 2000 * p else 1
            assert chance[k] >= far
    assert chance[0] == 2  # exactly as expected


def test_a_rare_action_that_was_logged_is_no_alarm():
    p = np.where(np.arange(1000) == 0, 1e-5, 1 - 1e-5)
    logs = BanditLogs(np.empty((1000, 0)), np.arange(1000) > 0, p, p)
    assert action_count_z(logs)[0] > 9
    mean, variance = logs._action_count_law
    assert count_chance(logs._action_counts - mean, variance).min() > 0.01


def test_a_constant_propensity_that_is_wrong_is_noticed(global_random_seed):
    logs = logged(2000, global_random_seed)
    wrong = logs.replace(propensity=np.full(2000, 1 / 3))
    assert abs(wrong._inverse_propensity_z) < 1e-6  # 1 / p is three everywhere
    with pytest.warns(PropensityWarning, match="propensities predict 666"):
        IPS().fit(wrong).evaluate(UniformPolicy())
    with pytest.warns(PropensityWarning, match="recorded propensities are"):
        Replay(random_state=0).fit(wrong).evaluate(UniformPolicy())
    IPS().fit(logs).evaluate(UniformPolicy())


# -- groups whose rounds all repeat one choice --------------------------------------
def test_repeats_within_groups_are_no_drift():
    rng = np.random.default_rng(0)
    p, zeros = rng.uniform(0.2, 0.8, 200), np.zeros(5000)
    for _ in range(20):  # 14 of 20 drift if rounds count as independent
        rows = np.repeat(rng.permutation(200), 25)
        logs = BanditLogs(zeros[:, None], rows % 2, zeros, p[rows], group=rows)
        assert not logs.propensities_drift
    p, action = np.linspace(0.2, 0.8, 5000), np.arange(5000) % 2
    for group in (np.arange(5000) // 25, np.random.default_rng(0).permutation(5000)):
        some = {"group": group % 200}, {"group": group % 5}
        many, few = (BanditLogs(zeros[:, None], action, zeros, p, **g) for g in some)
        assert many.propensities_drift
    assert not few.propensities_drift

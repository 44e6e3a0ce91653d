# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The algebra of the checks: e-values that are fair, means and spreads by hand."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.signal import lfilter

from skope_ope import BanditLogs
from skope_ope.logs.checks import _joined_rows
from skope_ope.logs.checks._adaptive_logger import Sequences
from skope_ope.logs.checks._evidence import (
    STAKES,
    crosswise,
    forwards,
    held_out_proba,
    log_e_forward,
    log_e_of_parts,
    log_e_value,
    log_mean_exp,
    misfit_effect,
    probability_ratio,
    quarters_by_time,
)
from skope_ope.logs.checks._order import chance_of_gap, long_run_spread
from skope_ope.logs.checks._propensity_findings import (
    Excess,
    InversePropensities,
    calibration_evidence,
)
from skope_ope.logs.checks._propensity_fit import cell_bets
from tests._worlds import d8
from tests.logs.checks._found import logs_of, plain_logs, world
from tests.logs.checks.test_order_findings import clicks
from tests.logs.checks.test_propensity_fit import RULE, shop
from tests.logs.checks.test_repeated_rounds import SHARE, flags, softmax_rounds
from tests.logs.checks.test_repeated_rounds import logs_of as logs_of_columns

MU = np.array([0.9, 0.09, 0.01])  # of three actions
GUESS = np.array([0.2, 0.3, 0.5])


# -- e-values -------------------------------------------------------------------------
def mean_e(n_rounds, share=None, group=None, choices=None):
    """Exact mean over all logs of some rounds with the law MU."""
    total = 0.0
    for log in product(range(3), repeat=n_rounds) if choices is None else choices:
        log = np.array(log)
        chance = MU[log] if group is None else MU[log[np.unique(group, True)[1]]]
        f = GUESS[log] / MU[log]
        total += chance.prod() * np.exp(log_e_value(f, share, group))
    return total


def test_e_values_by_hand():
    f = np.array([2.0, 0.5])
    expected = np.mean([(1 + s) * (1 - s / 2) for s in STAKES])
    assert np.exp(log_e_value(f)) == pytest.approx(expected, rel=1e-14)
    assert log_e_value(np.empty(0)) == pytest.approx(0, abs=1e-15)
    assert log_mean_exp([0.0, np.log(3)]) == pytest.approx(np.log(2))
    assert misfit_effect(f) == pytest.approx(0.25)  # of f - 1: ln f has mean 0
    # a wrong round ruins one who stakes all
    assert log_e_value(np.zeros(1)) == pytest.approx(np.log((0.9 + 0.5) / 3))
    assert mean_e(6) == pytest.approx(1, rel=1e-12)
    assert mean_e(3, share=np.array([1.0, 0.1, 0.4])) == pytest.approx(1, rel=1e-12)
    # rounds that repeat the choice of their group
    group = np.array([0, 0, 0, 1, 2])
    repeated = [(a, a, a, b, c) for a, b, c in product(range(3), repeat=3)]
    assert mean_e(5, group=group, choices=repeated) == pytest.approx(1, rel=1e-12)
    # as if they were independent it is none
    f = GUESS / MU
    alone = [np.exp(log_e_value(np.repeat(f[a], 3))) for a in range(3)]
    assert MU @ alone > 3
    # thinned rounds with their weights
    # rounds of action 2 are all kept, others with probability 1/2, 1/10
    kept = np.array([0.5, 0.1, 1.0])
    law = MU * kept / (MU @ kept)
    share, f = kept.min() / kept, GUESS / MU
    logs = map(list, product(range(3), repeat=3))
    total = sum(law[a].prod() * np.exp(log_e_value(f[a], share[a])) for a in logs)
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


# -- models of the logger ----------------------------------------------------------
def mean_e_value(mu, n_rounds, actions=None):
    """Exact mean of E over all logs of a few rounds, in equally frequent contexts."""
    half = np.arange(n_rounds) % 2
    total = 0.0
    for context in product(range(len(mu)), repeat=n_rounds):
        for log in product(range(mu.shape[1]), repeat=n_rounds):
            x, log = np.array(context), np.array(log)
            p = mu[x, log]
            logs = logs_of(x[:, None], log, p, actions=actions)
            predicted = held_out_proba(logs, np.arange(n_rounds), crosswise(half))
            f = probability_ratio(predicted, p, logs.n_actions)
            e = log_mean_exp([log_e_value(f[half == k]) for k in (0, 1)])
            total += p.prod() * np.exp(e) / len(mu) ** n_rounds
    return total


def test_the_mean_e_value_of_a_model_is_at_most_one():
    mu = np.array([[0.8, 0.2], [0.1, 0.9]])
    assert mean_e_value(mu, 3) < 1 + 1e-12
    # whether the log names the actions or leaves those out that it never saw
    skewed = np.array([[0.98, 0.01, 0.01]])
    assert mean_e_value(skewed, 4, actions=[0, 1, 2]) < 1 + 1e-12
    assert mean_e_value(skewed, 4) < 1 + 1e-12


def test_a_held_out_probability_is_one_of_the_other_half():
    action = np.array([0, 1, 0, 1, 2, 1, 0, 1])
    logs = plain_logs(action, None, actions=range(4))
    for half, expected in (
        (np.arange(8) % 2, [0] * 8),  # even rounds: 0, 0, 2, 0; odd ones: 1
        # 0, 1, 1, 0 and 0, 1, 2, 1
        (np.array([0, 0, 1, 1, 1, 0, 0, 1]), [0.25, 0.5, 0.5, 0.5, 0, 0.5, 0.25, 0.5]),
    ):
        found = held_out_proba(logs, np.arange(8), crosswise(half))
        assert_allclose(found, expected)


def test_probabilities_sum_to_one_over_what_is_offered():
    x, _, action, p = world(200)
    offered = np.random.default_rng(0).random((200, 4)) < 0.6
    offered[np.arange(200), action] = True
    half = np.arange(200) % 2
    for context in (x, np.empty((200, 0))):  # a regression, frequencies
        total = np.zeros(200)
        for other in range(4):  # the last round takes every action in turn
            changed = action.copy()
            changed[-1] = other
            could = offered.copy()
            could[-1] = [True, False, True, True]
            if not could[-1, other]:
                continue
            logs = logs_of(context, changed, p, available=could, actions=range(4))
            total += held_out_proba(logs, np.arange(200), crosswise(half))
        assert total[-1] == 1 or abs(total[-1] - 1) < 1e-12


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


def test_bets_have_mean_one():
    x, vip, hour, action = shop(6000)
    learned = np.arange(6000) < 4000
    mu = RULE[np.where(hour >= 18, 1, np.where(vip, 0, 2))]  # wrong where it learned
    mean, bets = expected_f(x, mu, action, (~learned).astype(int))
    assert bets.cell.max() >= 0  # something is bet
    assert mean == pytest.approx(1, abs=1e-12)
    # the mean e value of temperatures is one
    mu = np.array([[0.7, 0.25, 0.05], [0.1, 0.9, 0.0], [1.0, 0.0, 0.0]])
    rows, total = np.arange(3), 0.0
    for log in product(range(3), repeat=3):
        chance = mu[rows, log].prod()
        if chance:
            total += chance * np.exp(calibration_evidence(mu, np.array(log))[0])
    assert total == pytest.approx(1, rel=1e-12)


# -- means of 1/p ---------------------------------------------------------------------
def test_the_means_by_hand():
    log = d8()
    logs = BanditLogs(log.x[:, None], log.action, log.reward, log.propensity)
    inverse = InversePropensities(logs, np.arange(8))
    assert inverse.half_step == 0.005
    inverse.half_step = 0  # as if they had more digits
    assert_allclose(inverse.by_action(), [1.125, 1.0417, 1.0417], atol=5e-4)
    one = inverse.too_small_for(0)
    values = np.where(log.action == 0, 1 / log.propensity, 0)
    error = values.std(ddof=1) / np.sqrt(8)
    assert one.ratio == pytest.approx(1.125)
    assert one.z == pytest.approx(0.125 / error)
    assert not one.beyond(0, 1)  # eight rounds tell nothing
    assert Excess(1.2, 5.0, 1000).beyond(4, 1.1)
    assert not Excess(1.2, 3.9, 1000).beyond(4, 1.1)
    assert not Excess(1.09, 50.0, 1000).beyond(4, 1.1)
    assert not Excess(2.0, 50.0, 29).beyond(4, 1.1)
    # without any spread: that 40 rounds all hit what has probability 1 / 1.2 is luck
    assert not Excess(1.2, np.inf, 40).beyond(4, 1.1)
    assert Excess(1.2, np.inf, 50).beyond(4, 1.1)
    # the frequent actions are those of the other half
    # the mean of 1/p over actions chosen by their own counts would be too large
    excess = []
    for seed in range(200):
        action = np.random.default_rng(seed).integers(21, size=600)
        inverse = InversePropensities(plain_logs(action, 1 / 21), np.arange(600))
        assert 0 < inverse.frequent.mean() < 1
        excess.append(inverse.too_small().ratio - 1)
    error = np.std(excess) / np.sqrt(200)
    assert abs(np.mean(excess)) < 4 * error < 0.02


# -- rounds in their order -----------------------------------------------------------
def test_what_a_learner_follows_by_hand():
    """One action: c_j = p_{j+1} - p_{j-1}, e_j = r_j - (r_{j-1} + r_{j+1}) / 2."""
    rng = np.random.RandomState(0)
    n = 600
    p, r = rng.uniform(0.2, 0.8, size=n), rng.normal(size=n)
    p[1:] += 0.1 * np.tanh(r[:-1])
    chance, correlation = Sequences(np.zeros(n, int), p, r).follow(1)
    c = np.array([p[j + 1] - p[j - 1] for j in range(1, n - 1)])
    e = np.array([r[j] - (r[j - 1] + r[j + 1]) / 2 for j in range(1, n - 1)])
    unit = [np.sqrt(np.mean(c[max(j - 16, 0) : j + 17] ** 2)) for j in range(len(c))]
    expected = np.corrcoef(c / unit, e)[0, 1]
    assert_allclose(correlation, expected, atol=0.01)
    assert chance < 1e-4


def test_a_spread_by_hand():
    steps = np.tile(np.repeat([1.0, -1.0], 5), 20)
    # (40 / 78) times 39 changes of 10; blocks of 10 sum up to zero
    assert long_run_spread(steps) == pytest.approx(np.sqrt(40 / 78 * 39 * 100))
    assert long_run_spread(steps[:90]) == pytest.approx(np.sqrt(90))  # too few
    steps = np.tile([1.0, -1.0], 100)
    assert long_run_spread(steps) == pytest.approx(np.sqrt(200))  # blocks of 0, 1
    rng = np.random.default_rng(0)
    noise = rng.normal(size=4000)
    drift = noise + np.linspace(-0.5, 0.5, 4000)
    assert long_run_spread(drift) < 1.1 * long_run_spread(noise)
    assert abs(np.cumsum(drift)).max() > 4 * long_run_spread(drift)


@pytest.mark.parametrize("phi", [0.0, 0.9, 0.95])
def test_it_is_the_spread_of_the_sum(phi):
    # an autoregression's sum has the variance n / (1 - phi)^2 in the long run
    noise = np.random.default_rng(0).normal(size=(200, 8000))
    steps = lfilter([1.0], [1.0, -phi], noise)
    found = (
        np.array([long_run_spread(one) for one in steps]) ** 2 / 8000 * (1 - phi) ** 2
    )
    # the larger of two estimates is a little too large, never too small
    assert 0.97 < np.mean(found) < 1.25


def with_gaps(gaps):
    reward = np.zeros(1 + sum(gaps))
    reward[np.cumsum([0, *gaps])] = 1
    return reward


def chance_at_end(reward, length):
    gaps = np.diff(np.flatnonzero(reward))
    return chance_of_gap(*np.unique(gaps, return_counts=True), length)


def test_tails_by_hand_and_of_many_logs():
    gaps = np.random.default_rng(0).permutation(np.repeat([1, 31], [90, 10]))
    reward = with_gaps(gaps)
    expected = 0.1 * 30 / 4 * np.exp(-99 / 30)
    assert chance_at_end(reward, 100) == pytest.approx(expected)
    assert chance_at_end(reward, 1) == pytest.approx(0.75)  # lies in a long gap
    assert chance_at_end(with_gaps(gaps[:99]), 100) == 0  # too few gaps
    assert chance_at_end(with_gaps([2] * 200), 100) == 0
    # one standard error above the mean gap is chance
    near = np.repeat([6, 1, 10], [90, 0, 10])
    assert chance_at_end(with_gaps(near), 100) == 0
    assert chance_at_end(np.zeros(1000), 100) == 0
    heavy = sum(chance_at_end(clicks(0.1, 5000, seed), 90) > 0 for seed in range(200))
    assert heavy <= 6
    # the chance is that of logs that end anywhere
    # bursts: of the gaps between rewards one in ten is geometric with a mean of 200
    rng = np.random.default_rng(0)
    gaps = np.where(rng.random(30_000) < 0.9, 1, rng.geometric(1 / 200, 30_000))
    last = np.cumsum(gaps)
    ends = rng.integers(last[0], last[-1], 20_000)
    since = ends - last[np.searchsorted(last, ends, "right") - 1]
    reward = with_gaps(gaps[:2000])
    for length in (200, 600):
        share = (since >= length).mean()
        assert chance_at_end(reward, length) == pytest.approx(share, rel=0.25)


def test_repeats_by_hand():
    # two contexts; a: blue .6, red .4; b: blue .5, red .5
    logs = BanditLogs(
        [[0.0], [0.0], [0.0], [1.0], [1.0], [0.0]],
        ["blue", "blue", "red", "red", "red", "blue"],
        np.zeros(6),
        [0.6, 0.6, 0.4, 0.5, 0.5, 0.6],
    )
    situation, choice, _ = _joined_rows._round_words(logs, np.arange(6))
    test = _joined_rows._Repeats(situation, choice, logs.propensity)
    # the second blue .6, the red .6, the second red of the other context .5; then all
    # actions of the first context have been seen
    assert test.n_repeats == 2
    assert test.expected == pytest.approx(1.7)
    assert test.deviation**2 == pytest.approx(0.24 + 0.24 + 0.25)
    assert test.open.tolist() == [False, True, True, False, True, False]


@pytest.mark.thorough
def test_the_expected_number_of_repeats_is_right():
    # contexts that come back often, sharp and even loggers: a mean of 200 z is normal
    for scale in (0.5, 2.0):
        z = []
        for seed in range(200):
            logs = logs_of_columns(softmax_rounds(seed, 200, scale, 6, flags))
            rows = np.arange(200)
            situation, choice, _ = _joined_rows._round_words(logs, rows)
            test = _joined_rows._Repeats(situation, choice, logs.propensity)
            z.append(test.z)
        assert abs(np.mean(z)) < 4 / np.sqrt(200)
        assert np.std(z) == pytest.approx(1, abs=4 / np.sqrt(400))


def test_many_rounds_are_looked_at_by_context(monkeypatch):
    monkeypatch.setattr(_joined_rows, "MOST_COMPARED", 500)
    columns = softmax_rounds(0, 2000)
    rows = np.append(np.arange(2000), np.arange(400))
    facts, [found] = _joined_rows.repeated_findings(logs_of_columns(columns, rows))
    assert facts[SHARE] == pytest.approx(1 / 6, abs=4 * np.sqrt(5 / 36 / 500))
    assert found.effect == pytest.approx(facts[SHARE], rel=0.05)
    first, second = np.array(found.rows).reshape(-1, 2).T
    assert (second == first + 2000).all()

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The theorems of DR-ns: a bias of sums, and a bound of the deviation."""

from itertools import product

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import TimeSeriesSplit

from skope_ope import ActionRewardModel, BanditLogs, DRns, EpsilonGreedy
from skope_ope.datasets import make_bandit_logs
from skope_ope.evaluators import drns_sum_bias_bound
from tests._learners import spec_rule
from tests._quiet import quiet

MU = (0.25, 0.75)


@pytest.mark.parametrize("horizon", [1, 2, 17, 300])
@pytest.mark.parametrize("mass", [0.0, 0.1, 0.5, 0.99])
def test_the_formula_of_the_paper(horizon, mass):
    paper = horizon * (horizon + 1) / 2 * mass / (1 - mass)
    bound = drns_sum_bias_bound(mass, horizon)
    assert isinstance(bound, float)
    assert bound == pytest.approx(paper, rel=1e-14)


def test_other_ranges():
    # scaled
    assert drns_sum_bias_bound(0.1, 5, reward_range=(0, 4)) == pytest.approx(
        4 * drns_sum_bias_bound(0.1, 5)
    )
    # by hand: T = 3, (3 * 2 + 3 * 3) * 1 / 9
    assert drns_sum_bias_bound(0.1, 3, reward_range=(1, 3)) == pytest.approx(15 / 9)
    assert drns_sum_bias_bound(0.1, 3, reward_range=(-3, -1)) == pytest.approx(15 / 9)


def sums(q, c, n_rounds, history=()):
    """E[sum c R_B(t)] and E_pi[sum r] at a constant c, and the largest bias mass.

    A block gives V(h) / P(accept) in expectation (Wald), and its accepted round has the
    law min(mu, c pi) / P(accept).
    """
    pi = spec_rule([(0, *row) for row in history], 0)
    accept = [min(MU[a], c * pi[a]) for a in (0, 1)]
    chance, value = sum(accept), float(np.dot(pi, q))
    mass = 1 - chance / c
    if len(history) + 1 == n_rounds:
        return c * value / chance, mass
    total = c * value / chance
    for a, r in product((0, 1), repeat=2):
        of_reward = q[a] if r else 1 - q[a]
        rest, inner = sums(q, c, n_rounds, (*history, (a, r)))
        total += accept[a] / chance * of_reward * rest
        mass = max(mass, inner)
    return total, mass


def online(q, n_rounds, history=()):
    pi = spec_rule([(0, *row) for row in history], 0)
    total = float(np.dot(pi, q))
    if len(history) + 1 == n_rounds:
        return total
    for a, r in product((0, 1), repeat=2):
        of_reward = q[a] if r else 1 - q[a]
        total += pi[a] * of_reward * online(q, n_rounds, (*history, (a, r)))
    return total


@pytest.mark.parametrize("low", [0.0, -1.0, 2.0])
@pytest.mark.parametrize("c", [0.2, 0.3125, 0.4, 0.6, 1.0])
def test_the_bound_holds(c, low):
    """Rewards `low` and `low` + 1 with the probabilities q, exactly."""
    for q in ((1.0, 1.0), (0.9, 0.1), (0.3, 0.8)):
        estimate, mass = sums(q, c, 4)
        truth = online(q, 4)
        if low:  # the same blocks, all of whose rewards are higher by `low`
            lengths = blocks(q, c, 4)
            estimate, truth = estimate + low * lengths, truth + 4 * low
        bound = drns_sum_bias_bound(mass, 4, reward_range=(low, low + 1))
        assert abs(estimate - truth) <= bound + 1e-12
        if c <= 0.3125:  # mu >= c pi throughout
            assert mass == pytest.approx(0, abs=1e-12)
            assert estimate == pytest.approx(truth, abs=1e-12)
    if c == 1.0:
        assert abs(estimate - truth) > 0.2  # there is something to bound


def blocks(q, c, n_rounds, history=()):
    """E[sum c |B(t)|]."""
    pi = spec_rule([(0, *row) for row in history], 0)
    accept = [min(MU[a], c * pi[a]) for a in (0, 1)]
    chance = sum(accept)
    total = c / chance
    if len(history) + 1 < n_rounds:
        for a, r in product((0, 1), repeat=2):
            of_reward = q[a] if r else 1 - q[a]
            rest = blocks(q, c, n_rounds, (*history, (a, r)))
            total += accept[a] / chance * of_reward * rest
    return total


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ((1.0, 5), r"'bias_mass' parameter .* range \[0.0, 1.0\)"),
        ((-0.1, 5), "'bias_mass' parameter"),
        ((np.nan, 5), "'bias_mass' parameter"),
        ((0.1, 0), "'horizon' parameter"),
        ((0.1, 2.5), "'horizon' parameter"),
    ],
)
def test_bad_input(arguments, match):
    with pytest.raises(ValueError, match=match):
        drns_sum_bias_bound(*arguments)


@pytest.mark.parametrize("bounds", [(1, 0), (0, 0), (0, np.inf), (0, np.nan), (0,)])
def test_bad_ranges(bounds):
    with pytest.raises(ValueError, match="reward_range must be \\(low, high\\)"):
        drns_sum_bias_bound(0.1, 5, reward_range=bounds)


@pytest.mark.parametrize(
    ("n", "c", "weight", "paper", "sharp"),
    [
        (10_000, 1.0, 1, 0.076826, 0.054571),
        (10_000, 0.43, 10, 0.322092, 0.230921),
        (20_000, 0.65, 13, 0.167151, 0.119525),
    ],
)
def test_theorem_2(n, c, weight, paper, sharp):
    """The bound depends on n and on the sum of c only; all ratios are one."""
    action = np.arange(n) % 2
    logs = BanditLogs(np.empty((n, 0)), action, action, np.full(n, 0.5))
    evaluator = DRns(c_init=c, reward_model=0.5).fit(logs)
    evaluator.uniforms_ = np.full(n, 0.9999 if c < 1 else 0.5)  # c stays as it is
    result = quiet(evaluator, EpsilonGreedy(1.0))
    assert result.diagnostics["sum_c"] == pytest.approx(c * n)
    radius = result.deviation_bound(0.05, max_weight=weight, form="paper")
    assert radius == pytest.approx(paper, abs=1e-6)
    radius = result.deviation_bound(0.05, max_weight=weight)
    assert radius == pytest.approx(sharp, abs=1e-6)


def test_theorem_2_asks_for_what_it_needs():
    logs = make_bandit_logs(300, random_state=0)
    result = quiet(DRns(reward_model=0.5, random_state=0).fit(logs), EpsilonGreedy())
    assert result.deviation_bound(max_weight=1e4) > 0
    with pytest.raises(ValueError, match="Theorem 2 needs max_weight"):
        result.deviation_bound()
    with pytest.raises(ValueError, match="form must be 'sharp' or 'paper'"):
        result.deviation_bound(max_weight=20, form="blunt")
    for model in (None, LogisticRegression()):
        fitted = DRns(reward_model=model, random_state=0).fit(logs)
        with pytest.raises(ValueError, match="model fitted to other rounds"):
            quiet(fitted, EpsilonGreedy()).deviation_bound(max_weight=1e4)
    frozen = FrozenEstimator(ActionRewardModel(LogisticRegression()).fit(logs))
    fitted = DRns(reward_model=frozen, random_state=0).fit(make_bandit_logs(300))
    assert quiet(fitted, EpsilonGreedy()).deviation_bound(max_weight=1e4) > 0
    for parameters in ({"horizon": 5}, {"normalize": False}):
        fitted = DRns(reward_model=0.5, random_state=0, **parameters).fit(logs)
        with pytest.raises(ValueError, match="single normalised trace"):
            quiet(fitted, EpsilonGreedy()).deviation_bound(max_weight=1e4)
    for shift, match in ((3.0, "rewards in \\[0, 1\\]"), (0.0, "model values in")):
        shifted = BanditLogs(
            logs.context, logs.action, logs.reward + shift, logs.propensity
        )
        model = 0.5 if shift else 1.5
        result = quiet(DRns(reward_model=model).fit(shifted), EpsilonGreedy())
        with pytest.raises(ValueError, match=match):
            result.deviation_bound(max_weight=1e4)


def test_theorem_2_holds_for_a_model_of_other_rounds():
    logs = make_bandit_logs(300, random_state=0)
    fitted = DRns(reward_model=LogisticRegression(), random_state=0).fit(logs[:150])
    assert (
        quiet(fitted, EpsilonGreedy(), logs[150:]).deviation_bound(max_weight=1e4) > 0
    )
    with pytest.raises(ValueError, match="logs other than those of fit"):
        quiet(fitted, EpsilonGreedy(), logs[149:]).deviation_bound(max_weight=1e4)


@pytest.mark.parametrize("max_weight", [-5.0, 1.0, np.nan, np.inf])
def test_theorem_2_needs_a_bound_that_the_rounds_keep(max_weight):
    logs = make_bandit_logs(300, random_state=0)
    result = quiet(DRns(reward_model=0.5, random_state=0).fit(logs), EpsilonGreedy())
    with pytest.raises(ValueError, match=r"is not a bound on pi\(a\|x, h\) / p"):
        result.deviation_bound(max_weight=max_weight)


def test_theorem_2_charges_what_the_mean_of_earlier_rounds_cannot_know():
    """The first round is predicted by later ones: the most that it can do is added."""
    logs = make_bandit_logs(300, random_state=0)
    evaluator = DRns(cv=TimeSeriesSplit(), random_state=0)
    result = quiet(evaluator.fit(logs), EpsilonGreedy())
    known = DRns(reward_model=0.5, random_state=0).fit(logs)
    without = quiet(known, EpsilonGreedy())
    for form in ("sharp", "paper"):
        radius, plain = (
            one.deviation_bound(max_weight=1e4, form=form) for one in (result, without)
        )
        charge = (1 + 1e4) / result.acceptance_ratios.sum()
        assert radius == pytest.approx(plain + charge, rel=1e-12)

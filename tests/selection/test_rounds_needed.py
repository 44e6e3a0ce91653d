# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""How many rounds a decision takes, and how often decisions are wrong."""

from math import inf, isnan

import numpy as np
import pytest
from scipy.stats import norm

from skope_ope import IPS, BanditLogs, compare_policies
from skope_ope.selection import rounds_needed

ignore = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")


def test_by_hand():
    z = norm.ppf(0.975) + norm.ppf(0.8)
    assert rounds_needed(0.1, 2.0) == np.ceil((z * 2.0 / 0.1) ** 2) == 3140
    assert rounds_needed(-0.1, 2.0) == 3140  # a loss takes as many
    z = norm.ppf(1 - 0.1 / 10) + norm.ppf(0.5)
    n = rounds_needed(0.1, 2.0, level=0.9, n_comparisons=5, power=0.5)
    assert n == np.ceil((z * 2.0 / 0.1) ** 2)


def test_of_a_difference():
    rng = np.random.RandomState(0)
    action = rng.randint(2, size=300)
    logs = BanditLogs(np.zeros((300, 1)), action, rng.random_sample(300), [0.5] * 300)
    evaluator = IPS().fit(logs)
    one, two = (evaluator.evaluate(np.eye(2)[[k] * 300]) for k in (0, 1))
    gain = one - two
    sd = gain.standard_error * 300**0.5
    assert rounds_needed(gain) == rounds_needed(gain.value, sd)
    assert rounds_needed(gain, 2 * sd) > rounds_needed(gain)


def test_power_of_so_many_rounds(global_random_seed):
    n = int(rounds_needed(0.3, 1.0, n_comparisons=3))
    draws = np.random.RandomState(global_random_seed).normal(0.3, 1.0, (2000, n))
    low = draws.mean(axis=1) - norm.ppf(1 - 0.05 / 6) * draws.std(axis=1) / n**0.5
    assert np.mean(low > 0) == pytest.approx(0.8, abs=4 * (0.8 * 0.2 / 2000) ** 0.5)


def test_what_has_no_number_and_what_is_none():
    assert rounds_needed(0.0, 1.0) == inf
    assert isnan(rounds_needed(np.nan, 1.0)) and isnan(rounds_needed(0.1, np.nan))
    assert rounds_needed(0.1, 0.0) == 1
    assert rounds_needed(0.1, 1.0, power=0.001) == 1
    with pytest.raises(TypeError, match="gain must be a number or a difference"):
        rounds_needed("new", 1.0)


@pytest.mark.parametrize(
    "given, match",
    [
        ({"standard_deviation": None}, "standard_deviation must be a number"),
        ({"standard_deviation": -1.0}, "standard_deviation must be a number"),
        ({"level": 95}, r"level must be a number in \(0, 1\), got 95"),
        ({"power": 1.0}, r"power must be a number in \(0, 1\)"),
        ({"n_comparisons": 0}, "n_comparisons must be a whole number of at least 1"),
        ({"n_comparisons": 1.5}, "n_comparisons must be a whole number"),
    ],
)
def test_bad_input(given, match):
    with pytest.raises(ValueError, match=match):
        rounds_needed(0.1, **{"standard_deviation": 1.0, **given})


# -- decisions on fresh logs ----------------------------------------------------------
N_ACTIONS, N_LOGS = 4, 100


def decide(n_rounds, m, rates, rng, n_groups=None):
    """Compare m policies with the logger on fresh logs of a uniform logger."""
    action = rng.randint(N_ACTIONS, size=n_rounds)
    rate, fields = np.take(rates, action), {"actions": range(N_ACTIONS)}
    if n_groups:
        group = fields["group"] = np.arange(n_rounds) % n_groups
        rate = np.minimum(rate * rng.gamma(2, 0.5, size=n_groups)[group], 1)
    reward = (rng.random_sample(n_rounds) < rate).astype(float)
    x, p = np.zeros((n_rounds, 1)), np.full(n_rounds, 1 / N_ACTIONS)
    logs = BanditLogs(x, action, reward, p, reward_range=(0, 1), **fields)
    shares = np.random.RandomState(7).dirichlet(np.full(N_ACTIONS, 0.5), size=m)
    shares[0] = np.eye(N_ACTIONS)[0]
    policies = {str(k): np.tile(share, (n_rounds, 1)) for k, share in enumerate(shares)}
    return compare_policies(policies, logs)


def at_most(share):
    """Return a share that chance exceeds by four standard errors only."""
    return share + 4 * (share * (1 - share) / N_LOGS) ** 0.5


@pytest.mark.theory
@ignore
@pytest.mark.parametrize(
    ("m", "rate", "n_groups"),
    [(1, 0.01, None), (1, 0.1, 50), (5, 0.1, None), (5, 0.01, 50), (20, 0.1, None)],
)
def test_false_deploys(m, rate, n_groups, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    rates = np.full(N_ACTIONS, rate)
    found = [decide(2000, m, rates, rng, n_groups).decision for _ in range(N_LOGS)]
    assert found.count("deploy") <= at_most(0.025) * N_LOGS


@pytest.mark.theory
@ignore
@pytest.mark.parametrize("m", [1, 5])
def test_so_many_rounds_decide(m, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    rates = np.array([0.3, 0.2, 0.2, 0.2])
    gain = 0.3 - rates.mean()
    # with the mean reward of every action as the model: value - reward + correction
    p = 1 / N_ACTIONS
    noise = (rates * (1 - rates) * (np.eye(N_ACTIONS)[0] / p - 1) ** 2).mean()
    sd = (noise + rates.var()) ** 0.5
    n_rounds = int(rounds_needed(gain, sd, n_comparisons=m))
    found = [decide(n_rounds, m, rates, rng).to_records()[0] for _ in range(N_LOGS)]
    answers = [record["answer"] for record in found]
    told = answers.count("better") / N_LOGS
    assert told >= 0.8 - 4 * (0.8 * 0.2 / N_LOGS) ** 0.5
    assert "worse" not in answers

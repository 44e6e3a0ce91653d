# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""How often decisions are wrong, and how often rounds decide that should."""

import numpy as np
import pytest

from skope_ope import BanditLogs, compare_policies
from skope_ope.selection import rounds_needed

pytestmark = [
    pytest.mark.theory,
    pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning"),
]
N_ACTIONS, N_LOGS = 4, 100


def decide(n_rounds, m, rates, rng, n_groups=None):
    """Compare m policies with the logger on fresh logs of a uniform logger."""
    action = rng.randint(N_ACTIONS, size=n_rounds)
    rate, group = np.take(rates, action), None
    if n_groups:
        group = np.arange(n_rounds) % n_groups
        rate = np.minimum(rate * rng.gamma(2, 0.5, size=n_groups)[group], 1)
    reward = (rng.random_sample(n_rounds) < rate).astype(float)
    logs = BanditLogs(
        np.zeros((n_rounds, 1)),
        action,
        reward,
        np.full(n_rounds, 1 / N_ACTIONS),
        actions=range(N_ACTIONS),
        group=group,
        reward_range=(0, 1),
    )
    shares = np.random.RandomState(7).dirichlet(np.full(N_ACTIONS, 0.5), size=m)
    shares[0] = np.eye(N_ACTIONS)[0]
    policies = {str(k): np.tile(share, (n_rounds, 1)) for k, share in enumerate(shares)}
    return compare_policies(policies, logs)


def at_most(share):
    """Return a share that chance exceeds by four standard errors only."""
    return share + 4 * (share * (1 - share) / N_LOGS) ** 0.5


@pytest.mark.parametrize("n_groups", [None, 50])
@pytest.mark.parametrize("rate", [0.01, 0.1])
@pytest.mark.parametrize("m", [1, 5, 20])
def test_false_deploys(m, rate, n_groups, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    rates = np.full(N_ACTIONS, rate)
    found = [decide(2000, m, rates, rng, n_groups).decision for _ in range(N_LOGS)]
    assert found.count("deploy") <= at_most(0.025) * N_LOGS


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
    found = [decide(n_rounds, m, rates, rng)._answers[0] for _ in range(N_LOGS)]
    told = sum(verdict.answer == "better" for verdict in found)
    assert told / N_LOGS >= 0.8 - 4 * (0.8 * 0.2 / N_LOGS) ** 0.5
    assert not any(verdict.answer == "worse" for verdict in found)

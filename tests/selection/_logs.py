# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Logs on which searches are tried."""

from functools import cache

import numpy as np

from skope_ope import ClassifierPolicy, ConstantPolicy, UniformPolicy
from skope_ope.datasets import make_bandit_logs


def problem(n_rounds=300, seed=0, **options):
    """Logs and a policy that is fitted to other contexts."""
    options.setdefault("logging_temperature", 5.0)  # no weight is alarming
    logs = make_bandit_logs(n_rounds, reward="binary", random_state=seed, **options)
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(60, logs.n_features))
    policy = ClassifierPolicy(epsilon=0.3).fit(X, rng.randint(logs.n_actions, size=60))
    return logs, policy


def losses_of(search):
    """Losses of every split and candidate."""
    names = [f"split{k}_test_score" for k in range(search.n_splits_)]
    return -np.stack([search.cv_results_[name] for name in names])


@cache
def three_policies():
    """Logs of 400 rounds and three policies."""
    logs, policy = problem(400)
    one = ConstantPolicy(logs.actions[0]).fit(logs)
    return logs, {"uniform": UniformPolicy(), "fitted": policy, "mixed": one}

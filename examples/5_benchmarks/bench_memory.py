# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""
How much memory does a whole evaluation need?
=============================================

A classifier's policy and a cross-fitted reward model on logs of growing length, with
few actions and with many. Probabilities and predictions exist for a chunk of rounds at
a time, so the peak is O(n + chunk * K): what a round adds must not grow with the number
of actions. Run it as ::

    python examples/5_benchmarks/bench_memory.py

The peak is that of `tracemalloc` during `evaluate`, beside logs and policy. A table
with an entry for every round and action would take 8 K bytes a round.

With very many actions even a fixed number of rounds would need much: 5,000 rounds of
100,000 actions are 4 GB as a table. The last lines show the peaks of policies there.
"""

import argparse
import tracemalloc
import warnings

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.naive_bayes import GaussianNB

from skope_ope import (
    IPS,
    BanditLogs,
    ClassifierPolicy,
    ConstantPolicy,
    FunctionPolicy,
    UniformPolicy,
    evaluate,
)

EACH = 300  # bytes for a further round, whatever the number of actions
MOST = 300  # MB, for the value of a policy among very many actions


def make_logs(n_rounds, n_actions, n_features=5, seed=0):
    """Logs of a uniform logger, every action good for some contexts."""
    rng = np.random.default_rng(seed)
    context = rng.normal(size=(n_rounds, n_features))
    action = rng.integers(0, n_actions, n_rounds)
    slope = np.cos(np.arange(n_actions))
    chance = 0.5 + 0.4 * np.tanh(context[:, 0] * slope[action])
    return BanditLogs(
        context,
        action,
        (rng.random(n_rounds) < chance).astype(float),
        np.full(n_rounds, 1 / n_actions),
        actions=np.arange(n_actions),
    )


def evaluation(n_rounds, n_actions):
    """Peak in bytes of one evaluation with everything fitted in it."""
    train = make_logs(20_000, n_actions, seed=1)
    policy = ClassifierPolicy(GaussianNB(), epsilon=0.2).fit(train)
    logs = make_logs(n_rounds, n_actions)
    tracemalloc.start()
    evaluate(policy, logs, reward_model=Ridge())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def many_actions(n_rounds, n_actions):
    """Print the peak of IPS for policies among very many actions."""
    logs = make_logs(n_rounds, n_actions)
    policies = {
        "ConstantPolicy": ConstantPolicy(int(logs.action[0])),
        "UniformPolicy": UniformPolicy(),
        "FunctionPolicy": FunctionPolicy(
            lambda X: np.full((len(X), n_actions), 1 / n_actions)
        ),
    }
    print(f"IPS, {n_actions:,} actions, {n_rounds:,} rounds, peak in MB")
    evaluator = IPS().fit(logs)
    for name, policy in policies.items():
        tracemalloc.start()
        evaluator.score(policy)
        peak = tracemalloc.get_traced_memory()[1] / 1e6
        tracemalloc.stop()
        print(f"  {name:20}{peak:8.1f}")
        assert peak < MOST, f"{name}: {peak:.0f} MB"


def main():
    parser = argparse.ArgumentParser(description="Memory of a whole evaluation.")
    parser.add_argument("--n-rounds", type=int, nargs="+", default=[100_000, 300_000])
    parser.add_argument("--n-actions", type=int, nargs="+", default=[10, 50])
    parser.add_argument("--many", type=int, nargs=2, default=[5_000, 100_000])
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # the direct method's, about its standard error
    print(f"{'K':>5}{'n':>12}{'peak MiB':>12}{'bytes a further round':>24}")
    for n_actions in options.n_actions:
        before = None
        for n_rounds in sorted(options.n_rounds):
            peak = evaluation(n_rounds, n_actions)
            slope = ""
            if before is not None:
                each = (peak - before[1]) / (n_rounds - before[0])
                slope = f"{each:.0f}"
                assert each <= EACH, f"{each:.0f} bytes for a further round"
            print(f"{n_actions:5}{n_rounds:12,}{peak / 2**20:12.1f}{slope:>24}")
            before = n_rounds, peak
        print(f"      a table of rounds and actions: {8 * n_actions} bytes a round")
    many_actions(*options.many)


if __name__ == "__main__":
    main()

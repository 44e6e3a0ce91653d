# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""
What does it cost to maximise the value itself?
===============================================

`SoftmaxPolicy` reads all rounds and all actions at every step of its ascent. Here are
the processor time of a step, beside a product of the contexts with as many columns as
there are actions, and the peak memory of a whole fit, with few actions and with a
thousand. Tables of rounds and actions are never whole: the peak is bounded. Run it
as ::

    python examples/5_benchmarks/bench_softmax_policy.py

A fit that runs to its end takes 20 to 200 steps. Steps of the model of the logger,
where the ascent starts, cost the same and are in the time.
"""

import argparse
import tracemalloc
import warnings
from time import process_time

import numpy as np
from _measure import alternate
from sklearn.exceptions import ConvergenceWarning

from skope_ope import BanditLogs, SoftmaxPolicy

AIM, PRODUCTS = 150, 250  # of contexts and columns, for a step: wanted, asserted
MOST = 300  # MB, beside the logs

parser = argparse.ArgumentParser()
parser.add_argument("--n-rounds", type=int, default=20_000)
parser.add_argument("--n-actions", type=int, nargs="+", default=[10, 1000])
parser.add_argument("--max-iter", type=int, default=3, help="steps of an ascent")
parser.add_argument("--most", type=float, default=PRODUCTS, help="products a step")
args = parser.parse_args()


def make_logs(n_rounds, n_actions, n_features=10, seed=0):
    """Logs of a uniform logger, every action good for some contexts."""
    rng = np.random.default_rng(seed)
    context = rng.normal(size=(n_rounds, n_features))
    action = rng.integers(0, n_actions, n_rounds)
    taste = rng.normal(size=(n_actions, n_features))
    chance = 1 / (1 + np.exp(-(context * taste[action]).sum(axis=1)))
    return BanditLogs(
        context,
        action,
        (rng.random(n_rounds) < chance).astype(float),
        np.full(n_rounds, 1 / n_actions),
        actions=np.arange(n_actions),
    )


def fit(logs):
    """Return CPU seconds and steps of a fit that is cut short."""
    policy = SoftmaxPolicy(reward_model=0.5, max_iter=args.max_iter)
    start = process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        policy.fit(logs)
    return process_time() - start, policy.n_iter_ + args.max_iter


peaks = []
print(f"products for a step: {AIM} wanted, {args.most:.0f} asserted")
print(f"{args.n_rounds} rounds")
print(f"{'actions':>8}{'x a product':>13}{'peak MB':>9}{'a table, MB':>13}")
for n_actions in args.n_actions:
    logs = make_logs(args.n_rounds, n_actions)
    seconds, steps = fit(logs)
    columns = np.ones((logs.n_features, n_actions))
    product = min(alternate({"": lambda: logs.context @ columns}, 3)[""])  # noqa: B023
    products = seconds / steps / product
    tracemalloc.start()
    fit(logs)
    peaks.append(tracemalloc.get_traced_memory()[1] / 1e6)
    tracemalloc.stop()
    table = 8e-6 * args.n_rounds * n_actions
    print(f"{n_actions:8}{products:13.1f}{peaks[-1]:9.0f}{table:13.0f}")

    assert products <= args.most, f"a step costs {products:.0f} products"

assert max(peaks) < MOST

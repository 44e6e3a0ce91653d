# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""
How long does scavenging take?
==============================

Ten million impressions, as rounds of one item and as pages of four: one pass over the
rows each, in chunks. Run it as ::

    python examples/5_benchmarks/bench_scavenging.py

The peak is that of `tracemalloc`, beside logs and target. No other package implements
these estimators; what stands beside is the time per impression, which must not grow
with the length of the logs.
"""

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"  # read once, when numpy is imported

import argparse
import tracemalloc
from time import process_time

import numpy as np

from skope_ope import (
    AttentionDecay,
    BanditLogs,
    ExplorationScavenging,
    FunctionPolicy,
    PositionScavenging,
    ReorderingScavenging,
    SlateLogs,
)

N_ITEMS, N_SLOTS, N_ACTIONS = 200, 4, 10
ATTENTION = np.array([1.0, 0.6, 0.5, 0.4])


def make_pages(n_pages, rng):
    """Pages of distinct random items, one click in twenty impressions."""
    first = rng.integers(0, N_ITEMS, size=(n_pages, 1))
    step = rng.integers(1, N_ITEMS // N_SLOTS, size=(n_pages, 1))
    slate = (first + step * np.arange(N_SLOTS)) % N_ITEMS
    clicks = (rng.random(slate.shape) < 0.08 * ATTENTION).astype(float)
    return SlateLogs(
        np.empty((n_pages, 0)), slate, None, n_candidates=N_ITEMS, slot_reward=clicks
    )


def make_rounds(n_rounds, rng):
    """Rounds of a logger that ignores the context."""
    context = rng.integers(0, N_ACTIONS, size=(n_rounds, 1)).astype(float)
    action = rng.integers(0, N_ACTIONS, size=n_rounds)
    return BanditLogs(context, action, rng.random(n_rounds))


def play_the_context(X):
    """Play the action whose number is the context."""
    return np.eye(N_ACTIONS)[X[:, 0].astype(int)]


def tasks(n_impressions):
    """Yield what is measured, by name."""
    rng = np.random.default_rng(0)
    rounds, policy = make_rounds(n_impressions, rng), FunctionPolicy(play_the_context)
    yield (
        "ExplorationScavenging",
        lambda: ExplorationScavenging().fit(rounds).score(policy),
    )
    pages = make_pages(n_impressions // N_SLOTS, rng)
    target = np.tile(np.arange(N_SLOTS), (len(pages), 1))
    reordered = pages.slate[:, ::-1]
    yield "AttentionDecay", lambda: AttentionDecay().fit(pages)
    yield (
        "PositionScavenging",
        lambda: PositionScavenging(attention=ATTENTION).fit(pages).score(target),
    )
    yield (
        "ReorderingScavenging",
        lambda: ReorderingScavenging(attention=ATTENTION).fit(pages).score(reordered),
    )


def main():
    parser = argparse.ArgumentParser(description="Time and memory of scavenging.")
    parser.add_argument(
        "--n-impressions", type=int, nargs="+", default=[1_000_000, 10_000_000]
    )
    options = parser.parse_args()
    print(
        f"{'':>22}{'impressions':>14}{'CPU s':>8}{'ns each':>9}{'peak bytes each':>17}"
    )
    for n in options.n_impressions:
        for name, task in tasks(n):
            start = process_time()
            task()
            seconds = process_time() - start
            tracemalloc.start()
            task()
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            each, bytes_each = 1e9 * seconds / n, peak / n
            print(f"{name:>22}{n:14,}{seconds:8.2f}{each:9.0f}{bytes_each:17.1f}")


if __name__ == "__main__":
    main()

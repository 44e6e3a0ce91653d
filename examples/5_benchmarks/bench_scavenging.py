# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""
How long does scavenging take?
==============================

Two million impressions, as rounds of one item and as pages of four: one pass over the
rows each, in chunks. Run it as ::

    python examples/5_benchmarks/bench_scavenging.py

No other package implements these estimators. We compare with `np.bincount` of the
impressions by item with the rewards as weights, and the cost of an impression in logs a
tenth as long, which must not be less. The peak is that of `tracemalloc`, beside logs
and target. All three are asserted.
"""

import argparse

import numpy as np
from _measure import alternate, peak_mib, ratio

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
COUNTS, GROWTH, BYTES = 200, 1.5, 100  # asserted: no more than this
AIM = 60  # np.bincount, wanted


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
    parser = argparse.ArgumentParser(description="Cost of scavenging.")
    parser.add_argument("--n-impressions", type=int, default=2_000_000)
    n = parser.parse_args().n_impressions
    rng = np.random.default_rng(1)
    item, reward = rng.integers(0, N_ITEMS, n), rng.random(n)
    print(f"{'':>22}{'x bincount':>14}{'x a tenth':>14}{'peak bytes each':>18}")
    print(f"{'wanted; asserted':>22}{f'{AIM}; {COUNTS}':>14}")
    short = dict(tasks(n // 10))
    for name, task in tasks(n):
        calls = {"long": task, "short": short[name]}
        calls["bincount"] = lambda: np.bincount(item, weights=reward)
        times = alternate(calls, 3)
        counts, grown = ratio(times, "long", "bincount"), ratio(times, "long", "short")
        grown, each = grown / 10, peak_mib(task) * 2**20 / n
        print(f"{name:>22}{counts:14.1f}{grown:14.2f}{each:18.1f}", flush=True)
        assert counts <= COUNTS, f"{name}: {counts:.0f} times np.bincount"
        assert grown <= GROWTH, f"{name}: an impression costs {grown:.2f} times"
        assert each <= BYTES, f"{name}: {each:.0f} bytes for each impression"


if __name__ == "__main__":
    main()

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""
How long does the pseudoinverse take?
=====================================

The pseudoinverse estimator at the loggers that matter, beside what a textbook does:
second moments and their pseudoinverse in every round. Run it as ::

    python examples/5_benchmarks/bench_slates.py

Slots that are filled independently are compared with `vw-estimators`, where that is
installed: it has this case of the estimator, and a Gaussian interval. `fit` checks the
logs once; what is printed and asserted is the processor time of the other over that of
`evaluate`, interval included. The peak is that of `tracemalloc`, beside the logs.
"""

import argparse
import tracemalloc
import warnings
from itertools import permutations
from time import process_time

import numpy as np
from _measure import missing

from skope_ope import (
    PlackettLuceSlatePolicy,
    PseudoInverse,
    SlateLogs,
    UniformSlatePolicy,
)
from skope_ope.policies import ProductSlatePolicy

M, L = 10, 5  # candidates and slots


def seconds(call, repeats=3):
    """Least processor time of a call."""
    times = []
    for _ in range(repeats):
        start = process_time()
        call()
        times.append(process_time() - start)
    return min(times)


def rankings(n_rounds, rng, m=M, n_slots=L):
    """Random slates without repetition."""
    return np.argsort(rng.random((n_rounds, m)), axis=1)[:, :n_slots]


def logs_of(slates, logger, rng, m=M):
    """Logs of slates with rewards at random."""
    n_rounds = len(slates)
    return SlateLogs(
        np.zeros((n_rounds, 1)),
        slates,
        rng.random(n_rounds),
        n_candidates=m,
        logging_policy=logger,
    )


def value_and_interval(logs, target):
    """Return a fitted evaluation, to be timed."""
    evaluator = PseudoInverse().fit(logs)
    return lambda: evaluator.evaluate(target).confidence_interval()


def indicators(slates, m=M):
    """1_s of slates, one row each."""
    return (slates[:, :, None] == np.arange(m)).reshape(len(slates), -1).astype(float)


def textbook(slates, proba, target, logged):
    """Weight of a round: sum over all slates, pseudoinverse, product."""
    shown = indicators(slates)
    gamma = shown.T @ (proba[:, None] * shown)
    return indicators(target) @ np.linalg.pinv(gamma) @ indicators(logged).T


def ranking_proba(slates, weights):
    """Probabilities of all slates by weights."""
    drawn = weights[slates]
    before = np.cumsum(drawn, axis=1) - drawn
    return (drawn / (weights.sum() - before)).prod(axis=1)


def report(name, ours, theirs, least):
    """Print and check one line."""
    ratio = theirs / ours
    print(f"{name:44s} {ratio:10,.0f}")
    assert ratio >= least, f"{name}: {ratio:.1f} times faster, {least} expected"


def main(n_rounds):
    rng = np.random.default_rng(0)
    every = np.array(list(permutations(range(M), L)))
    print(f"{'':44s} {'times':>10s}")

    # uniform rankings: a closed form against a pseudoinverse in every round
    logs = logs_of(rankings(n_rounds, rng), UniformSlatePolicy(L), rng)
    target = rankings(n_rounds, rng)
    ours = seconds(value_and_interval(logs, target)) / n_rounds
    shown = indicators(every)
    gamma = shown.T @ shown / len(every)
    pinv = seconds(lambda: [np.linalg.pinv(gamma) for _ in range(20)]) / 20
    report("uniform logger / pinv", ours, pinv, 500)
    longer = rankings(4 * n_rounds, rng)
    long_logs = logs_of(longer, UniformSlatePolicy(L), rng)
    ours = seconds(value_and_interval(long_logs, longer)) / (4 * n_rounds)
    report("... of four times as many rounds / pinv", ours, pinv, 500)

    # other weights in every round: dynamic programming against enumeration
    n_own = max(n_rounds // 50, 200)
    weights = rng.random((n_own, M)) + 0.2
    own = logs_of(rankings(n_own, rng), None, rng).with_columns(w=weights)
    own = own.replace(logging_policy=PlackettLuceSlatePolicy("w", L))
    call = value_and_interval(own, target[:n_own])
    ours = seconds(call) / n_own

    def enumerate_and_invert():
        proba = ranking_proba(every, weights[0])
        return textbook(every, proba, target[:1], own.slate[:1])

    report(
        "own weights in every round / enumerate, pinv",
        ours,
        seconds(enumerate_and_invert),
        20,
    )
    found = PseudoInverse().fit(own[:1]).evaluate(target[:1]).round_values
    np.testing.assert_allclose(
        found, enumerate_and_invert()[0] * own.reward[:1], atol=1e-9
    )
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    print(f"... peak {peak:.0f} MiB")
    assert peak <= 64

    # a hundred candidates in seven groups of equal weights
    m, n_slots, n_distributions = 100, 10, 20
    ranks = np.argsort(rng.random((n_distributions, m)), axis=1) + 1
    scale = np.linspace(0.5, 2, n_distributions)  # another distribution in every round
    weights = np.stack(
        [
            PlackettLuceSlatePolicy.from_ranks(rank, n_slots, alpha=a).weights
            for rank, a in zip(ranks, scale, strict=True)
        ]
    )
    logger = PlackettLuceSlatePolicy("w", n_slots)
    logs = logs_of(rankings(n_distributions, rng, m, n_slots), None, rng, m)
    logs = logs.with_columns(w=weights).replace(logging_policy=logger)
    call = value_and_interval(logs, rankings(n_distributions, rng, m, n_slots))
    ours = seconds(call) / n_distributions
    gamma = np.eye(m * n_slots)
    pinv = seconds(lambda: np.linalg.pinv(gamma), 1)
    report("100 candidates, 10 slots / pinv", ours, pinv, 10)

    # independent slots, from recorded probabilities
    mu, pi = rng.uniform(0.05, 0.25, (2, n_rounds, L))
    slates = rng.integers(0, M, (n_rounds, L))
    logs = logs_of(slates, ProductSlatePolicy("mu"), rng).with_columns(mu=mu, pi=pi)
    call = value_and_interval(logs, "pi")
    ours = seconds(call, 5) / n_rounds
    try:
        from estimators.slates import gaussian
    except ImportError:
        missing("vw-estimators", "pip install vw-estimators")
        return
    rows = list(zip(mu.tolist(), logs.reward.tolist(), pi.tolist(), strict=True))

    def theirs():
        interval = gaussian.Interval()
        for row in rows:
            interval.add_example(*row)
        return interval.get()

    result = PseudoInverse().fit(logs).evaluate("pi")
    np.testing.assert_allclose(result.confidence_interval(method="normal"), theirs())
    report("independent slots / vw-estimators", ours, seconds(theirs, 2) / n_rounds, 15)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[2])
    parser.add_argument("--rounds", type=int, default=100_000)
    warnings.simplefilter("ignore")  # rewards and targets at random
    main(parser.parse_args().rounds)

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""
How fast is DR-ns?
==================

DRns(q=0.05) of a stationary policy whose probabilities are given, with its standard
error and diagnostics, against

- the algorithm to the letter: a Python list of ratios, and `np.quantile` of it after
  every accepted round; its cost grows with the square of the number of rounds;
- coba's `RejectionCB` (another estimator: no weighting by c), where coba can be
  imported.

What is printed are ratios of processor times, medians over rounds in which the
competitors take turns. Asserted: the same value and history as the literal form, the
ratio to it, the cost of a round in longer logs, and the memory. Run it as ::

    python examples/5_benchmarks/bench_drns.py

and get the competitor by ``pip install coba``.
"""

import argparse
from types import SimpleNamespace

import numpy as np
from _measure import alternate, missing, peak_mib, ratio

from skope_ope import BanditLogs, DRns

GROWTH, LITERAL, BYTES = 1.5, 30, 250  # a round, times slower, for each round
AIM = 250  # times slower, the literal form: wanted at 100,000 rounds
Q, N_ACTIONS, MIDDLE = 0.05, 10, 0.5  # MIDDLE stands for the reward model

# %%
# The data
# --------


def make_arrays(n_rounds, seed=0):
    """Actions of an uneven logger, 0/1 rewards, and the target's probabilities."""
    rng = np.random.default_rng(seed)
    action = np.empty(n_rounds, dtype=int)
    propensity = np.empty(n_rounds)
    pi = np.empty((n_rounds, N_ACTIONS))
    for start in range(0, n_rounds, 1_000_000):
        rows = slice(start, min(start + 1_000_000, n_rounds))
        n_rows = rows.stop - start
        logger = 0.5 + rng.random((n_rows, N_ACTIONS))
        logger /= logger.sum(axis=1, keepdims=True)
        below = logger.cumsum(axis=1) < rng.random((n_rows, 1))
        action[rows] = np.minimum(below.sum(axis=1), N_ACTIONS - 1)
        propensity[rows] = logger[np.arange(n_rows), action[rows]]
        target = rng.random((n_rows, N_ACTIONS)) ** 3
        pi[rows] = target / target.sum(axis=1, keepdims=True)
    return SimpleNamespace(
        action=action,
        reward=rng.integers(0, 2, n_rounds).astype(float),
        propensity=propensity,
        pi=pi,
        given=pi[np.arange(n_rounds), action],
    )


# %%
# Ours
# ----


def fitted(data):
    """Return the evaluator of these rounds."""
    logs = BanditLogs(
        np.empty((len(data.action), 0)),
        data.action,
        data.reward,
        data.propensity,
        actions=np.arange(N_ACTIONS),
    )
    return DRns(q=Q, reward_model=MIDDLE, random_state=0).fit(logs)


# %%
# The algorithm to the letter
# ---------------------------


def literal(data, uniforms):
    """Return value and number of accepted rounds."""
    ratios, c, total, weight, n_accepted = [], 1.0, 0.0, 0.0, 0
    rows = (data.given, data.propensity, data.reward, uniforms)
    rows = zip(*(column.tolist() for column in rows), strict=True)
    for pi, p, reward, u in rows:
        ratios.append(p / pi)
        total += c * (MIDDLE + pi / p * (reward - MIDDLE))
        weight += c
        if u <= c * pi / p:
            n_accepted += 1
            c = min(1.0, np.quantile(ratios, Q, method="inverted_cdf"))
    return total / weight, n_accepted


# %%
# coba
# ----
# The learner is the policy: it tells the probability of the logged action, and learns
# nothing. Its context is the number of the row.


def coba_rejection(data):
    """Return a call, or None where coba is not installed."""
    try:
        from coba.evaluators import RejectionCB
    except ImportError:
        return None
    actions = list(range(N_ACTIONS))
    columns = (data.action, data.reward, data.propensity, data.given)
    action, reward, propensity, given = (column.tolist() for column in columns)

    class Log:
        params = {}

        def read(self):
            for row, chosen in enumerate(action):
                yield {
                    "context": row,
                    "actions": actions,
                    "action": chosen,
                    "reward": reward[row],
                    "probability": propensity[row],
                }

    class Policy:
        params = {}

        def score(self, context, actions, action):
            return given[context]

        def predict(self, context, actions):
            raise AssertionError("without ope nothing is predicted")

        def learn(self, context, action, reward, probability):
            pass

    def run():
        evaluator = RejectionCB(record=["reward"], ope=None, cpct=Q, cmax=1.0, seed=1)
        found = [out["reward"] for out in evaluator.evaluate(Log(), Policy())]
        return sum(found) / len(found), len(found)

    return run


# %%
# How it is measured
# ------------------


def report_growth(sizes, n_repeats, share):
    """Time of sizes that take turns, as often as the smallest is repeated."""
    calls, n_accepted = {}, {}
    for n_rounds in sizes:
        data = make_arrays(n_rounds)
        evaluator = fitted(data)
        calls[n_rounds] = lambda evaluator=evaluator, pi=data.pi: evaluator.evaluate(pi)
        n_accepted[n_rounds] = len(calls[n_rounds]().accepted)
    times = alternate(calls, n_repeats)
    print(f"\nDRns(q={Q}), K = {N_ACTIONS}, probabilities given")
    print(f"  {'n':>12}{'a round, x the first':>22}{'accepted':>10}")
    for n_rounds in sizes:
        each = ratio(times, n_rounds, sizes[0]) * sizes[0] / n_rounds
        print(f"  {n_rounds:12,}{each:22.2f}{n_accepted[n_rounds] / n_rounds:10.1%}")
        assert share * each <= GROWTH, f"a round of {n_rounds:,} costs {each:.2f} times"


def report_peers(n_rounds, n_repeats, share):
    data = make_arrays(n_rounds)
    evaluator = fitted(data)
    calls = {"DRns": lambda: evaluator.evaluate(data.pi)}
    coba = coba_rejection(data)
    if coba is None:
        missing("coba", "pip install coba")
    else:
        calls["coba RejectionCB, ope=None"] = coba
    found = []
    calls["literal list and np.quantile"] = lambda: found.append(
        literal(data, evaluator.uniforms_)
    )
    times = alternate(calls, n_repeats)
    result = evaluator.evaluate(data.pi)
    value, n_accepted = found[0]
    assert abs(result.value - value) < 1e-12
    assert len(result.accepted) == n_accepted
    print(f"\nThe same rounds, n = {n_rounds:,}")
    for name in list(calls)[1:]:
        print(f"  {name:32}{ratio(times, name, 'DRns'):11.1f} times ours")
    print(f"  difference from the literal value: {abs(result.value - value):.1e}")
    print(f"  wanted of the literal form: {AIM}; asserted: {LITERAL}")
    gained = ratio(times, "literal list and np.quantile", "DRns")
    assert gained >= share * LITERAL, f"{gained:.0f} times faster than the literal form"


def report_memory(sizes, share):
    print("\nPeak of the extra memory, bytes per round")
    for n_rounds in sizes:
        data = make_arrays(n_rounds)
        evaluator = fitted(data)
        each = peak_mib(lambda: evaluator.evaluate(data.pi)) * 2**20 / n_rounds  # noqa: B023
        print(f"  {n_rounds:12,}{each:10.1f}")
        assert share * each <= BYTES, f"{each:.0f} bytes for each round"


def main():
    parser = argparse.ArgumentParser(description="Time of DR-ns.")
    parser.add_argument("--n-rounds", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--peer-rounds", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=3, help="alternating rounds")
    parser.add_argument("--share", type=float, default=1.0, help="of the targets")
    options = parser.parse_args()
    report_growth(options.n_rounds, options.repeats, options.share)
    report_peers(options.peer_rounds, options.repeats, options.share)
    report_memory([n // 10 for n in options.n_rounds], options.share)


if __name__ == "__main__":
    main()

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""
How fast are three values from several loggers?
===============================================

Naive, balanced and weighted inverse propensity scoring of logs that three loggers
made, with standard errors, divergences estimated from all rounds, overlap by logger
and input checks, from arrays, against

- plain numpy without any check or standard error;
- the Open Bandit Pipeline (obp) 0.5.7, values only, where it can be imported.

obp takes the whole policy, the propensities, and the probabilities under all loggers
together, which we compute; it weighs by the sample variances of each logger's own
rounds. Like for like is therefore "weights as obp's": with the whole policy where that
is what one has, with pi(a|x) given where (as in plain numpy) one has no more.

What is printed are ratios of processor times, medians over rounds in which the
competitors take turns, and MiB. Run it as ::

    python examples/5_benchmarks/bench_multi_logger.py

`bench_static.py` tells how obp is installed.
"""

import argparse
import warnings
from types import SimpleNamespace

import numpy as np
from _measure import alternate, import_obp, peak_mib, ratio

from skope_ope import BanditLogs, MultiLoggerDR, MultiLoggerIPS, evaluate

OBP, LIKE = "obp, values only", "the same, pi(a|x) given"
PLAIN, FASTER = 6, 2  # times the cost of plain numpy; times faster than obp
AIM = 8  # times faster than obp, wanted
POOLINGS = ("naive", "balanced", "weighted")

# %%
# The data
# --------


def make_arrays(n_rounds, n_actions=10, seed=0):
    """Rounds of three loggers with sizes 2 : 2 : 1, a policy and a reward model."""
    rng = np.random.default_rng(seed)
    logger = rng.choice(3, n_rounds, p=[0.4, 0.4, 0.2])
    mu = rng.dirichlet(np.ones(n_actions), 3) * 0.7 + 0.3 / n_actions
    below = mu.cumsum(axis=1)[logger] < rng.random((n_rounds, 1))
    action = np.minimum(below.sum(axis=1), n_actions - 1)
    pi = rng.random((n_rounds, n_actions)) ** 3
    pi /= pi.sum(axis=1, keepdims=True)
    rows = np.arange(n_rounds)
    shares = np.bincount(logger) / n_rounds
    return SimpleNamespace(
        context=rng.random((n_rounds, 5)),
        action=action,
        reward=rng.integers(0, 2, n_rounds).astype(float),
        logger=logger,
        logger_proba=np.ascontiguousarray(mu[:, action].T),
        propensity=mu[logger, action],
        mixture=(shares @ mu)[action],
        pi=pi,
        pi_logged=pi[rows, action],
        q_hat=rng.random((n_rounds, n_actions)),
    )


# %%
# What is measured
# ----------------


def build(data):
    return BanditLogs(
        data.context,
        data.action,
        data.reward,
        data.propensity,
        logger=data.logger,
        logger_proba=data.logger_proba,
    )


def evaluators(cls):
    return {pooling: cls(pooling=pooling) for pooling in POOLINGS}


def like_obp():
    """The evaluators whose weights are obp's: each logger's own sample variance."""
    own = MultiLoggerIPS(pooling="weighted", divergences="per_logger")
    return {**evaluators(MultiLoggerIPS), "weighted": own}


def plain_numpy(data):
    """Three values alone, as a script would write them."""
    r, w = data.reward, data.pi_logged / data.propensity
    terms = w * r
    masks = [data.logger == k for k in range(3)]
    sizes = np.array([mask.sum() for mask in masks])
    precision = 1 / np.array([terms[mask].var(ddof=1) for mask in masks])
    lam = precision / (sizes @ precision)
    balanced = (data.pi_logged / data.mixture * r).mean()
    return terms.mean(), balanced, (lam[data.logger] * terms).sum()


def obp_values(data, multi):
    """Values of the three estimators, by pooling."""
    arrays = {
        "reward": data.reward,
        "action": data.action,
        "action_dist": data.pi[:, :, None],
    }
    naive = multi.MultiLoggersNaiveInverseProbabilityWeighting()
    balanced = multi.MultiLoggersBalancedInverseProbabilityWeighting()
    weighted = multi.MultiLoggersWeightedInverseProbabilityWeighting()
    return {
        "naive": naive.estimate_policy_value(pscore=data.propensity, **arrays),
        "balanced": balanced.estimate_policy_value(pscore_avg=data.mixture, **arrays),
        "weighted": weighted.estimate_policy_value(
            pscore=data.propensity, stratum_idx=data.logger, **arrays
        ),
    }


def suites(data, multi):
    """The competitors for all three values, by name."""
    logs, ips = build(data), evaluators(MultiLoggerIPS)
    dr = evaluators(MultiLoggerDR)
    found = {
        "plain numpy, values only": lambda: plain_numpy(data),
        "evaluate": lambda: evaluate(data.pi, logs, evaluators=ips),
        "evaluate, pi(a|x) given": lambda: evaluate(
            data.pi_logged, logs, evaluators=ips
        ),
        "evaluate, weights as obp's": lambda: evaluate(
            data.pi, logs, evaluators=like_obp()
        ),
        "the same, pi(a|x) given": lambda: evaluate(
            data.pi_logged, logs, evaluators=like_obp()
        ),
        "BanditLogs and evaluate": lambda: evaluate(
            data.pi, build(data), evaluators=ips
        ),
        "evaluate, doubly robust": lambda: evaluate(
            data.pi, logs, evaluators=dr, reward_model=data.q_hat
        ),
    }
    if multi is not None:
        found["obp, values only"] = lambda: obp_values(data, multi)
    return found


def report(n_rounds, multi, n_repeats, settled, share):
    data = make_arrays(n_rounds)
    calls = suites(data, multi)
    times = alternate(calls, n_repeats)
    print(f"\nThree values, n = {n_rounds:,}, K = 10, three loggers")
    print(f"  {'':32}{'x plain':>10}{'obp / it':>10}{'extra MiB':>12}")
    for name, call in calls.items():
        line = f"  {name:32}{ratio(times, name, 'plain numpy, values only'):10.2f}"
        versus = "-" if multi is None else f"{ratio(times, OBP, name):.1f}"
        print(f"{line}{versus:>10}{peak_mib(call):12.1f}")
    if n_rounds >= settled:
        found = ratio(times, LIKE, "plain numpy, values only")
        assert share * found <= PLAIN, f"{found:.1f} times plain numpy"
        if multi is not None:
            found = ratio(times, OBP, LIKE)
            print(f"  wanted of obp / it: {AIM}; asserted: {FASTER}")
            assert found >= share * FASTER, f"{found:.1f} times faster than obp"
    ours = evaluate(data.pi, build(data), evaluators=like_obp())
    print_gaps("plain numpy", ours, dict(zip(POOLINGS, plain_numpy(data), strict=True)))
    if multi is not None:  # it divides its sample variances by n_i once more or less
        print_gaps("obp", ours, obp_values(data, multi))


def print_gaps(name, ours, theirs):
    """Print by how much values differ."""
    gaps = {pooling: abs(theirs[pooling] - ours[pooling].value) for pooling in POOLINGS}
    shown = ", ".join(f"{pooling} {gap:.1e}" for pooling, gap in gaps.items())
    print(f"  differences from {name}: {shown}")
    equal = POOLINGS[:2] if name == "obp" else POOLINGS
    assert max(gaps[pooling] for pooling in equal) < 1e-9


def main():
    parser = argparse.ArgumentParser(description="Time of three multi-logger values.")
    parser.add_argument("--n-rounds", type=int, nargs="+", default=[1_000_000, 10_000])
    parser.add_argument("--repeats", type=int, default=5, help="alternating rounds")
    parser.add_argument(
        "--settled", type=int, default=100_000, help="rounds that hide fixed costs"
    )
    parser.add_argument("--share", type=float, default=1.0, help="of the targets")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    ope = import_obp()
    multi = None if ope is None else ope.estimators_multi
    if multi is None:
        print("three values: ours alone")
    for n_rounds in options.n_rounds:
        report(n_rounds, multi, options.repeats, options.settled, options.share)


if __name__ == "__main__":
    main()

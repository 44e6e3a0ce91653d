# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""
How fast are six static values?
===============================

IPS, SNIPS, the direct method, doubly robust, SwitchDR and DRos with standard errors
and input checks, from arrays, against

- the limit: one pass over the bytes that any implementation has to read;
- the Open Bandit Pipeline (obp) 0.5.7, values only, where it can be imported.

The same from logs with a user for every ten rounds: the standard errors are then those
of users, at no more than 1.5 times the cost.

All figures are ratios of processor times (medians over rounds in which the competitors
take turns) or MiB; the targets are asserted. Run it as ::

    python examples/5_benchmarks/bench_static.py

obp 0.5.7 asks for Python below 3.11 and for torch. Its values neither need the one nor
the other: install it without its requirements, ::

    pip install --ignore-requires-python --no-deps obp==0.5.7
    pip install pandas matplotlib seaborn tqdm pyyaml

and this script puts an empty module in the place of torch while obp is imported.
"""

import argparse
import warnings
from types import SimpleNamespace

import numpy as np
from _measure import alternate, import_obp, peak_mib, ratio

from skope_ope import (
    IPS,
    SNIPS,
    BanditLogs,
    DirectMethod,
    DoublyRobust,
    DRos,
    SwitchDR,
    evaluate,
)

# what is asserted: times of the cost of the other, and MiB
PASSES = 12  # of the fastest loop over the bytes
SUITE, ONE = {1_000_000: 12, 1_000: 0.35}, 1.5  # times faster than obp: six values, one
GROUPS, MEMORY = 1.5, 8

SIX = ["IPS", "SNIPS", "DirectMethod", "DoublyRobust", "SwitchDR", "DRos"]

# %%
# The data
# --------


def make_arrays(n_rounds, n_actions=10, seed=0):
    """Contexts, actions, rewards, propensities, a policy and a reward model."""
    rng = np.random.default_rng(seed)
    logger = 0.5 + rng.random((n_rounds, n_actions))
    logger /= logger.sum(axis=1, keepdims=True)
    below = logger.cumsum(axis=1) < rng.random((n_rounds, 1))
    action = np.minimum(below.sum(axis=1), n_actions - 1)
    pi = rng.random((n_rounds, n_actions)) ** 3
    pi /= pi.sum(axis=1, keepdims=True)
    return SimpleNamespace(
        context=rng.random((n_rounds, 5)),
        action=action,
        reward=rng.integers(0, 2, n_rounds).astype(float),
        propensity=logger[np.arange(n_rounds), action],
        pi=pi,
        q_hat=rng.random((n_rounds, n_actions)),
    )


# %%
# What is measured
# ----------------
# The limit reads policy, model, actions, rewards and propensities once, 184 bytes a
# round for ten actions, with the fastest loops that numpy calls.


def one_pass(data):
    return (
        data.pi.ravel() @ data.q_hat.ravel(),
        data.reward @ data.propensity,
        data.action.sum(),
    )


def build(data):
    return BanditLogs(data.context, data.action, data.reward, data.propensity)


def six_values(data, logs):
    """The evaluators that the competitor has, too; not those of the first table."""
    return evaluate(data.pi, logs, evaluators=SIX, reward_model=data.q_hat)


def suites(data, ope):
    """The competitors for all six values, by name."""
    logs = build(data)
    found = {
        "limit: one pass over the bytes": lambda: one_pass(data),
        "evaluate": lambda: six_values(data, logs),
        "BanditLogs and evaluate": lambda: six_values(data, build(data)),
    }
    if ope is not None:
        found["obp, values only"] = lambda: obp_values(data, ope)
    return found


def singles(data, ope):
    """Pairs (ours, obp's or None) for one evaluator at a time, by name."""
    logs = build(data)
    theirs = {} if ope is None else obp_estimators(ope)
    arrays = obp_arrays(data)

    def pair(evaluator, policy=data.pi):
        def ours():  # evaluators without a reward model ignore it
            return evaluator.fit(logs, data.q_hat).score(policy)

        obp = theirs.get(type(evaluator).__name__)
        return ours, obp and (lambda: obp.estimate_policy_value(**arrays))

    given = data.pi[np.arange(len(logs)), data.action]
    found = {
        type(evaluator).__name__: pair(evaluator)
        for evaluator in (
            IPS(),
            SNIPS(),
            DirectMethod(),
            DoublyRobust(),
            SwitchDR(),
            DRos(),
        )
    }
    found["IPS, pi(a|x) given"] = pair(IPS(), given)
    return found


def obp_estimators(ope):
    return {
        "IPS": ope.InverseProbabilityWeighting(estimator_name="IPS"),
        "SNIPS": ope.SelfNormalizedInverseProbabilityWeighting(estimator_name="SNIPS"),
        "DirectMethod": ope.DirectMethod(estimator_name="DirectMethod"),
        "DoublyRobust": ope.DoublyRobust(estimator_name="DoublyRobust"),
        "SwitchDR": ope.SwitchDoublyRobust(lambda_=10, estimator_name="SwitchDR"),
        "DRos": ope.DoublyRobustWithShrinkage(lambda_=10, estimator_name="DRos"),
    }


def obp_arrays(data):
    return {
        "reward": data.reward,
        "action": data.action,
        "pscore": data.propensity,
        "action_dist": data.pi[:, :, None],
        "estimated_rewards_by_reg_model": data.q_hat[:, :, None],
    }


def obp_values(data, ope):
    feedback = {
        "n_rounds": len(data.action),
        "n_actions": data.pi.shape[1],
        "context": data.context,
        "action": data.action,
        "reward": data.reward,
        "position": None,
        "pscore": data.propensity,
    }
    return ope.OffPolicyEvaluation(
        bandit_feedback=feedback, ope_estimators=list(obp_estimators(ope).values())
    ).estimate_policy_values(
        action_dist=data.pi[:, :, None],
        estimated_rewards_by_reg_model=data.q_hat[:, :, None],
    )


def with_users(data, seed=0):
    """Six values from the rounds of one user for every ten of them, or of none."""
    n_rounds = len(data.action)
    user = np.random.default_rng(seed).integers(0, max(n_rounds // 10, 1), n_rounds)
    arrays = data.context, data.action, data.reward, data.propensity
    plain, grouped = BanditLogs(*arrays), BanditLogs(*arrays, group=user)
    return {
        "ungrouped": lambda: six_values(data, plain),
        "grouped": lambda: six_values(data, grouped),
    }


# %%
# How it is measured
# ------------------


def largest_difference(data, ope):
    ours = six_values(data, build(data))
    theirs = obp_values(data, ope)
    return max(abs(theirs[name] - result.value) for name, result in ours.items())


def report_suites(n_rounds, ope, n_repeats, settled, share):
    data = make_arrays(n_rounds)
    times = alternate(suites(data, ope), n_repeats)
    print(f"\nSix values, n = {n_rounds:,}, K = 10")
    print(f"  {'':32}{'x limit':>10}{'obp / it':>10}")
    for name in times:
        passes = ratio(times, name, "limit: one pass over the bytes")
        line = f"  {name:32}{passes:10.2f}"
        if ope is not None:
            line += f"{ratio(times, 'obp, values only', name):10.1f}"
        print(line)
        if name == "evaluate" and n_rounds >= settled:
            assert share * passes <= PASSES, f"{passes:.1f} passes over the bytes"
    if ope is not None:
        found = ratio(times, "obp, values only", "evaluate")
        least = SUITE[1_000_000 if n_rounds >= settled else 1_000]
        assert found >= share * least, f"{found:.1f} times faster than obp"
        difference = largest_difference(data, ope)
        print(f"  largest difference of the values from obp's: {difference:.1e}")
        assert difference < 1e-9


def report_singles(n_rounds, ope, n_repeats, settled, share):
    if ope is None:
        return
    print(f"\nOne evaluator from pi(a|x) of all actions, n = {n_rounds:,}, obp / ours")
    for name, (ours, theirs) in singles(make_arrays(n_rounds), ope).items():
        if theirs is None:
            continue
        times = alternate({"ours": ours, "obp": theirs}, n_repeats)
        found = ratio(times, "obp", "ours")
        print(f"  {name:32}{found:12.1f}")
        if n_rounds >= settled:
            assert found >= share * ONE, f"{name}: {found:.1f} times faster than obp"


def report_users(n_rounds, n_repeats, share):
    found = ratio(
        alternate(with_users(make_arrays(n_rounds)), n_repeats), "grouped", "ungrouped"
    )
    print(f"\nSix values, n = {n_rounds:,}, {n_rounds // 10:,} users")
    print(f"  grouped / ungrouped {found:22.2f}")
    assert share * found <= GROUPS, f"{found:.2f} times the cost without groups"


def report_memory(sizes, ope):
    print("\nPeak of the extra memory, MiB")
    names = list(suites(make_arrays(2), ope))[1:]
    print(f"  {'n':>12}" + "".join(f"{name:>26}" for name in names))
    for n_rounds in sizes:
        calls = suites(make_arrays(n_rounds), ope)
        for call in calls.values():
            call()
        peaks = {name: peak_mib(calls[name]) for name in names}
        print(f"  {n_rounds:12,}" + "".join(f"{peak:26.2f}" for peak in peaks.values()))
        assert peaks["evaluate"] <= MEMORY, f"{peaks['evaluate']:.1f} MiB"


def main():
    parser = argparse.ArgumentParser(description="Cost of six static values.")
    parser.add_argument("--n-rounds", type=int, nargs="+", default=[1_000_000, 1_000])
    parser.add_argument("--repeats", type=int, default=5, help="alternating rounds")
    parser.add_argument(
        "--settled", type=int, default=100_000, help="rounds that hide fixed costs"
    )
    parser.add_argument("--share", type=float, default=1.0, help="of the targets")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # the direct method's, about its standard error
    ope = import_obp()
    for n_rounds in options.n_rounds:
        report_suites(n_rounds, ope, options.repeats, options.settled, options.share)
    for n_rounds in options.n_rounds:
        report_singles(n_rounds, ope, options.repeats, options.settled, options.share)
    report_users(max(options.n_rounds), options.repeats, options.share)
    report_memory([10_000, 100_000, max(options.n_rounds)], ope)


if __name__ == "__main__":
    main()

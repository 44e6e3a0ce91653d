# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""
How fast is the replay of policies that learn?
==============================================

LinUCB and UCB1 on a log of uniform choices (K = 20 actions, d = 6 features), against

- the replay of the Open Bandit Pipeline (obp) 0.5.7 with its LinUCB;
- `evaluateRejectionSampling` of contextualbandits, which learns after every event
  (batches of 1; its default, batches of 10, is another learner), with its LinUCB;
- a loop over mabwiser's UCB1, which learns from the events that it matches.

What is printed is the processor time of an event in theirs over that in ours: medians
over rounds in which the competitors take turns. The ratios to reach are asserted. Run
it as ::

    python examples/5_benchmarks/bench_replay.py

Competitors that cannot be imported are left out. The script needs no more of obp than
numpy and pandas; ``bench_static.py`` tells more about it. ::

    pip install --ignore-requires-python --no-deps obp==0.5.7
    pip install pandas matplotlib seaborn tqdm pyyaml
    pip install mabwiser contextualbandits
"""

import argparse
import sys
import warnings
from statistics import median
from types import SimpleNamespace
from unittest import mock

import numpy as np
from _measure import alternate, import_obp, missing

from skope_ope import UCB1, BanditLogs, LinUCB, Replay

N_ACTIONS, N_FEATURES = 20, 6
SETTLED = 100_000  # events after which the start no longer counts

# %%
# The data
# --------
# An action is clicked with a probability that is logistic in the context.


def make_arrays(n_rounds, seed=0):
    """Contexts of length 1, uniform actions, 0/1 rewards."""
    rng = np.random.default_rng(seed)
    context = rng.random((n_rounds, N_FEATURES))
    context /= np.linalg.norm(context, axis=1, keepdims=True)
    coef = 0.3 * rng.standard_normal((N_ACTIONS, N_FEATURES))
    action = rng.integers(0, N_ACTIONS, n_rounds)
    score = np.einsum("ij,ij->i", context, coef[action])
    reward = (rng.random(n_rounds) < 1 / (1 + np.exp(-score))).astype(float)
    return SimpleNamespace(context=context, action=action, reward=reward)


# %%
# Ours
# ----


def replay(data, policy):
    """Return a call that replays the data, and tells value and accepted events."""
    n_rounds = len(data.action)
    logs = BanditLogs(
        data.context,
        data.action,
        data.reward,
        np.full(n_rounds, 1 / N_ACTIONS),
        actions=np.arange(N_ACTIONS),
    )
    evaluator = Replay(random_state=0).fit(logs)

    def run():
        result = evaluator.evaluate(policy)
        return result.value, len(result.accepted)

    return run


# %%
# The competitors
# ---------------
# obp's replay calls a module where it means a function of it; `tqdm` is replaced from
# outside.


def obp_lin_ucb(data):
    """Return a call, or None where obp is not installed."""
    if import_obp() is None:
        return None
    from obp.policy import LinUCB as ObpLinUCB
    from obp.simulator import replay as obp_replay

    feedback = {
        "n_rounds": len(data.action),
        "n_actions": N_ACTIONS,
        "context": data.context,
        "action": data.action,
        "reward": data.reward,
        "position": None,
        "pscore": np.full(len(data.action), 1 / N_ACTIONS),
    }

    def run():
        policy = ObpLinUCB(dim=N_FEATURES, n_actions=N_ACTIONS, epsilon=1.0)
        with mock.patch.object(obp_replay, "tqdm", lambda events, total: events):
            taken = obp_replay.run_bandit_replay(feedback, policy)
        accepted = taken[np.arange(len(taken)), data.action, 0] == 1
        return data.reward[accepted].mean(), int(accepted.sum())

    return run


def contextualbandits_lin_ucb(data):
    """Return a call, or None where contextualbandits is not installed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from contextualbandits.evaluation import evaluateRejectionSampling
            from contextualbandits.online import LinUCB as PeerLinUCB
    except ImportError:
        return None

    def run():
        policy = PeerLinUCB(N_ACTIONS, fit_intercept=False, use_float=False)
        with mock.patch.dict(sys.modules, tqdm=None):  # no progress bar
            return evaluateRejectionSampling(
                policy,
                data.context,
                data.action,
                data.reward,
                online=True,
                partial_fit=True,
                start_point_online=0,
                batch_size=1,
            )

    return run


def mabwiser_ucb1(data):
    """Return a call, or None where mabwiser is not installed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from mabwiser.mab import MAB, LearningPolicy
    except ImportError:
        return None
    actions = data.action.tolist()
    arms = list(range(N_ACTIONS))

    def run():
        mab = MAB(arms, LearningPolicy.UCB1(alpha=1.0))
        mab.fit(decisions=arms, rewards=[0.0] * N_ACTIONS)  # predict asks for it
        total, n_accepted = 0.0, 0
        for row, action in enumerate(actions):
            if mab.predict() == action:
                one = slice(row, row + 1)
                mab.partial_fit(data.action[one], data.reward[one])
                total += data.reward[row]
                n_accepted += 1
        return total / n_accepted, n_accepted

    return run


# %%
# How it is measured
# ------------------
# Competitors that take seconds get the first events only: their cost per event does
# not depend on how many there are.


def report(title, n_rounds, policy, peers, n_repeats, settled):
    """Measure ours against peers: name -> (builder, events, ratio to reach)."""
    calls = {"ours": replay(make_arrays(n_rounds), policy)}
    sizes, wanted = {"ours": n_rounds}, {}
    for name, (build, n_events, ratio) in peers.items():
        size = min(n_events, n_rounds)
        call = build(make_arrays(size))
        if call is None:
            missing(name, "the docstring tells how to get it")
            continue
        calls[name], sizes[name], wanted[name] = call, size, ratio
    times = alternate(calls, n_repeats)
    print(f"\n{title}, K = {N_ACTIONS}, d = {N_FEATURES}, n = {n_rounds:,}")
    print(
        f"  {'':32}{'events':>10}{'it / ours':>11}{'wanted':>8}{'value':>9}"
        f"{'accepted':>10}"
    )
    for name, call in calls.items():
        value, accepted = call()
        each = zip(times[name], times["ours"], strict=True)
        found = median(a / b for a, b in each) * n_rounds / sizes[name]
        aim = f"{wanted[name]:8}" if name in wanted else f"{'':8}"
        print(
            f"  {name:32}{sizes[name]:10,}{found:11.1f}{aim}{value:9.4f}{accepted:10,}"
        )
        if name in wanted and n_rounds >= settled:
            assert found >= wanted[name], f"{name}: {found:.1f} times"


def main():
    parser = argparse.ArgumentParser(description="Time of the replay of learners.")
    parser.add_argument("--n-rounds", type=int, nargs="+", default=[20_000, 100_000])
    parser.add_argument("--repeats", type=int, default=5, help="alternating rounds")
    parser.add_argument("--settled", type=int, default=SETTLED, help="events")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # a single trajectory has no standard error
    for n_rounds in options.n_rounds:
        peers = {
            "obp, replay patched": (obp_lin_ucb, 5_000, 40),
            "contextualbandits, batches of 1": (contextualbandits_lin_ucb, 2_000, 150),
        }
        report("LinUCB", n_rounds, LinUCB(), peers, options.repeats, options.settled)
        peers = {"mabwiser, loop": (mabwiser_ucb1, 20_000, 20)}
        report("UCB1", n_rounds, UCB1(), peers, options.repeats, options.settled)


if __name__ == "__main__":
    main()

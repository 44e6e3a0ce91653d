# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""
How fast is a scikit-learn classifier that learns while it acts?
================================================================

OnlineClassifierPolicy with an SGDClassifier per action, trained again after every 15
accepted rounds (K = 10 actions, d = 20 features), replayed

- by `Replay`, which asks the policy for blocks of coming rounds;
- by the naive loop, which asks it once per round.

Both accept the same rounds. The time is split into prediction, training and the rest,
which is the evaluator's own: one call of scikit-learn's `predict` is a hundred times
more checks than arithmetic. What is printed are shares and ratios of processor time,
medians over rounds in which the two take turns; the targets are asserted. Run it as ::

    python examples/5_benchmarks/bench_adaptive_classifier.py
"""

import argparse
import warnings
from time import process_time

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import SGDClassifier
from threadpoolctl import threadpool_limits

from skope_ope import BanditLogs, Replay
from skope_ope.policies import OnlineClassifierPolicy

N_ACTIONS, N_FEATURES, UPDATE_EVERY = 10, 20, 15
END, PREDICT = 5, 40  # times less processor time than the naive loop

# %%
# The data
# --------


def make_logs(n_rounds, seed=0):
    """Uniform actions; an action is right with a probability that is logistic."""
    rng = np.random.default_rng(seed)
    context = rng.standard_normal((n_rounds, N_FEATURES))
    coef = rng.standard_normal((N_ACTIONS, N_FEATURES))
    action = rng.integers(0, N_ACTIONS, n_rounds)
    score = np.einsum("ij,ij->i", context, coef[action])
    return BanditLogs(
        context,
        action,
        (rng.random(n_rounds) < 1 / (1 + np.exp(-score))).astype(float),
        np.full(n_rounds, 1 / N_ACTIONS),
        actions=np.arange(N_ACTIONS),
    )


# %%
# Who spends the time
# -------------------
# The policy keeps its own books: CPU seconds inside prediction and inside training,
# where the training of a round that is only stored is next to nothing.


class TimedPolicy(OnlineClassifierPolicy):
    """Counts the CPU seconds that its class has spent."""

    predicting = training = 0.0

    def predict_proba(self, X, available=None):
        start = process_time()
        proba = super().predict_proba(X, available)
        TimedPolicy.predicting += process_time() - start
        return proba

    def update(self, X, action, reward, proba):
        start = process_time()
        changed = super().update(X, action, reward, proba)
        TimedPolicy.training += process_time() - start
        return changed


def measured(call, *arguments):
    """Return CPU seconds (all and by purpose), and what the call returns."""
    TimedPolicy.predicting = TimedPolicy.training = 0.0
    start = process_time()
    found = call(*arguments)
    seconds = process_time() - start
    learner = TimedPolicy.predicting, TimedPolicy.training
    return (seconds, *learner, seconds - sum(learner)), found


def naive(policy, logs, uniforms):
    """Ask the policy once per round; return the accepted rounds."""
    policy = clone(policy)
    policy.reset(logs[:0])
    accepted = []
    for row, action in enumerate(logs.action_index.tolist()):
        one = slice(row, row + 1)
        proba = policy.predict_proba(logs.context[one])[0, action]
        if uniforms[row] < proba:
            accepted.append(row)
            policy.update(logs.context[one], action, logs.reward[row], proba)
    return np.array(accepted)


def by_blocks(policy, logs, evaluator):
    return evaluator.evaluate(policy).accepted


# %%
# How it is measured
# ------------------


def report(n_rounds, n_repeats, share):
    logs = make_logs(n_rounds)
    policy = TimedPolicy(
        SGDClassifier(loss="log_loss", random_state=0), update_every=UPDATE_EVERY
    )
    evaluator = Replay(random_state=0).fit(logs)
    times = {"naive": [], "blocks": []}
    for _ in range(n_repeats):
        with threadpool_limits(1):
            seconds, expected = measured(naive, policy, logs, evaluator.uniforms_)
            times["naive"].append(seconds)
            seconds, accepted = measured(by_blocks, policy, logs, evaluator)
            times["blocks"].append(seconds)
        np.testing.assert_array_equal(accepted, expected)
    rows = {name: np.median(found, axis=0) for name, found in times.items()}
    ratios = rows["naive"] / rows["blocks"]
    print(f"\nSGDClassifier, K = {N_ACTIONS}, d = {N_FEATURES}, n = {n_rounds:,},")
    print(f"trained every {UPDATE_EVERY} rounds; {len(accepted):,} accepted by both")
    heads = ("end to end", "predict", "train", "the rest")
    print(f"  {'':16}" + "".join(f"{head:>12}" for head in heads))
    for name, parts in rows.items():
        line = "".join(f"{part / parts[0]:12.1%}" for part in parts)
        print(f"  {name:16}{line}")
    print(f"  {'naive / blocks':16}" + "".join(f"{ratio:12.1f}" for ratio in ratios))
    print(f"  wanted: {END} times end to end, {PREDICT} times in predict")
    assert ratios[0] >= share * END, f"{ratios[0]:.1f} times end to end"
    assert ratios[1] >= share * PREDICT, f"{ratios[1]:.1f} times in predict"


def main():
    parser = argparse.ArgumentParser(description="Time of a classifier that learns.")
    parser.add_argument("--n-rounds", type=int, nargs="+", default=[5_000])
    parser.add_argument("--repeats", type=int, default=2, help="alternating rounds")
    parser.add_argument("--share", type=float, default=1.0, help="of the targets")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # a single trajectory has no standard error
    for n_rounds in options.n_rounds:
        report(n_rounds, options.repeats, options.share)


if __name__ == "__main__":
    main()

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
# sphinx_gallery_thumbnail_number = -1
"""
How many rounds does replay need?
=================================

:class:`~skope_ope.Replay` simulates a policy that learns on a uniform log. A round is
used if the policy takes the logged action, otherwise it is skipped. How long must the
log be for one trajectory? And how long for a precise answer?

The rewards are simulated. So the policy can also act on them directly, and that is the
truth.
"""

# %%
# The world
# ---------
#
# An epsilon-greedy policy acts for 50 rounds. Of K actions the first one is rewarded
# with probability 0.6, the others with 0.3.

import argparse
import copy
import warnings

import matplotlib.pyplot as plt
import numpy as np

from skope_ope import BanditLogs, EpsilonGreedy, Replay
from skope_ope.evaluators import replay_log_length
from skope_ope.exceptions import OPEWarning

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--n-logs", type=int, default=60, help="logs of each length")
n_logs = parser.parse_known_args()[0].n_logs
HORIZON, N_RUNS = 50, 400


def draw(n_rounds, n_actions, seed):
    """Return the log of a uniform logger."""
    rng = np.random.RandomState(seed)
    action = rng.randint(n_actions, size=n_rounds)
    reward = rng.random_sample(n_rounds) < np.where(action == 0, 0.6, 0.3)
    return BanditLogs(
        np.ones((n_rounds, 1)),
        action,
        reward.astype(float),
        propensity=np.full(n_rounds, 1 / n_actions),
        actions=range(n_actions),
        reward_range=(0, 1),
    )


def run(policy, n_actions, seed):
    """Return the mean reward of one run on the true rewards."""
    rng, policy = np.random.RandomState(seed), copy.deepcopy(policy)
    x, total = np.ones((1, 1)), 0.0
    for _ in range(HORIZON):
        chance = policy.predict_proba(x)[0]
        action = rng.choice(n_actions, p=chance)
        reward = float(rng.random_sample() < (0.6 if action == 0 else 0.3))
        policy.update(x, action, reward, chance[action])
        total += reward / HORIZON
    return total


# %%
# One trajectory
# --------------
#
# A round is used with probability 1/K, for any policy. A trajectory of T rounds needs K
# T logged rounds on average. :func:`~skope_ope.evaluators.replay_log_length` gives the
# number that is enough in 95 of 100 logs.

print("actions  on average  in 95 of 100  share of logs that were long enough")
shares = {}
for n_actions in (2, 5, 10):
    mean = replay_log_length(HORIZON, n_actions)
    length = int(replay_log_length(HORIZON, n_actions, delta=0.05))
    enough = []
    for seed in range(n_logs):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OPEWarning)  # one trajectory, or none
            replay = Replay(horizon=HORIZON).fit(draw(length, n_actions, seed))
            value = replay.evaluate(EpsilonGreedy(0.1))
        enough.append(np.isfinite(value.value))
    shares[n_actions] = np.mean(enough)
    print(f"{n_actions:7}{mean:12.0f}{length:14}{shares[n_actions]:14.0%}")

# %%
# A precise answer
# ----------------
#
# A log with several trajectories gives their mean. The interval comes from their
# differences. The error falls with the square root of their number.

N_ACTIONS, LENGTHS = 5, (1000, 4000, 16_000)
start = EpsilonGreedy(0.1).fit(draw(100, N_ACTIONS, 0))
start.reset(draw(100, N_ACTIONS, 0))
runs = [run(start, N_ACTIONS, seed) for seed in range(N_RUNS)]
truth, its_error = np.mean(runs), np.std(runs, ddof=1) / np.sqrt(N_RUNS)
print(
    f"\nthe policy earns {truth:.3f} ({its_error:.3f}) per round in its first {HORIZON}"
)

values, widths, covers = [], [], []
for length in LENGTHS:
    for seed in range(n_logs):
        replay = Replay(horizon=HORIZON).fit(draw(length, N_ACTIONS, seed))
        value = replay.evaluate(EpsilonGreedy(0.1))
        low, high = value.confidence_interval(method="student")
        values.append(value.value)
        widths.append((high - low) / 2)
        covers.append(low - 2 * its_error < truth < high + 2 * its_error)
values, widths, covers = (
    np.reshape(found, (len(LENGTHS), n_logs)) for found in (values, widths, covers)
)
spread = values.std(axis=1, ddof=1)
print("rounds  trajectories  standard deviation  half interval  covers")
for k, length in enumerate(LENGTHS):
    n_trajectories = length // (N_ACTIONS * HORIZON)
    print(f"{length:6}{n_trajectories:14}{spread[k]:20.4f}", end="")
    print(f"{widths[k].mean():15.4f}{covers[k].mean():8.0%}")

figure, ax = plt.subplots(figsize=(8, 3.6), layout="constrained")
places = np.arange(len(LENGTHS)) + np.linspace(-0.3, 0.3, n_logs)[:, None]
ax.plot(places, values.T, "o", ms=3, color="#0072B2", label="replayed, one dot per log")
ax.axhline(truth, color="#009E73", label="true value")
handles = dict(zip(*ax.get_legend_handles_labels()[::-1], strict=True))
ax.set_xticks(range(len(LENGTHS)), [f"{length:,}" for length in LENGTHS])
ax.set(xlabel="logged rounds", ylabel=f"value of the first {HORIZON} rounds")
ax.legend(handles.values(), handles, loc="upper left", bbox_to_anchor=(1, 1))

# %%
# What to do
# ----------
#
# Multiply the number of actions by the rounds of a trajectory and by the number of
# trajectories. Twenty trajectories are few for an interval. If the log is too short for
# that, shorten the horizon, or use :class:`~skope_ope.DRns`, which also uses the other
# rounds.

assert min(shares.values()) > 0.95 - 4 * np.sqrt(0.95 * 0.05 / n_logs)
assert abs(values[-1].mean() - truth) < 4 * (spread[-1] / np.sqrt(n_logs) + its_error)
assert spread[-1] < spread[0] / 2
assert covers.mean() > 0.95 - 4 * np.sqrt(0.95 * 0.05 / covers.size)
plt.show()

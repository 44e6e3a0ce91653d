# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""
Does replay agree with the online bucket? The news stream of the replay paper
=============================================================================

Li, Chu, Langford and Wang (WSDM 2011) evaluated bandit algorithms on a log of uniform
choices among news articles, and compared what replay said with what the same policies
earned online. Their log is proprietary; here the stream is simulated, so that "online"
is a simulation as well and the truth is known: twenty articles, six user features, a
mean click rate of five percent.

Four questions of the paper: how much do repeated replays of algorithms spread; does
replay agree with an online bucket by article and by day; does the ratio of offline to
online click rate stay the same for other policies; and how does the error fall with
the number of accepted rounds.

``python plot_does_replay_agree_with_the_online_bucket.py --full`` uses a log of two
million rounds and one hundred runs.
"""

# %%
# The stream
# ----------
#
# A user is a constant and five features; an article's click rate is a logistic function
# of them, times a factor of the day that is the same for all articles.

import argparse
import sys
import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.utils.parallel import Parallel, delayed

from skope_ope import (
    UCB1,
    BanditLogs,
    BatchPolicy,
    EpsilonGreedy,
    LinUCB,
    OnlineClassifierPolicy,
    Replay,
    SegmentedPolicy,
)
from skope_ope.exceptions import OPEWarning

parser = argparse.ArgumentParser()
parser.add_argument("--full", action="store_true", help="the paper's size")
parser.add_argument("--n-jobs", type=int, default=2)
options, _ = parser.parse_known_args()
N_ROUNDS = 2_000_000 if options.full else 200_000
N_RUNS = 100 if options.full else 20
N_DAYS = 10
K, D = 20, 6

world = np.random.RandomState(0)
theta = 0.7 * world.standard_normal((K, D))
theta[:, 0] = 0.2 * world.standard_normal(K) - 3.8
theta[:3, 0] = -1.6, -1.8, -2.0  # three articles that most users like,
theta[:3, 1:3] = [[2, 0], [-2, 0], [0, 2]]  # each of them some more than others
day_factor = np.linspace(0.7, 1.3, N_DAYS)


def draw_users(n_rounds, rng):
    """Contexts: a constant and five features."""
    return np.column_stack([np.ones(n_rounds), rng.randn(n_rounds, D - 1) / 2])


def click_rate(X, action, day):
    """Click rate of one article for every user."""
    return expit(np.einsum("ij,ij->i", X, theta[action])) * day_factor[day]


def uniform_log(n_rounds, random_state):
    """A bucket of uniform choices; days are of equal length."""
    rng = np.random.RandomState(random_state)
    X = draw_users(n_rounds, rng)
    day = np.arange(n_rounds) * N_DAYS // n_rounds
    action = rng.randint(K, size=n_rounds)
    click = (rng.random_sample(n_rounds) < click_rate(X, action, day)).astype(float)
    time = np.arange(n_rounds) * N_DAYS / n_rounds
    return BanditLogs(
        X,
        action,
        click,
        np.full(n_rounds, 1 / K),
        timestamp=time,
        actions=np.arange(K),
        reward_range=(0, 1),
    ).with_columns(day=day)


logs = uniform_log(N_ROUNDS, random_state=1)
print(f"{logs!r}, mean reward {logs.reward.mean():.4f}")

# %%
# Repeated runs
# -------------
#
# The paper keeps each round with probability one half and replays a hundred times. The
# spread shows how much an algorithm depends on chance; it is no confidence interval,
# because the runs share rounds.

learners = {
    "epsilon-greedy (0.4)": EpsilonGreedy(epsilon=0.4),
    "UCB (alpha 1)": UCB1(alpha=1.0, width="constant"),
    "LinUCB (alpha 1)": LinUCB(alpha=1.0),
}
PAPER = {  # mean, standard deviation, of click rates relative to a hidden constant
    "epsilon-greedy (0.4)": (1.2664, 0.0308),
    "UCB (alpha 1)": (1.3278, 0.0192),
    "LinUCB (alpha 1)": (1.3867, 0.0157),
}


def one_run(policy, seed):
    """Replay a policy on half of the rounds."""
    rng = np.random.RandomState(seed)
    kept = np.flatnonzero(rng.random_sample(len(logs)) < 0.5)
    with warnings.catch_warnings():  # a single run has no standard error, it says
        warnings.simplefilter("ignore", OPEWarning)
        return Replay(random_state=seed).fit(logs[kept]).score(policy)


def progress(text):
    """Say on stderr what is being done."""
    print(text, file=sys.stderr, flush=True)


values = {}
for name, policy in learners.items():
    progress(f"replaying {name}")
    runs = (delayed(one_run)(policy, seed) for seed in range(N_RUNS))
    values[name] = np.array(Parallel(n_jobs=options.n_jobs)(runs))

base = logs.reward.mean()
print(f"\n{N_RUNS} runs on halves of {N_ROUNDS:,} rounds, relative to random choice")
print(f"{'':22}{'mean':>8}{'std':>8}{'max':>8}{'min':>8}{'std/mean':>10}   paper")
for name, runs in values.items():
    relative = runs / base
    mean, std = relative.mean(), relative.std(ddof=1)
    print(
        f"{name:22}{mean:8.4f}{std:8.4f}{relative.max():8.4f}{relative.min():8.4f}"
        f"{std / mean:10.2%}   {PAPER[name][0]:.4f} ({PAPER[name][1]:.4f})"
    )

# %%
# The order of the paper holds. The relative spread falls with the length of the log;
# on two million rounds it lies between half a percent and three percent, as there.

means = [runs.mean() for runs in values.values()]
assert means[0] < means[1] < means[2], means
spread = [runs.std(ddof=1) / runs.mean() for runs in values.values()]
widest = 0.03 if options.full else 0.03 * np.sqrt(2_000_000 / N_ROUNDS)
assert all(0.005 < s < widest for s in spread), spread

# %%
# Article by article, day by day
# ------------------------------
#
# A serving bucket shows, in every period, the article that looks best in another
# uniform bucket: the paper's "estimated most popular" policy (EMP). Online it is
# simulated on fresh users; offline it is replayed. `PolicyValue.by` cuts the value
# into articles and days.

exploration = uniform_log(N_ROUNDS // 2, random_state=2)
EVERY = 0.25  # days


def batch(policy):
    """Learn from the exploration bucket, every quarter of a day."""
    return BatchPolicy(policy, exploration, EVERY)


def segment(X):
    """Eight segments by the signs of three features."""
    return (X[:, 1:4] > 0) @ np.array([1, 2, 4])


policies = {
    "EMP": batch(EpsilonGreedy(epsilon=0.0)),
    "SEMP": batch(SegmentedPolicy(EpsilonGreedy(epsilon=0.0), segment)),
    "CEMP": batch(
        OnlineClassifierPolicy(LogisticRegression(), epsilon=0.0, update_every=1)
    ),
}


def online_bucket(policy, random_state):
    """Let a policy serve users of its own: their actions, clicks and days."""
    bucket = uniform_log(N_ROUNDS // 4, random_state)
    rng = np.random.RandomState(random_state + 1)
    proba = policy.logs_proba(bucket)
    action = proba.argmax(axis=1)  # these policies are greedy
    day = bucket.columns["day"]
    click = rng.random_sample(len(action)) < click_rate(bucket.context, action, day)
    return action, click.astype(float), day


online, offline = {}, {}
for i, (name, policy) in enumerate(policies.items()):
    progress(f"serving {name}")
    online[name] = online_bucket(policy, 10 + 2 * i)
    offline[name] = Replay(random_state=0).fit(logs).evaluate(policy)

action, click, _ = online["SEMP"]  # it shows several articles at any time
replayed = offline["SEMP"].by("action")
shown = np.bincount(logs.action[offline["SEMP"].accepted], minlength=K)
n_compared = 0
print("\nSEMP by article: clicks per view online and offline")
for article in range(K):
    served = click[action == article]
    if len(served) > 1000 and shown[article] > 300:
        rate, value = served.mean(), replayed[article]
        error = served.std(ddof=1) / np.sqrt(len(served))
        z = (value.value - rate) / np.hypot(error, value.standard_error)
        print(f"  {article:2d}: {rate:.4f} {value.value:.4f}  z {z:+.1f}")
        assert abs(z) < 4, (article, z)
        n_compared += 1
assert n_compared >= 2, "too few articles were shown often enough to compare"

# %%
# Replay and the online bucket agree on each day within four standard errors.

days = list(range(N_DAYS))
daily = {}
print()
for name, (_, clicks, day) in online.items():
    served = [clicks[day == d] for d in days]
    rate = np.array([c.mean() for c in served])
    error = np.array([c.std(ddof=1) / np.sqrt(len(c)) for c in served])
    by_day = offline[name].by("day")
    replayed = np.array([by_day[d].value for d in days])
    both = np.hypot(error, [by_day[d].standard_error for d in days])
    z = (replayed - rate) / both
    daily[name] = (rate, replayed, both)
    print(f"{name}: largest |z| by day {np.abs(z).max():.1f}")
    assert np.abs(z).max() < 4, (name, z)

# %%
# The ratio of offline to online
# ------------------------------
#
# If something other than the policy makes offline and online differ (another mix of
# users, another day), it should do so for all policies alike: the ratios of two
# policies, day by day, lie around a line of slope one through the origin.

ratios = {name: replayed / rate for name, (rate, replayed, _) in daily.items()}
print("\nratios of offline to online, day by day, against those of EMP")
for other, paper in (("SEMP", "1.019"), ("CEMP", "1.113")):
    x, y = ratios["EMP"], ratios[other]
    slope = (x @ y) / (x @ x)
    residual = y - slope * x
    error = np.sqrt(residual @ residual / (len(x) - 1) / (x @ x))
    print(f"{other}: slope {slope:.3f} +- {error:.3f} (paper {paper})")
    assert abs(slope - 1) < 4 * error, (other, slope, error)

# %%
# The error against the number of accepted rounds
# -----------------------------------------------
#
# A fixed policy is replayed on logs of several lengths; the error of its click rate
# falls as one over the root of the accepted rounds.

best = int(theta[:, 0].argmax())
N_REPEATS = 200 if options.full else 40
lengths = (N_ROUNDS // 100) * 2 ** np.arange(6)
rng = np.random.RandomState(4)
days_of = np.arange(500_000) % N_DAYS
truth = click_rate(draw_users(500_000, rng), np.full(500_000, best), days_of).mean()


def replayed_error(n_rounds, seed):
    """Squared error and accepted rounds of one replay of the fixed policy."""
    log = uniform_log(n_rounds, seed)
    always_best = (log.action == best).astype(float)  # pi of the logged action
    result = Replay(random_state=seed).fit(log).evaluate(always_best)
    return (result.value - truth) ** 2, len(result.accepted)


rmse, accepted = [], []
for n_rounds in lengths.tolist():
    progress(f"replaying a fixed policy on logs of {n_rounds:,} rounds")
    jobs = (delayed(replayed_error)(n_rounds, 1000 + s) for s in range(N_REPEATS))
    squares, sizes = np.array(Parallel(n_jobs=options.n_jobs)(jobs)).T
    rmse.append(np.sqrt(squares.mean()))
    accepted.append(sizes.mean())
x, y = np.log(accepted), np.log(rmse)
slope = np.polyfit(x, y, 1)[0]
# the logarithm of a root mean square of m normal errors has variance 1 / (2 m)
slope_error = np.sqrt(1 / (2 * N_REPEATS) / ((x - x.mean()) ** 2).sum())
print(
    f"\nlog error against log T: slope {slope:.3f} +- {slope_error:.3f} (theory -1/2)"
)
assert abs(slope + 0.5) < 4 * slope_error

# %%

figure, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
rate, replayed, both = daily["EMP"]
axes[0].errorbar(rate, replayed, both, fmt="o", capsize=3)
low, high = min(rate.min(), replayed.min()), max(rate.max(), replayed.max())
axes[0].plot([low, high], [low, high], "k:", lw=1)
axes[0].set(xlabel="online click rate of a day", ylabel="replayed", title="EMP by day")
for other in ("SEMP", "CEMP"):
    axes[1].plot(ratios["EMP"], ratios[other], "o", label=other)
axes[1].axline((1, 1), slope=1, color="k", ls=":", lw=1)
axes[1].set(
    xlabel="offline / online of EMP",
    ylabel="offline / online",
    title="ratios by day",
)
axes[1].legend()
axes[2].loglog(accepted, rmse, "o-", label="replay")
scale = rmse[0] * np.sqrt(accepted[0])
axes[2].loglog(accepted, scale / np.sqrt(accepted), "r--", lw=1, label="1 / sqrt(T)")
axes[2].set(xlabel="accepted rounds T", ylabel="rms error", title="convergence")
axes[2].legend()
plt.show()

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
theta[:6, 0] = -1.6, -1.7, -1.7, -1.8, -1.8, -1.9  # six articles that users like,
theta[:6, 1:4] = 2 * np.vstack([np.eye(3), -np.eye(3)])  # each of them other users


def draw_users(n_rounds, rng):
    """Contexts: a constant and five features."""
    return np.column_stack([np.ones(n_rounds), rng.randn(n_rounds, D - 1) / 2])


def click_rate(X, action):
    """Click rate of one article for every user."""
    return expit(np.einsum("ij,ij->i", X, theta[action]))


def uniform_log(n_rounds, random_state):
    """A bucket of uniform choices; days are of equal length."""
    rng = np.random.RandomState(random_state)
    X = draw_users(n_rounds, rng)
    day = np.arange(n_rounds) * N_DAYS // n_rounds
    action = rng.randint(K, size=n_rounds)
    click = (rng.random_sample(n_rounds) < click_rate(X, action)).astype(float)
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


def served(policy, n_rounds, random_state):
    """Let a policy serve users of its own: what it shows, and the users and days."""
    bucket = uniform_log(n_rounds, random_state)
    action = policy.logs_proba(bucket).argmax(axis=1)  # these policies are greedy
    return action, bucket.context, bucket.columns["day"]


def online_bucket(policy, random_state, factor=1.0):
    """Serve users, whose clicks are `factor` times as likely on each day."""
    action, X, day = served(policy, N_ROUNDS // 4, random_state)
    rng = np.random.RandomState(random_state + 1)
    rate = click_rate(X, action) * np.broadcast_to(factor, N_DAYS)[day]
    return action, (rng.random_sample(len(action)) < rate).astype(float), day


online, offline = {}, {}
for i, (name, policy) in enumerate(policies.items()):
    progress(f"serving {name}")
    online[name] = online_bucket(policy, 10 + 2 * i)
    offline[name] = Replay(random_state=0).fit(logs).evaluate(policy)

action, click, _ = online["SEMP"]  # it shows several articles at any time
replayed = offline["SEMP"].by("action")
shown = np.bincount(logs.action[offline["SEMP"].accepted], minlength=K)
compared = []
print("\nSEMP by article: clicks per view online and offline")
for article in range(K):
    views = click[action == article]
    if len(views) > 1000 and shown[article] > 300:
        rate, value = views.mean(), replayed[article]
        error = views.std(ddof=1) / np.sqrt(len(views))
        z = (value.value - rate) / np.hypot(error, value.standard_error)
        print(f"  {article:2d}: {rate:.4f} {value.value:.4f}  z {z:+.1f}")
        assert abs(z) < 4, (article, z)
        compared.append((article, rate, value.value))
assert len(compared) >= 5, "too few articles were shown often enough to compare"

# %%
# Replay and the online bucket agree on each day within four standard errors.

days = list(range(N_DAYS))


def by_day(name, bucket):
    """Click rates of a bucket by day, replayed ones, and errors of both."""
    _, clicks, day = bucket
    views = [clicks[day == d] for d in days]
    rate = np.array([c.mean() for c in views])
    error = np.array([c.std(ddof=1) / np.sqrt(len(c)) for c in views])
    values = offline[name].by("day")
    replayed = np.array([values[d].value for d in days])
    return rate, replayed, error, np.array([values[d].standard_error for d in days])


daily = {name: by_day(name, bucket) for name, bucket in online.items()}
print()
for name, (rate, replayed, *errors) in daily.items():
    z = (replayed - rate) / np.hypot(*errors)
    print(f"{name}: largest |z| by day {np.abs(z).max():.1f}")
    assert np.abs(z).max() < 4, (name, z)

# %%
# The ratio of offline to online
# ------------------------------
#
# An online bucket is not the log: business rules hold some articles back, users differ
# from day to day. Here all online clicks of a day are multiplied by a factor that the
# log knows nothing of. It makes replay wrong for every policy, and wrong alike: the
# ratios of offline to online of two policies, day by day, lie on a line of slope one
# through the origin. So replay still says which policy is better.
#
# Their correlation over the days is the test: errors that have nothing to do with each
# other would lie around that line as well, but without a correlation.

factor = np.random.RandomState(5).permutation(np.linspace(0.7, 1.3, N_DAYS))
ratios = {}
for i, (name, policy) in enumerate(policies.items()):
    rate, replayed, *_ = by_day(name, online_bucket(policy, 30 + 2 * i, factor))
    ratios[name] = replayed / rate
correlations = {}
print("\nratios of offline to online, day by day, against those of EMP")
for other, paper in (("SEMP", "1.019"), ("CEMP", "1.113")):
    x, y = ratios["EMP"], ratios[other]
    slope = (x @ y) / (x @ x)
    residual = y - slope * x
    error = np.sqrt(residual @ residual / (len(x) - 1) / (x @ x))
    correlations[other] = np.corrcoef(x, y)[0, 1]
    print(f"{other}: slope {slope:.3f} +- {error:.3f} (paper {paper}), ", end="")
    print(f"correlation {correlations[other]:.2f}")
    assert abs(slope - 1) < 4 * error, (other, slope, error)
    # ten days without a correlation exceed 0.7 about once in a hundred times
    assert correlations[other] > 0.7, (other, correlations[other])

# %%
# The error against the number of accepted rounds
# -----------------------------------------------
#
# The serving policies are replayed on logs of several lengths. What they show depends
# on the time and on the exploration bucket, not on what is accepted, so their true
# click rates are known: means over many users. The error falls as one over the root of
# the accepted rounds, for each article (the paper's figure 4) and for the policy as a
# whole (figure 5).

N_REPEATS = 100 if options.full else 24
lengths = (N_ROUNDS // 50) * 4 ** np.arange(3)
FOLLOWED = ("EMP", "SEMP")


def truth_of(policy):
    """True click rates of a policy: of each article that it shows, and of all."""
    action, X, _ = served(policy, 4 * N_ROUNDS, 40)
    rate = click_rate(X, action)
    views = np.bincount(action, minlength=K)
    by_article = np.bincount(action, rate, minlength=K) / np.maximum(views, 1)
    return by_article, rate.mean()


def errors_of(name, n_rounds, seed):
    """Squared errors and accepted rounds of one replay: of every article, of all."""
    log = uniform_log(n_rounds, seed)
    value = Replay(random_state=seed).fit(log).evaluate(policies[name])
    by_article, overall = truths[name]
    out = np.full((K + 1, 2), np.nan)
    for article, part in value.by("action").items():
        count = (log.action[value.accepted] == article).sum()
        out[article] = (part.value - by_article[article]) ** 2, count
    out[K] = (value.value - overall) ** 2, len(value.accepted)
    return out


truths = {name: truth_of(policies[name]) for name in FOLLOWED}
decay = {}
for name in FOLLOWED:
    progress(f"replaying {name} on logs of several lengths")
    jobs = (
        delayed(errors_of)(name, n_rounds, 1000 + seed)
        for n_rounds in lengths.tolist()
        for seed in range(N_REPEATS)
    )
    found = np.reshape(
        Parallel(n_jobs=options.n_jobs)(jobs), (len(lengths), N_REPEATS, K + 1, 2)
    )
    whole = np.isfinite(found).all(axis=(0, 1, 3))  # shown in every one of these logs
    decay[name] = found[:, :, whole].mean(axis=1), np.flatnonzero(whole)


def slope_of(squares, sizes):
    """Slope of log error in log T, and its standard error."""
    x, y = np.log(sizes), np.log(squares) / 2
    # the logarithm of a root mean square of m normal errors has variance 1 / (2 m)
    error = np.sqrt(1 / (2 * N_REPEATS) / ((x - x.mean()) ** 2).sum())
    return np.polyfit(x, y, 1)[0], error


print("\nlog error against log T (theory: slope -1/2)")
n_articles = 0
for name, (found, columns) in decay.items():
    for k, column in enumerate(columns):
        squares, sizes = found[:, k].T
        slope, error = slope_of(squares, sizes)
        what = "all" if column == K else f"article {column}"
        print(f"{name:5} {what:11} T up to {sizes[-1]:7.0f}: {slope:.2f} +- {error:.2f}")
        assert abs(slope + 0.5) < 4 * error, (name, what)
        n_articles += column < K
assert n_articles >= 5

# %%
# In pictures, one for each of the paper's figures 2 to 7.

figure, axes = plt.subplots(2, 3, figsize=(13, 8), layout="constrained")
(articles, by_days, lines), (fourth, fifth, spreads) = axes
_, rate, value = np.array(compared).T
articles.plot(rate, value, "o")
articles.axline((rate[0], rate[0]), slope=1, color="k", ls=":", lw=1)
articles.set(xlabel="online", ylabel="replayed", title="SEMP: articles (figure 2)")
rate, replayed, *errors = daily["EMP"]
by_days.errorbar(rate, replayed, errors[1], errors[0], fmt="o", capsize=3)
by_days.axline((rate[0], rate[0]), slope=1, color="k", ls=":", lw=1)
by_days.set(xlabel="online", ylabel="replayed", title="EMP: days (figure 3)")
for other in ("SEMP", "CEMP"):
    lines.plot(ratios["EMP"], ratios[other], "o", label=other)
lines.axline((1, 1), slope=1, color="k", ls=":", lw=1)
lines.set(xlabel="offline / online of EMP", title="ratios (figures 6 and 7)")
lines.legend()
for name, (found, columns) in decay.items():
    for k, column in enumerate(columns):
        ax, label = (fifth, name) if column == K else (fourth, None)
        squares, sizes = found[:, k].T
        ax.loglog(sizes, np.sqrt(squares), "o-", label=label)
for ax, title in ((fourth, "articles (figure 4)"), (fifth, "policies (figure 5)")):
    T = np.array(ax.get_xlim())
    ax.loglog(T, 0.4 / np.sqrt(T), "r--", lw=1)
    ax.set(xlabel="accepted rounds T", ylabel="rms error", title=title)
fifth.legend()
spreads.boxplot([runs / base for runs in values.values()])
spreads.set_xticks(range(1, len(values) + 1), [name.split(" (")[0] for name in values])
spreads.set(ylabel="relative to random choice", title="runs (table 1)")
plt.show()

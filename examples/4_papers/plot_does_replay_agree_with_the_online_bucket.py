# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
# sphinx_gallery_thumbnail_number = -1
"""
Does replay agree with the online bucket? The news stream of the replay paper
=============================================================================

Li, Chu, Langford and Wang [1]_ evaluated bandit algorithms on a log of uniform choices
among some twenty news articles, and compared what replay says with what the same
policies earned online. Their log and their online buckets are not public. Here both
are simulated: twenty articles, six user features, sixteen days. Clicks are more
frequent than on a news page, so that a short log answers.

Four questions of the paper are asked again: does replay agree with an online bucket, by
article and by day; is the ratio of offline to online click rate the same for all
policies; how does the error fall with the number of accepted rounds; and how much do
repeated runs of an algorithm spread.

``python plot_does_replay_agree_with_the_online_bucket.py --full`` takes a log of a
million rounds and a hundred runs of every algorithm, in about four minutes of a core.
The paper's table 1 has four million rounds and as many runs: ``--full --n-rounds
4000000``, 18 minutes.

.. [1] Li, L., Chu, W., Langford, J., & Wang, X. (2011). Unbiased offline evaluation of
   contextual-bandit-based news article recommendation algorithms. WSDM.
"""

# %%
# The stream
# ----------
#
# A user is a constant and five features. The click rate of an article is a logistic
# function of them, the same on all days. Six articles have high click rates, each with
# other users.

import argparse
import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from skope_ope import UCB1, BanditLogs, EpsilonGreedy, LinUCB, Replay
from skope_ope.exceptions import OPEWarning
from skope_ope.policies import (
    BatchPolicy,
    OnlineClassifierPolicy,
    SegmentedPolicy,
    action_probabilities,
)

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--full", action="store_true", help="a million rounds, 100 runs")
parser.add_argument("--n-rounds", type=int, help="length of the log")
parser.add_argument("--n-runs", type=int, help="runs of every algorithm")
options = parser.parse_known_args()[0]
N_ROUNDS = options.n_rounds or (1_000_000 if options.full else 320_000)
N_RUNS = options.n_runs or (100 if options.full else 10)
N_DAYS = 16
K, D = 20, 6

world = np.random.RandomState(0)
theta = 0.7 * world.standard_normal((K, D))
theta[:, 0] = 0.2 * world.standard_normal(K) - 3.8
theta[:6, 0] = -1.6, -1.7, -1.7, -1.8, -1.8, -1.9
theta[:6, 1:4] = 2 * np.vstack([np.eye(3), -np.eye(3)])


def click_rate(X, action):
    """Click rate of one article for every user."""
    return expit(np.einsum("ij,ij->i", X, theta[action]))


def uniform_log(n_rounds, random_state):
    """A bucket of uniform choices, with days of equal length."""
    rng = np.random.RandomState(random_state)
    X = np.column_stack([np.ones(n_rounds), rng.randn(n_rounds, D - 1) / 2])
    action = rng.randint(K, size=n_rounds)
    time = np.arange(n_rounds) * N_DAYS / n_rounds
    return BanditLogs(
        X,
        action,
        (rng.random_sample(n_rounds) < click_rate(X, action)).astype(float),
        np.full(n_rounds, 1 / K),
        timestamp=time,
        actions=np.arange(K),
        reward_range=(0, 1),
    ).with_columns(day=time.astype(int))


logs = uniform_log(N_ROUNDS, random_state=1)
base = logs.reward.mean()
print(f"{logs!r}, click rate {base:.4f}")

# %%
# The serving policies
# --------------------
#
# Three policies of the paper learn from the log of uniform choices and serve other
# users. They show the article with the highest click rate so far (EMP), so far among
# the users of a segment (SEMP), or by a logistic regression per article (CEMP). Here
# they learn once a day, from every eighth round.


def segment(X):
    """Eight segments, by the signs of three features."""
    return (X[:, 1:4] > 0) @ np.array([1, 2, 4])


most_popular = EpsilonGreedy(epsilon=0.0)
by_regression = OnlineClassifierPolicy(LogisticRegression(), epsilon=0.0)
lessons = logs[::8]
policies = {
    "EMP": BatchPolicy(most_popular, lessons, every=1),
    "SEMP": BatchPolicy(SegmentedPolicy(most_popular, segment), lessons, every=1),
    "CEMP": BatchPolicy(by_regression, lessons, every=1),
}

# %%
# Online, a policy serves users of its own. Offline, it is replayed on the log that it
# learns from, as in the paper. What it shows on a day depends on the rounds of the days
# before, whether accepted or not: to `Replay` it is a policy that does not learn.


def serve(policy, random_state):
    """Click rates, articles and days of a bucket of users that a policy serves."""
    users = uniform_log(N_ROUNDS // 4, random_state)
    action = action_probabilities(policy, users).argmax(axis=1)
    return click_rate(users.context, action), action, users.columns["day"]


def clicked(rate, random_state):
    """Clicks of users."""
    rng = np.random.RandomState(random_state)
    return (rng.random_sample(len(rate)) < rate).astype(float)


def mean_and_error(x):
    """Mean and standard error."""
    return x.mean(), x.std(ddof=1) / np.sqrt(len(x))


served, offline = {}, {}
for i, (name, policy) in enumerate(policies.items()):
    served[name] = serve(policy, 10 + i)
    offline[name] = Replay(random_state=0).fit(logs).evaluate(policy)

# %%
# Article by article, day by day
# ------------------------------
#
# The paper compares the click rates of the articles that were seen most often online
# (its figure 2), and those of the days (figure 3). EMP shows one article at a time; by
# article we take SEMP, which shows several. `PolicyValue.by` cuts a value into groups.


def compare(name, by, codes, least):
    """Click rates online and offline, by article or day with enough views."""
    rate, *_ = served[name]
    click = clicked(rate, 20)
    with warnings.catch_warnings():  # that some articles were never shown
        warnings.simplefilter("ignore", OPEWarning)
        replayed = offline[name].by(by)
    rows = []
    for group in np.flatnonzero(np.bincount(codes) >= least):
        value = replayed[group]
        found = value.value, value.standard_error
        rows.append([group, *mean_and_error(click[codes == group]), *found])
    table = np.array(rows)
    z = (table[:, 3] - table[:, 1]) / np.hypot(table[:, 2], table[:, 4])
    print(f"\n{name}, clicks per view, by {by}\n{'':>8}  online  offline     z")
    for (group, seen, _, value, _), gap in zip(table, z, strict=True):
        print(f"{group:>8.0f}  {seen:.4f}   {value:.4f}  {gap:+.1f}")
    return table, z


by_article, z = compare("SEMP", "action", served["SEMP"][1], N_ROUNDS // 100)
assert len(z) >= 4
assert np.abs(z).max() < 4
by_day, z = compare("EMP", "day", served["EMP"][2], 1)
assert np.abs(z).max() < 4

# %%
# The ratio of offline to online
# ------------------------------
#
# The paper's online buckets are not its log: unlogged business rules changed what was
# shown, by an unknown factor on each day. So it compares the ratios of offline to
# online click rates of two policies, day by day: where the factor of a day is the same
# for all policies, these lie on a line of slope one.
#
# Here the online click rates of a day are multiplied by a factor between .4 and 1, of
# which the log knows nothing. (No larger one: no rate of a user may exceed 1.)

factor = np.random.RandomState(5).permutation(np.geomspace(0.4, 1.0, N_DAYS))
ratios = {}
for i, (name, (rate, _, day)) in enumerate(served.items()):
    click = clicked(rate * factor[day], 30 + i)
    replayed = offline[name].by("day")
    rows = []
    for d in range(N_DAYS):
        online, error = mean_and_error(click[day == d])
        value, its_error = replayed[d].value, replayed[d].standard_error
        ratio = value / online
        rows.append((ratio, ratio * np.hypot(error / online, its_error / value)))
    ratios[name] = np.transpose(rows)

# %%
# A correlation of the two ratios over the days says that the factor is in both. Errors
# of replay alone would lie around the same line, but without one: sixteen independent
# pairs exceed .7 once in about eight hundred times.

print("\nratios of offline to online by day, against those of EMP")
print(f"{'':6}slope            sd of residuals  correlation")
for name, paper in (("SEMP", (1.019, 0.0563)), ("CEMP", (1.113, 0.075))):
    (x, x_error), (y, y_error) = ratios["EMP"], ratios[name]
    slope = (x @ y) / (x @ x)
    error = np.sqrt(x**2 @ (x_error**2 + y_error**2)) / (x @ x)
    sd = np.sqrt(((y - slope * x) ** 2).sum() / (N_DAYS - 1))
    correlation = np.corrcoef(x, y)[0, 1]
    print(f"{name:6}{slope:.3f} +- {error:.3f}  {sd:.4f}           {correlation:.2f}")
    print(f"{'paper':6}{paper[0]:.3f}           {paper[1]:.4f}")
    assert abs(slope - 1) < 4 * error
    assert correlation > 0.7

# %%
# The error against the number of accepted rounds
# -----------------------------------------------
#
# A long log is dealt out to short ones of three lengths, all over the same days, and
# each is replayed. The root mean square error falls as one over the root of the
# accepted rounds T, for each article (the paper's figure 4) and for a whole policy
# (figure 5). The truth is the mean click rate of the users of the long log. Articles
# with few accepted rounds in the shortest logs are left out.

N_LOGS, STEPS, FEW = 24, (216, 72, 24), 20
long = uniform_log(min(5 * N_ROUNDS // 2, 2_000_000), 40)


def mean_rates(action):
    """True click rates of what is shown in the long log: by article, and of all."""
    rate = click_rate(long.context, action)
    shown = np.bincount(action, minlength=K)
    return np.append(np.bincount(action, rate, K) / np.maximum(shown, 1), rate.mean())


def replay_parts(step):
    """Values and accepted rounds of short logs: by article, and of all."""
    values, sizes = np.full((2, N_LOGS, K + 1), np.nan)
    for start in range(N_LOGS):
        log = long[start::step]
        value = Replay(random_state=start).fit(log).evaluate("pi")
        sizes[start, :K] = np.bincount(log.action[value.accepted], minlength=K)
        sizes[start, K] = len(value.accepted)
        with warnings.catch_warnings():  # that some articles were never shown
            warnings.simplefilter("ignore", OPEWarning)
            groups = value.by("action")
        values[start] = [*(groups[a].value for a in range(K)), value.value]
    return values, sizes.mean(axis=0)


decay = {}
for name in ("EMP", "SEMP"):
    pi = action_probabilities(policies[name], long)
    long, truth = long.with_columns(pi=pi), mean_rates(pi.argmax(axis=1))
    values, sizes = zip(*(replay_parts(step) for step in STEPS), strict=True)
    squares = ((np.array(values) - truth) ** 2).mean(axis=1)
    decay[name] = np.array(sizes), np.sqrt(squares)

print("\nlog error against log T")
print(f"{'':24}T              slope (theory: -1/2)")
curves = []
for name, (sizes, rmse) in decay.items():
    for column in np.flatnonzero(sizes[0] >= FEW):
        x, y = np.log(sizes[:, column]), np.log(rmse[:, column])
        slope = np.polyfit(x, y, 1)[0]
        # the logarithm of a root mean square of m normal errors has variance 1 / (2 m)
        error = np.sqrt(1 / (2 * N_LOGS) / ((x - x.mean()) ** 2).sum())
        what = "all" if column == K else f"article {column}"
        ends = f"{sizes[0, column]:.0f} to {sizes[-1, column]:.0f}"
        print(f"{name:6}{what:18}{ends:15}{slope:.2f} +- {error:.2f}")
        assert abs(slope + 0.5) < 4 * error
        curves.append((name, column, sizes[:, column], rmse[:, column]))
assert len(curves) > 3

# %%
# Repeated runs
# -------------
#
# The paper keeps each round with probability one half and replays an algorithm, a
# hundred times (its table 1). The spread shows how much the algorithm depends on
# chance; it is no confidence interval, because the runs share rounds.
#
# A policy that does not learn spreads, too: with T accepted rounds in a half and click
# rate g by about the root of (1 - g) / (2 g T), relative to g. That is the last column.
# Click rates are relative to the mean of the log; the paper's to a constant that it
# does not tell.

learners = {
    "epsilon-greedy (0.4)": EpsilonGreedy(epsilon=0.4),
    "UCB (alpha 1)": UCB1(alpha=1.0, width="constant"),
    "LinUCB (alpha 1)": LinUCB(alpha=1.0),
}
PAPER = {  # mean, standard deviation, largest, smallest
    "epsilon-greedy (0.4)": (1.2664, 0.0308, 1.3079, 1.1671),
    "UCB (alpha 1)": (1.3278, 0.0192, 1.3661, 1.2812),
    "LinUCB (alpha 1)": (1.3867, 0.0157, 1.4268, 1.3491),
}
source = logs if options.full else logs[::2]


def one_run(policy, seed):
    """Replay a policy on half of the rounds."""
    kept = np.random.RandomState(seed).random_sample(len(source)) < 0.5
    with warnings.catch_warnings():  # a single history has no standard error
        warnings.simplefilter("ignore", OPEWarning)
        return Replay(random_state=seed).fit(source[kept]).score(policy)


def row_of(name, numbers):
    """A row of the table."""
    mean, std = numbers[:2]
    cells = "".join(f"{x:8.4f}" for x in numbers)
    return f"{name:22}{cells}{std / mean:10.1%}"


print(f"\n{N_RUNS} runs on halves of {len(source):,} rounds")
print(f"{'':22}    mean     std     max     min  std/mean  (not learning)")
runs = {}
for name, policy in learners.items():
    values = np.array([one_run(policy, seed) for seed in range(N_RUNS)])
    runs[name] = found = values / base
    spread = values.std(ddof=1) / values.mean()
    n_accepted = len(source) / (2 * K)
    fixed = np.sqrt((1 - values.mean()) / (2 * values.mean() * n_accepted))
    numbers = found.mean(), found.std(ddof=1), found.max(), found.min()
    print(row_of(name, numbers) + f"{fixed:16.1%}")
    print(row_of("  paper", PAPER[name]))
    assert 0.25 * fixed < spread < 0.1

# %%
# The order is the paper's, and so is the size of the spread: a few percent of the mean.
# It is more than that of a policy that does not learn.

means = [found.mean() for found in runs.values()]
assert means[0] < means[1] < means[2]

# %%
# In pictures, one for each of the paper's figures 2 to 7.

figure, axes = plt.subplots(2, 3, figsize=(13, 8), layout="constrained")
for ax, table, title in (
    (axes[0, 0], by_article, "SEMP: articles (figure 2)"),
    (axes[0, 1], by_day, "EMP: days (figure 3)"),
):
    _, online, error, value, its_error = table.T
    ax.errorbar(online, value, its_error, error, fmt="o", capsize=3)
    ax.axline((online[0], online[0]), slope=1, color="k", ls=":", lw=1)
    ax.set(xlabel="online", ylabel="replayed", title=title)
for name, column, sizes, rmse in curves:
    ax, label = (axes[1, 0], name) if column == K else (axes[0, 2], None)
    ax.loglog(sizes, rmse, "o-", label=label)
titles = {(0, 2): "articles (figure 4)", (1, 0): "policies (figure 5)"}
for where, title in titles.items():
    ax = axes[where]
    T = np.array(ax.get_xlim())
    ax.loglog(T, 1 / np.sqrt(T), "r--", lw=1, label="$1 / \\sqrt{T}$")
    ax.set(xlabel="accepted rounds T", ylabel="rms error", title=title)
    ax.legend(loc="upper left", bbox_to_anchor=(1, 1))
for ax, name, number in ((axes[1, 1], "SEMP", 6), (axes[1, 2], "CEMP", 7)):
    (x, x_error), (y, y_error) = ratios["EMP"], ratios[name]
    ax.errorbar(x, y, y_error, x_error, fmt="o")
    ax.axline((1, 1), slope=1, color="k", ls=":", lw=1)
    ax.set(xlabel="offline / online of EMP", title=f"{name} (figure {number})")
plt.show()

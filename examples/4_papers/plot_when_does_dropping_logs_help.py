# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""
When does dropping logs help? The experiment of the paper on several loggers
============================================================================

A system was redeployed: logger 1 differs from the policy in question, logger 2 is
close to it. Agarwal, Basu, Schnabel and Joachims [1]_ showed that the plain inverse
propensity estimate may get *worse* with the rounds of logger 1, and proposed two ways
to pool the loggers that do not: one importance weight against the mixture of both
("balanced"), or one weight per logger ("weighted").

This script computes the four figures of the paper: exact variances, no simulation.
Where the environment variable ``SKOPE_OPE_DATA`` names a folder with the multi-label
sets *scene*, *yeast* and *tmc2007_500* (its four most frequent labels, in the place of
the paper's third corpus), it uses these, otherwise digits with six labels each. The
paper's policies are conditional random fields, these are one logistic regression per
label.

.. [1] Agarwal, A., Basu, S., Schnabel, T., & Joachims, T. (2017). Effective evaluation
   using logged bandit feedback from multiple loggers. KDD.
"""

import argparse
import os
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from skope_ope import BanditLogs, MultiLoggerIPS, evaluate, pooling_variance_ratio
from skope_ope.exceptions import OPEWarning

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--full", action="store_true", help="check every fraction by logs")
parser.add_argument("--data-home", default=os.environ.get("SKOPE_OPE_DATA"))
parser.add_argument("--sets", nargs="+", help="names of sets, in place of the default")
parser.add_argument("--n-logs", type=int, default=500, help="logs per checked point")
args = parser.parse_known_args()[0]

FRACTIONS = [0.02, 0.05, 0.08, 0.14, 0.20, 0.26]  # of the training set, logger 1
SECOND, TARGET = 0.30, 0.35  # logger 2, and the policy in question
RATIOS = [0.0, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0]  # n1 / n2
names = args.sets or (
    ["scene", "yeast", "tmc2007_500"] if args.data_home else ["digits"]
)

# %%
# From labels to policies
# -----------------------
#
# An action is a set of labels, the reward the number of labels that are right. A
# policy draws every label by its own logistic regression, so that its probabilities
# are products. What matters of a label is whether it is right: with
# :math:`a_l(x)` the probability that the policy gets label l right, the reward is a sum
# of independent coins.


def load(name):
    """Return (X, Y) of the training and of the test set."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        families = [{0, 2, 4, 6, 8}, {2, 3, 5, 7}, {0, 6, 8, 9}, {1, 4, 7}]
        families += [{5, 6, 7, 8, 9}, {2, 3, 5, 6, 8, 9}]  # even, prime, loops, ...
        Y = np.array([[digit in family for family in families] for digit in y])
        train = np.random.RandomState(0).permutation(len(y)) < len(y) // 2
    else:
        z = np.load(Path(args.data_home) / f"multilabel_{name}.npz")
        Y, train = z["Y"], z["split"] == 0
        if "X" in z.files:
            X = z["X"].astype(float)
        else:
            parts = (z["X_data"].astype(float), z["X_indices"].astype(np.int32))
            X = sparse.csr_matrix((*parts, z["X_indptr"]), shape=tuple(z["X_shape"]))
            X = X.toarray()
        if name == "tmc2007_500":
            Y = Y[:, np.sort(np.argsort(Y[train].sum(axis=0))[-4:])]
    scaler = StandardScaler().fit(X[train])
    X, Y = scaler.transform(X), Y.astype(int)
    return X[train], Y[train], X[~train], Y[~train]


def right(fraction, X_train, Y_train, X_test, Y_test):
    """Probability of every label of the test set to be right, (n_rows, n_labels)."""
    order = np.random.RandomState(0).permutation(len(X_train))
    some = order[: round(fraction * len(X_train))]
    columns = []
    for y_train, y_test in zip(Y_train[some].T, Y_test.T, strict=True):
        if len(np.unique(y_train)) == 1:  # a label that is not there yet
            p = np.full(len(X_test), (y_train.sum() + 1) / (len(some) + 2))
        else:
            model = LogisticRegression(C=0.01, max_iter=1000)
            p = model.fit(X_train[some], y_train).predict_proba(X_test)[:, 1]
        columns.append(np.where(y_test == 1, p, 1 - p))
    return np.column_stack(columns)


# %%
# Exact variances
# ---------------
#
# The divergence of a logger needs :math:`\sum_y (\delta \bar\pi)^2 / \pi_i`, a sum
# over all label sets that factors: with the coins b of the logger and
# :math:`g_l = a_l^2 / b_l + (1-a_l)^2 / (1-b_l)` it is :math:`\prod_l g_l` times the
# second moment of a sum of coins. The variance of the balanced estimate does not
# factor, its denominator is a mixture: all :math:`2^L` label sets of every test row are
# enumerated, in chunks.


def divergence(a, b):
    """Variance of one IPS term of a logger with coins b, for a policy with coins a."""
    heads, tails = a * a / b, (1 - a) ** 2 / (1 - b)
    g = heads + tails
    q = heads / g
    second = (q * (1 - q)).sum(axis=1) + q.sum(axis=1) ** 2
    return (g.prod(axis=1) * second).mean() - a.sum(axis=1).mean() ** 2


def all_products(coins):
    """Probabilities of all 2^L outcomes, in the order of binary numbers."""
    out = np.ones((len(coins), 1))
    for p in coins.T:
        out = np.concatenate([out * (1 - p[:, None]), out * p[:, None]], axis=1)
    return out


def balanced_variances(a, b1, b2, ratios):
    """Return n times the variance of the balanced estimate, for every n1 / n2."""
    shares = [(u / (1 + u), 1 / (1 + u)) for u in ratios]
    n_labels, n_rows = a.shape[1], len(a)
    reward = np.zeros(1)
    for _ in range(n_labels):
        reward = np.concatenate([reward, reward + 1])
    squares, means = np.zeros(len(ratios)), np.zeros((2, len(ratios)))
    step = max((1 << 15) >> n_labels, 1)  # rows whose label sets fit the cache
    for start in range(0, n_rows, step):
        rows = slice(start, start + step)
        p1, p2 = all_products(b1[rows]), all_products(b2[rows])
        t = all_products(a[rows]) * reward
        sums = np.stack([(t * x).ravel() for x in (t, p1, p2)])
        for k, (s1, s2) in enumerate(shares):
            mixture = (s1 * p1 + s2 * p2).ravel()
            squares[k], *means[:, k] = [squares[k], *means[:, k]] + sums @ (1 / mixture)
    squares, means = squares / n_rows, means / n_rows
    shares = np.array(shares).T
    return squares - (shares * means**2).sum(axis=0)


def experiment(name):
    """Return the coins and n times the variances, by fraction and ratio."""
    data = load(name)
    a, b2 = right(TARGET, *data), right(SECOND, *data)
    second = divergence(a, b2)
    rows = []
    for fraction in FRACTIONS:
        b1 = right(fraction, *data)
        first = divergence(a, b1)
        u = np.array(RATIOS)
        naive = (u * first + second) / (1 + u)
        found = {
            "fraction": fraction,
            "coins": (a, b1, b2),
            "divergences": (first, second),
            "r": first / second,
            "naive": naive,
            "only D2": second * (1 + u),
            "balanced": balanced_variances(a, b1, b2, RATIOS),
            "weighted": (1 + u) / (u / first + 1 / second),
        }
        gamma = [pooling_variance_ratio([first, second], [x, 1]) for x in u]
        assert np.allclose(found["weighted"] / naive, gamma)
        rows.append(found)
    return rows


results = {name: experiment(name) for name in names}

# %%
# Logs agree with the sums
# ------------------------
#
# Logs are drawn, and handed to the evaluators of the package as a user would. Means
# and variances over the logs must agree with the exact ones within four standard
# errors, and so must the squares of the standard errors that the evaluators report,
# each from its own log. How far these scatter follows from the fourth moments of the
# terms, exact ones, for a sample without the rare large terms takes itself for a calm
# one. The last column is what a user gets who does not know the divergences and has
# them estimated from the rounds of both loggers.


def draw(coins, n, rng):
    """Logs of n rounds of each logger, and the policy's probabilities."""
    a, *loggers = coins
    x = rng.randint(len(a), size=2 * n)
    logger = np.repeat([1, 2], n)
    b = np.where((logger == 1)[:, None], loggers[0][x], loggers[1][x])
    hits = rng.random_sample(b.shape) < b
    pi, p1, p2 = (np.where(hits, c[x], 1 - c[x]).prod(axis=1) for c in coins)
    action = hits @ (1 << np.arange(hits.shape[1]))
    logs = BanditLogs(
        x[:, None].astype(float),
        action,
        hits.sum(axis=1),
        logger=logger,
        logger_proba=np.column_stack([p1, p2]),
    )
    return logs, pi


def central(raw):
    """Variance and fourth central moment from the raw moments 1 to 4."""
    m1, m2, m3, m4 = raw
    return m2 - m1**2, m4 - 4 * m3 * m1 + 6 * m2 * m1**2 - 3 * m1**4


def scatter_of_squares(found, n):
    """Standard deviation of SE^2 over logs with n rounds of each logger, by name.

    A sample variance of n terms has the variance (m4 - s^4 (n - 3) / (n - 1)) / n.
    """
    a, *loggers = found["coins"]
    reward = np.zeros(1)
    for _ in range(a.shape[1]):
        reward = np.concatenate([reward, reward + 1])
    raw = np.zeros((2, 2, 4))  # own or mixed propensity, logger, power
    step = max((1 << 15) >> a.shape[1], 1)
    for start in range(0, len(a), step):
        rows = slice(start, start + step)
        t = all_products(a[rows]) * reward
        p = [all_products(b[rows]) for b in loggers]
        for i in (0, 1):
            for k, propensity in enumerate((p[i], (p[0] + p[1]) / 2)):
                term, power = t / propensity, p[i]
                for order in range(4):
                    power = power * term
                    raw[k, i, order] += power.sum()
    raw /= len(a)
    inverse = 1 / np.array(found["divergences"])
    out = {}
    for name, k, share in (  # n_i lambda_i
        ("naive", 0, np.full(2, 0.5)),
        ("balanced", 1, np.full(2, 0.5)),
        ("weighted", 0, inverse / inverse.sum()),
    ):
        s2, m4 = np.array([central(raw[k, i]) for i in (0, 1)]).T
        total = (share**2 * s2).sum() / n
        assert np.isclose(total, found[name][RATIOS.index(1.0)] / (2 * n))
        variance = (m4 - s2**2 * (n - 3) / (n - 1)) / n
        out[name] = np.sqrt((share**4 * variance).sum()) / n
    return out


def check(found, n=200):
    """Compare logs with as many rounds of both loggers with the exact variances."""
    evaluators = {
        "naive": MultiLoggerIPS(),
        "balanced": MultiLoggerIPS(pooling="balanced"),
        "weighted": MultiLoggerIPS(
            pooling="weighted",
            divergences=dict(zip((1, 2), found["divergences"], strict=True)),
        ),
        "estimated": MultiLoggerIPS(pooling="weighted"),
    }
    scatter = scatter_of_squares(found, n)
    rng = np.random.RandomState(0)
    values, squares = [], []
    for _ in range(args.n_logs):
        logs, pi = draw(found["coins"], n, rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OPEWarning)  # of small logs
            table = evaluate(pi, logs, evaluators=evaluators)
        values.append([result.value for result in table.values()])
        squares.append([result.standard_error**2 for result in table.values()])
    truth = found["coins"][0].sum(axis=1).mean()
    even = RATIOS.index(1.0)
    line = f"{found['fraction']:10.2f}{found['r']:8.2f}"
    for k, name in enumerate(evaluators):
        v = np.array(values)[:, k]
        deviations = (v - truth) ** 2
        error = deviations.std(ddof=1) / np.sqrt(len(v))
        if name in found:
            exact = found[name][even] / (2 * n)
            assert abs(v.mean() - truth) < 4 * np.sqrt(exact / len(v)), name
            assert abs(deviations.mean() - exact) < 4 * error, name
            error = scatter[name] / np.sqrt(len(v))
            assert abs(np.mean(squares, axis=0)[k] - exact) < 4 * error, name
        line += f"{deviations.mean() * 2 * n:10.3f}"
        line += f" ({found[name][even]:.3f})" if name in found else ""
    print(line)


# %%
# The four figures
# ----------------

FIGURES = [
    ("only D2", "naive", "1: naive, logger 2 alone / naive, both"),
    ("balanced", "naive", "2: balanced / naive"),
    ("weighted", "naive", "3: weighted / naive"),
    ("weighted", "balanced", "4: weighted / balanced"),
]

for name, rows in results.items():
    print(f"\n{name}: n x variance of logs with n1 = n2, simulated (exact)")
    print(f"{'fraction':>10}{'r':>8}  naive, balanced, weighted; estimated weights")
    for found in rows if args.full else (rows[0], rows[-1]):
        check(found)
    for above, below, title in FIGURES:
        print(f"\n{name}, figure {title}\n{'r = s1^2/s2^2':>16} n1/n2:", end="")
        print("".join(f"{u:8g}" for u in RATIOS))
        for found in rows:
            ratio = found[above] / found[below]
            print(f"{found['r']:16.2f}       " + "".join(f"{x:8.3f}" for x in ratio))

figure, axes = plt.subplots(
    len(results), 4, figsize=(13, 1 + 2.6 * len(results)), sharex=True, squeeze=False
)
for row, (name, rows) in zip(axes, results.items(), strict=True):
    for ax, (above, below, title) in zip(row, FIGURES, strict=True):
        for found in rows:
            ratio = found[above] / found[below]
            ax.plot(RATIOS, ratio, "o-", ms=3, label=f"r = {found['r']:.2g}")
        ax.axhline(1, color="black", lw=0.7)
        ax.set(xscale="symlog", yscale="log", title=f"{name}, {title}")
        ax.title.set_fontsize(8)
    row[0].set_ylabel("ratio of variances")
    row[-1].legend(fontsize=7)
for ax in axes[-1]:
    ax.set_xlabel("n1 / n2")
figure.tight_layout()

# %%
# What holds
# ----------
#
# Dropping logger 1 helps the naive estimate where :math:`r > 2 + n_1/n_2`: where it is
# far from the policy, and more so the fewer rounds it has. The balanced estimate never
# loses to the naive one, nor does the weighted one. Between these two it depends: to
# weight whole loggers is better where one of them is useless, to weight rounds where
# the two are alike. The three multi-label sets show both. On the digits whole loggers
# win in all cases, by less the more the two are alike.

for name, rows in results.items():
    naive, balanced, weighted, alone = (
        np.array([found[key] for found in rows])
        for key in ("naive", "balanced", "weighted", "only D2")
    )
    r, u = np.array([found["r"] for found in rows])[:, None], np.array(RATIOS)
    assert (balanced <= naive * (1 + 1e-12)).all()
    assert (weighted <= np.minimum(naive, alone) * (1 + 1e-12)).all()
    both = np.broadcast_to(u > 0, naive.shape)
    wins, change = (weighted < balanced)[both], (weighted / balanced - 1)[both]
    if name != "digits":
        assert wins.any() and not wins.all()
        loss = f"and loses by up to {change.max():.1%}"
    else:
        assert wins.all()
        loss = f"never by less than {-change.max():.1%}"
    assert ((alone < naive) == (r > 2 + u))[both].all()
    print(
        f"\n{name}: dropping logger 1 helps the naive estimate in "
        f"{(alone < naive)[both].sum()} of {both.sum()} cases, the balanced one in "
        f"{(alone < balanced)[both].sum()}; weighted beats balanced in "
        f"{wins.sum()}, by up to {-change.min():.1%}, {loss}."
    )

plt.show()

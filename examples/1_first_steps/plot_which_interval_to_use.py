# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""
Which interval to use? Coverage and width of every method
=========================================================

Some methods promise their level for many rounds, some for every number of rounds, and
some at every time while a log grows. A stronger promise makes a wider interval. This
script draws logs from worlds whose values are known exactly, and counts for every
method how often the 95% interval covers the truth, and how wide it is.

``--repetitions 2000 --n-rounds 100 1000 10000`` gives the tables of the guide's page on
intervals. ``--worlds`` draws some of them only. ``--memory folder`` keeps what has been
counted, so that a run that was stopped goes on where it was; it does not notice that
the package has changed.
"""

import argparse
import warnings

import matplotlib.pyplot as plt
import numpy as np
from _worlds import (
    NormalWorld,
    SlateWorld,
    ThompsonWorld,
    capped,
    click,
    clicks_world,
    dense_world,
    make_worlds,
    mild_world,
    shares_world,
)
from joblib import Memory, Parallel, delayed
from sklearn.linear_model import Ridge

from skope_ope import IPS, SNDR, SNIPS, DoublyRobust, PseudoInverse

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--repetitions", type=int, default=20)
parser.add_argument("--n-rounds", type=int, nargs="+", default=[100, 1_000])
parser.add_argument("--worlds", nargs="+")
parser.add_argument("--memory")
parser.add_argument("--n-jobs", type=int, default=2)
args = parser.parse_known_args()[0]

# %%
# Methods and worlds
# ------------------
#
# In *regular* worlds a thousand rounds hold many that matter alike: there the
# asymptotic methods have to keep their promise. In the others events are rare, a few
# rounds weigh most, rewards have a heavy tail, or the logger learns from them.

METHODS = {
    "many rounds": {
        "student": "Student",
        "normal": "normal",
        "bootstrap": "bootstrap",
        "percentile": "percentile",
        "empirical_likelihood": "emp. lik.",
        "cressie_read": "Cressie-Read",
        "gamma": "gamma",
        "auto": "auto",
    },
    "every number of rounds": {
        "clopper_pearson": "Clopper-P.",
        "betting": "betting",
        "empirical_bernstein": "emp. Bernstein",
        "hoeffding": "Hoeffding",
        "log_smoothing": "log smoothing",
    },
}
LABELS = {
    method: label for group in METHODS.values() for method, label in group.items()
}

rng = [np.random.RandomState(seed) for seed in range(20, 26)]
tail = {"n_actions": 3, "spread": 0.3, "reward": capped, "reward_range": (0.0, 20.0)}
shared = make_worlds()
rates = mild_world(0.1, 0.4, rng[0], contrast=0.5)
users = dense_world(rng[2], 0.1, 0.33, click, rounds_per_user=5)
REGULAR = {
    "rewards in [0, 1], IPS": (dense_world(rng[1]), IPS()),
    "clicks of 25%, SNIPS": (rates, SNIPS()),
    "clicks of 25%, SNDR": (rates, SNDR()),
    "ridge regressions, DR": (NormalWorld(3.0), DoublyRobust(reward_model=Ridge())),
    "users of 5 rounds, IPS": (users, IPS()),
    "slates, wPI": (SlateWorld(0.2, rng[3]), PseudoInverse(self_normalized=True)),
}
HARD = {
    "clicks of 1%, IPS": (shared["clicks 1%"], IPS()),
    "shares of 1%, SNIPS": (shares_world(rng[4]), SNIPS()),
    "weights to 57, IPS": (shared["34 actions, weights to 57"], IPS()),
    "weights to 300, DR": (
        shared["softmax logger, rarely 300"],
        DoublyRobust(reward_model=Ridge()),
    ),
    "lognormal, no range, IPS": (shared["lognormal, no range"], IPS()),
    "lognormal to a limit, IPS": (clicks_world(1.0, rng[5], **tail), IPS()),
    "Thompson logger, IPS": (ThompsonWorld(), IPS()),
}
WORLDS = REGULAR | HARD


def intervals(world, evaluator, n_rounds, seed):
    """Draw one log; return its value, and the limits by all methods."""
    logs, policies = world.draw(n_rounds, np.random.RandomState(seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        value = evaluator.fit(logs).evaluate(policies["policy"])
        return [value.value, *(limits(value, method) for method in LABELS)]


def limits(value, method):
    """Return the interval, or None where the method refuses the value."""
    try:
        return value.confidence_interval(method=method)
    except ValueError:
        return None


# %%
# Counting
# --------
#
# A method that refuses every log of a world has no entry there. In the other worlds a
# refusal is no answer, as an interval of NaN is none, and counts as a miss. The width
# is the median of the logs over :math:`2 \\cdot 1.96\\, \\mathrm{sd}(\\hat V)`, the width
# that a normal interval with the true standard error would have.

SIZES = {n: args.repetitions // (1 + 3 * (n >= 10_000)) for n in args.n_rounds}


def count(name, n_rounds, repetitions, parallel):
    """Return coverage and width by method; NaN where a method refuses."""
    world, evaluator = WORLDS[name]
    found = parallel(
        delayed(intervals)(world, evaluator, n_rounds, seed)
        for seed in range(repetitions)
    )
    truth = world.truth[0]
    scatter = np.ptp(np.nanquantile([value for value, *_ in found], [0.025, 0.975]))
    cells = {}
    for i, method in enumerate(LABELS, start=1):
        answers = [log[i] for log in found if log[i] is not None]
        if 2 * len(answers) < repetitions:
            cells[method] = np.nan, np.nan
            continue
        low, high = np.transpose(answers)
        covers = ((low <= truth) & (truth <= high)).sum() / repetitions
        cells[method] = covers, np.nanmedian(high - low) / scatter
    return cells


count = Memory(args.memory, verbose=0).cache(count, ignore=["parallel"])
found = {}
with Parallel(n_jobs=args.n_jobs) as parallel:
    for name in args.worlds or WORLDS:
        for n_rounds, repetitions in SIZES.items():
            found[name, n_rounds] = count(name, n_rounds, repetitions, parallel)


def table(methods):
    """Print a table of reStructuredText: coverage (width), a block for every size."""
    rows = args.worlds or list(WORLDS)
    first = max(map(len, rows))
    rule = "  ".join(["=" * first, *["=" * 14 for _ in methods]])
    print(f"\n{rule}")
    print("  ".join([f"{'world':{first}}", *(f"{m:14}" for m in methods.values())]))
    print(rule)
    for n_rounds in SIZES:
        print(f"n = {n_rounds:,}\n{'-' * len(rule)}")
        for name in rows:
            cells = [found[name, n_rounds][method] for method in methods]
            print("  ".join([f"{name:{first}}", *map(entry, cells)]).rstrip())
    print(rule)


def entry(cell):
    """Coverage and width, fourteen wide."""
    covers, width = cell
    if np.isnan(covers):
        return f"{chr(92):14}"
    covers = f"{covers:.3f}".removeprefix("0")
    return f"{f'{covers} ({width:.2f})':14}"


for promise, methods in METHODS.items():
    print(f"\nLevel promised for {promise}")
    table(methods)
for n_rounds, repetitions in SIZES.items():
    error = np.sqrt(0.95 * 0.05 / repetitions)
    print(f"n = {n_rounds:,}: {repetitions} logs, standard error of .95: {error:.4f}")

# %%
# Coverage against width
# ----------------------
#
# A panel is a world. Best is a point at .95 (the grey line), as far left as it gets.

SHOWN = 1_000 if 1_000 in SIZES else max(SIZES)
LEAST = 0.6
BLUE, GREEN, VERMILION = "#0072B2", "#009E73", "#D55E00"
LOOKS = {  # those of "normal" and "gamma" lie on Student's and on the default
    "auto": ("black", "*"),
    "student": (BLUE, "o"),
    "bootstrap": (BLUE, "^"),
    "percentile": (BLUE, "v"),
    "empirical_likelihood": (GREEN, "s"),
    "cressie_read": (GREEN, "D"),
    "clopper_pearson": (VERMILION, "o"),
    "betting": (VERMILION, "^"),
    "empirical_bernstein": (VERMILION, "v"),
    "hoeffding": (VERMILION, "s"),
    "log_smoothing": (VERMILION, "D"),
}
names = args.worlds or list(WORLDS)
columns = min(4, len(names))
rows = -(-len(names) // columns)
figure, axes = plt.subplots(
    rows,
    columns,
    figsize=(2 + 2.5 * columns, 0.6 + 2 * rows),
    sharex=True,
    sharey=True,
    squeeze=False,
    layout="constrained",
)
marks = {}
for ax, name in zip(axes.flat, names, strict=False):
    ax.axhline(0.95, color="0.7", zorder=0)
    for method, (colour, shape) in LOOKS.items():
        covers, width = found[name, SHOWN][method]
        look = {"color": colour, "markerfacecolor": "none"}
        label = LABELS[method]
        (marks[label],) = ax.plot(width, max(covers, LEAST), shape, **look)
    ax.set_title("\n".join(name.rsplit(", ", 1)), fontsize=9)
    ax.set(xscale="log", xlim=(0.3, 40), ylim=(LEAST - 0.02, 1.02))
    ax.set_xticks([0.5, 1, 2, 5, 10, 20], ["½", "1", "2", "5", "10", "20"])
    ax.minorticks_off()
for ax in axes.flat[len(names) :]:
    ax.set_axis_off()
figure.supxlabel("width, over the scatter of the estimates")
figure.supylabel(f"coverage, n = {SHOWN:,} (at most {LEAST:.1f}: drawn there)")
figure.legend(marks.values(), marks, loc="outside right center", frameon=False)
if __name__ == "__main__" and "PNG" in __import__("os").environ:
    figure.savefig(__import__("os").environ["PNG"], dpi=90)

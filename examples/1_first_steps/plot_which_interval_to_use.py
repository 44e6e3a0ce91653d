# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
# sphinx_gallery_thumbnail_number = -1
"""
Which interval to use? Coverage and width of every method
=========================================================

Some methods guarantee their level for many rounds, some for every number of rounds, and
some at every time while a log grows. A stronger guarantee makes a wider interval. This
script draws logs with exactly known values. For every method it counts how often the
95% interval covers the truth, and how wide it is.

``--repetitions 2000 --n-rounds 100 1000 10000 --path 10000`` gives the tables of the
guide's page on intervals, in the file that ``--tables`` names. ``--worlds`` draws some
of the worlds only. ``--memory folder`` stores the counts, so that you can continue a
stopped run. It does not notice changes of the package.
"""

import argparse
import warnings
from pathlib import Path

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
from scipy.special import stdtrit
from sklearn.linear_model import Ridge

from skope_ope import IPS, SNDR, SNIPS, AdaptiveDR, DoublyRobust, PseudoInverse
from skope_ope.intervals import (
    asymptotic_sequence,
    betting_sequence,
    empirical_bernstein_sequence,
)

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--repetitions", type=int, default=20)
parser.add_argument("--n-rounds", type=int, nargs="+", default=[100, 1_000])
parser.add_argument("--path", type=int, default=2_000)
parser.add_argument("--worlds", nargs="+")
parser.add_argument("--memory")
parser.add_argument("--tables")
parser.add_argument("--n-jobs", type=int, default=2)
args = parser.parse_known_args()[0]

# %%
# Methods and worlds
# ------------------
#
# In *regular* worlds many of a thousand rounds have similar weight. There the
# asymptotic methods must cover. In the others events are rare, a few rounds have most
# of the weight, rewards have a heavy tail, or the logger learns from them.

METHODS = {
    "many rounds": {
        "student": "Student",
        "normal": "normal",
        "bootstrap": "bootstrap",
        "percentile": "percentile",
        "empirical_likelihood": "empirical likelihood",
        "cressie_read": "Cressie-Read",
        "gamma": "gamma",
        "auto": "auto",
    },
    "every number of rounds": {
        "clopper_pearson": "Clopper-Pearson",
        "betting": "betting",
        "empirical_bernstein": "empirical Bernstein",
        "hoeffding": "Hoeffding",
        "log_smoothing": "log smoothing",
    },
}
LABELS = {
    method: label for group in METHODS.values() for method, label in group.items()
}
RESAMPLES = {"bootstrap": 500, "percentile": 500}  # a quarter of what is usual

rng = [np.random.RandomState(seed) for seed in range(20, 26)]
tail = {"n_actions": 3, "spread": 0.3, "reward": capped, "reward_range": (0.0, 20.0)}
shared = make_worlds()
rates = mild_world(0.1, 0.4, rng[0], contrast=0.5)
users = dense_world(rng[2], 0.1, 0.33, click, rounds_per_user=5)
learner = ThompsonWorld()
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
    "Thompson logger, IPS": (learner, IPS()),
    "Thompson logger, AdaptiveDR": (learner, AdaptiveDR(weighting="stable_variance")),
}
WORLDS = REGULAR | HARD


def intervals(world, evaluator, n_rounds, seed):
    """Draw one log; return its value, and by method: covers the interval, how wide?"""
    logs, policies = world.draw(n_rounds, np.random.RandomState(seed))
    answers = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        value = evaluator.fit(logs).evaluate(policies["policy"])
        for method in LABELS:
            try:
                low, high = value.confidence_interval(
                    method=method, n_resamples=RESAMPLES.get(method)
                )
            except ValueError:  # the method refuses this value
                continue
            answers[method] = low <= world.truth[0] <= high, high - low
    return value.value, answers


# %%
# Counting
# --------
#
# A method that refuses most logs of a world has no entry there. In other worlds a
# refusal counts as a miss, as an interval of NaN does. The width is the median over the
# logs. It is divided by the distance between the 2.5% and the 97.5% points of the
# estimates. So 1 means as wide as the spread of the estimates.

SIZES = {n: args.repetitions // (1 + 3 * (n >= 10_000)) for n in args.n_rounds}


def count(judge, name, n_rounds, repetitions, parallel):
    """Return coverage and width by method."""
    logs = parallel(
        delayed(judge)(*WORLDS[name], n_rounds, seed) for seed in range(repetitions)
    )
    scatter = np.ptp(np.nanquantile([value for value, _ in logs], [0.025, 0.975]))
    cells = {}
    for method in set().union(*(answers for _, answers in logs)):
        found = [answers[method] for _, answers in logs if method in answers]
        if 2 * len(found) > repetitions:
            covers, width = np.transpose(found)
            cells[method] = covers.sum() / repetitions, np.nanmedian(width) / scatter
    return cells


count = Memory(args.memory, verbose=0).cache(count, ignore=["parallel"])
names = args.worlds or list(WORLDS)
found = {}
with Parallel(n_jobs=args.n_jobs) as parallel:
    for name in names:
        for n_rounds, repetitions in SIZES.items():
            cells = count(intervals, name, n_rounds, repetitions, parallel)
            found[name, n_rounds] = cells


def table(methods, found):
    """Show a table of reStructuredText: coverage (width), a block for every size."""
    names = list(dict.fromkeys(name for name, _ in found))
    widths = [max(map(len, names)), *(max(12, len(m)) for m in methods.values())]
    rule = "  ".join("=" * width for width in widths)

    def line(*entries):
        padded = (f"{e:{w}}" for e, w in zip(entries, widths, strict=True))
        return "  ".join(padded).rstrip()

    show(f"\n{rule}\n{line('world', *methods.values())}\n{rule}")
    for n_rounds in dict.fromkeys(n for _, n in found):
        show(f"n = {n_rounds:,}\n{'-' * len(rule)}")
        for name in names:
            cells = found[name, n_rounds]
            show(line(name, *(entry(cells.get(method)) for method in methods)))
    show(rule)


shown = []


def show(text):
    """Print it, and keep it for a file."""
    print(text)
    shown.append(f"{text}\n")


def entry(cell):
    """Coverage and width; a backslash is nothing to reStructuredText."""
    if cell is None:
        return "\\"
    covers, width = f"{cell[0]:.3f}".removeprefix("0"), cell[1]
    return f"{covers} ({width:.{2 if width < 9.995 else 1}f})"


for promise, methods in METHODS.items():
    show(f"\nThe level is promised for {promise}:")
    table(methods, found)

# %%
# At every time
# -------------
#
# If you look every day at an interval for a fixed number of rounds, it misses sooner or
# later. A confidence sequence guarantees that none of its intervals misses. Here we
# look after each of the first hundred rounds and after every twentieth from then on.
# (For Student's we start at the hundredth.) The coverage is the share of logs in which
# no interval misses. The width is that of the last.

SEQUENCES = {
    "student": "Student, every look",
    "empirical_bernstein": "empirical Bernstein",
    "betting": "betting",
    "asymptotic": "asymptotic",
}
START = min(1_000, args.path // 2)  # of the asymptotic sequence


def sequences(world, _, n_rounds, seed):
    """Draw one log; return its value, and by sequence: covers all of it, how wide?"""
    logs, policies = world.draw(n_rounds, np.random.RandomState(seed))
    pi, r = policies["policy"], logs.reward
    w = pi[np.arange(n_rounds), logs.action_index] / logs.propensity
    after = np.r_[1:100, 100 : n_rounds + 1 : 20]
    limits = {
        "student": students(w * r, after[after >= 100]),
        "asymptotic": asymptotic_sequence(
            w * r, start=START, after=after[after >= START]
        ),
    }
    if logs.reward_range is not None:
        about = {"reward_range": logs.reward_range, "after": after}
        most = (pi / logs.logging_proba).max()
        limits["empirical_bernstein"] = empirical_bernstein_sequence(w, r, **about)
        limits["betting"] = betting_sequence(w, r, max_weight=most, **about)
    answers = {}
    for method, (low, high) in limits.items():
        covers = (low <= world.truth[0]) & (world.truth[0] <= high)  # NaN does not
        answers[method] = covers.all(), high[-1] - low[-1]
    return (w * r).mean(), answers


def students(z, t):
    """Student's limits after every number t of rounds."""
    mean = np.cumsum(z)[t - 1] / t
    variance = (np.cumsum(z * z)[t - 1] - t * mean**2) / (t - 1)
    half = stdtrit(t - 1, 0.975) * np.sqrt(variance / t)
    return mean - half, mean + half


watched = {}
with Parallel(n_jobs=args.n_jobs) as parallel:
    for name in names:
        if type(WORLDS[name][1]) is IPS and "users" not in name:
            cells = count(sequences, name, args.path, args.repetitions, parallel)
            watched[name, args.path] = cells
if watched:
    show("\nThe level is promised for all times together:")
    table(SEQUENCES, watched)
show("\nThe number of logs, and the standard error of an entry at .95:\n")
for n_rounds, repetitions in [*SIZES.items(), ("all times", args.repetitions)]:
    size = n_rounds if isinstance(n_rounds, str) else f"n = {n_rounds:,}"
    error = f"{np.sqrt(0.95 * 0.05 / repetitions):.3f}".removeprefix("0")
    show(f"- {size}: {repetitions:,} logs, {error}")
if args.tables:
    Path(args.tables).write_text("".join(shown).lstrip())

# %%
# Coverage against width
# ----------------------
#
# A panel is a world. The best point is at .95 (the grey line), as far left as possible.

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
        covers, width = found[name, SHOWN].get(method, (np.nan, np.nan))
        look = {"color": colour, "markerfacecolor": "none"}
        label = LABELS[method]
        (marks[label],) = ax.plot(width, max(covers, LEAST), shape, **look)
    ax.set_title("\n".join(name.rsplit(", ", 1)), fontsize=9)
    ax.set(xscale="log", xlim=(0.3, 40), ylim=(LEAST - 0.02, 1.02))
    ax.set_xticks([0.5, 1, 2, 5, 10, 20], ["½", "1", "2", "5", "10", "20"])
    ax.minorticks_off()
for ax in axes.flat[len(names) :]:
    ax.set_axis_off()
for ax in axes.flat[max(len(names) - columns, 0) : len(names)]:
    ax.tick_params(labelbottom=True)  # those with nothing below them
figure.supxlabel("width, relative to the spread of the estimates")
figure.supylabel(f"coverage, n = {SHOWN:,} (what is below {LEAST} stands at {LEAST})")
figure.legend(marks.values(), marks, loc="outside right center", frameon=False)

# %%
# What to take from it
# --------------------
#
# - ``method="auto"`` covers in every world with a known range. It is about as narrow as
#   Student's if a thousand rounds have similar weight. It is wider if a weight or an
#   event may come that this log does not contain, and it should be.
# - Student's, the normal one and both bootstraps are for many rounds of similar weight.
#   Resampling a log without an event gives logs without an event.
# - "empirical_likelihood" is the narrowest if weights vary. It covers too rarely if two
#   or three events are expected.
# - "clopper_pearson" is for shares. "betting" is the narrowest of the other methods
#   that guarantee their level for every number of rounds. If single weights are large,
#   "log_smoothing" is narrower, and needs no bound on them.
# - Without a range no method covers for rewards with a heavy tail.
# - If you look more than once, use a confidence sequence. "betting" is the narrower of
#   those that cover in every world. It is one and a half to three times as wide as the
#   spread of the estimates. The asymptotic one needs a start after which many rounds
#   matter.
#
# The script checks these statements at its end.


def noise(n_rounds):
    """Four standard errors of a coverage."""
    return 4 * np.sqrt(0.95 * 0.05 / SIZES[n_rounds])


for (name, n_rounds), cells in found.items():
    covers = {method: cell[0] for method, cell in cells.items()}
    width = {method: cell[1] for method, cell in cells.items()}
    few, many = (
        [covers[m] for m in covers if m in group] for group in METHODS.values()
    )
    assert min(many, default=1) > 0.95 - noise(n_rounds), (name, n_rounds)
    if name in REGULAR and n_rounds >= 1_000:
        assert min(few) > 0.93 - noise(n_rounds), (name, n_rounds)
        widest = max(
            width[method] for method in METHODS["many rounds"] if method in width
        )
        assert widest < 1.25 * width["student"], (name, n_rounds)
    if "no range" not in name:
        assert covers["auto"] > 0.93 - noise(n_rounds), (name, n_rounds)
    if n_rounds >= 1_000 and "hoeffding" in width:
        assert width["auto"] < width["betting"] < width["hoeffding"], (name, n_rounds)
hard = found.get(("shares of 1%, SNIPS", 100)), found.get(("clicks of 1%, IPS", 100))
for cells in filter(None, hard):
    assert max(cells[m][0] for m in ("student", "bootstrap", "percentile")) < 0.8
    assert cells["auto"][1] < cells["betting"][1]
for name, path in watched:
    cells = watched[name, path]
    proven = [cells[m][0] for m in ("empirical_bernstein", "betting") if m in cells]
    error = np.sqrt(0.95 * 0.05 / args.repetitions)
    assert min(proven, default=1) > 0.95 - 4 * error, name
    assert cells["student"][0] < 0.85, name

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
# sphinx_gallery_thumbnail_number = -1
"""
Do the default intervals hold? Few events, heavy weights, unknown ranges
========================================================================

Some logs have two clicks in a thousand rounds, an action that the logger took once, or
revenue with a heavy tail. Student's interval needs many rounds of similar weight, and
there are few. So the default of
:meth:`~skope_ope.evaluators.PolicyValue.confidence_interval` also uses the range of the
rewards and the largest weight. This script draws logs with exactly known values. It
counts how often the default 95% interval, and Student's, miss the truth: for the value
of a policy, and for the paired difference of two policies.

``--repetitions 500 --n-rounds 100 1000 10000`` gives the tables of the guide's page on
intervals.
"""

import argparse
import warnings

import matplotlib.pyplot as plt
import numpy as np
from _worlds import make_worlds
from joblib import Parallel, delayed

from skope_ope import evaluate
from skope_ope.exceptions import TailWarning

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--repetitions", type=int, default=20)
parser.add_argument("--n-rounds", type=int, nargs="+", default=[100, 1_000])
parser.add_argument("--n-jobs", type=int, default=2)
args = parser.parse_known_args()[0]

# %%
# One log
# -------
#
# For each interval the script stores its width, and whether it is above or below the
# truth. It also stores whether there is an alarm about the tail of the rewards. An
# interval of NaN counts as a miss. A limit outside the range of the rewards ends the
# script.


def judged(value, truth, reward_range, method):
    """Return whether the interval lies above and below the truth, its width, alarm."""
    interval = value.confidence_interval(method=method)
    low, high = interval
    if reward_range is not None and method == "auto":
        assert reward_range[0] <= low <= high <= reward_range[1]
    alarm = any(isinstance(warned, TailWarning) for warned in interval.warnings)
    return low > truth, not high >= truth, high - low, alarm


def repeat(world, n_rounds, seed):
    """Draw one log; judge (evaluator, value or difference, default or Student's)."""
    logs, policies = world.draw(n_rounds, np.random.RandomState(seed))
    ranges = None, None
    if world.reward_range is not None:
        low, high = world.reward_range
        ranges = (low, high), (low - high, high - low)
    judgements = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = evaluate(policies, logs, evaluators=world.evaluators)
        for name in world.evaluators:
            value = table["policy", name]
            both = value, value - table["other", name]
            for case in zip(both, world.truth, ranges, strict=True):
                judgements += [judged(*case, method) for method in ("auto", "student")]
    return np.reshape(judgements, (len(world.evaluators), 2, 2, 4))


# %%
# Counting
# --------
#
# The width is divided by Student's, log by log, and the median shown. Without any
# event, Student's interval has width 0, and the ratio is infinite.

WORLDS = make_worlds()
# How many logs of a size are drawn: half as many of 10,000 rounds, which take longest.
SIZES = {n: args.repetitions // (1 + (n >= 10_000)) for n in args.n_rounds}
KINDS = ["value", "difference"]
HEAD = f"{'covers':>8}{'Student':>8}{'width':>7}{'above':>7}{'below':>7}{'silent':>7}"
found = {}


def counts(drawn):
    """Return what HEAD names from logs x (default, Student) x kept.

    `above` and `below` are the shares of default intervals that lie on that side of the
    truth, `silent` the share that misses without an alarm.
    """
    above, below, width, alarm = np.moveaxis(drawn, -1, 0)
    missed = (above + below).astype(bool)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = width[:, 0] / width[:, 1]
    return [
        *(1 - missed.mean(axis=0)),
        np.nanmedian(ratio) if np.isfinite(width[:, 1]).any() else np.inf,
        above[:, 0].mean(),
        below[:, 0].mean(),
        (missed[:, 0] & (alarm[:, 0] == 0)).mean(),
    ]


with Parallel(n_jobs=args.n_jobs) as parallel:
    for name, world in WORLDS.items():
        for n_rounds, repetitions in SIZES.items():
            logs = parallel(
                delayed(repeat)(world, n_rounds, seed) for seed in range(repetitions)
            )
            drawn = np.array(logs, dtype=float)
            print(f"\n{name}, n = {n_rounds:,}\n{'':17}{HEAD}  |{HEAD}")
            for k, evaluator in enumerate(world.evaluators):
                halves = []
                for j, kind in enumerate(KINDS):
                    cell = counts(drawn[:, k, j])
                    found[name, n_rounds, kind, evaluator] = cell
                    covers, student, width, *shares = cell
                    half = f"{covers:8.3f}{student:8.3f}{width:7.2f}"
                    halves.append(half + "".join(f"{share:7.3f}" for share in shares))
                print(f"  {evaluator:15}" + "  |".join(halves))

for n_rounds, repetitions in SIZES.items():
    error = np.sqrt(0.95 * 0.05 / repetitions)
    print(f"n = {n_rounds:,}: {repetitions} logs, standard error of .95: {error:.4f}")

# %%
# The least coverage over the evaluators of a world: of the default, of Student's, and
# the median width of the default over Student's.


def least(name, n_rounds, kind):
    """Return the least coverages over evaluators, and the median width."""
    cells = [cell for key, cell in found.items() if key[:3] == (name, n_rounds, kind)]
    covers, student, width = np.array(cells)[:, :3].T
    return covers.min(), student.min(), np.median(width)


for kind in KINDS:
    print(f"\n{kind:32}" + "".join(f"  n = {n:<15,}" for n in SIZES))
    for name in WORLDS:
        line = f"{name:32}"
        for n_rounds in SIZES:
            covers, student, width = least(name, n_rounds, kind)
            line += f"  {covers:.3f} {student:.3f} {width:5.2f}".replace("0.", ".")
        print(line)

# %%
# Filled: the default. Open: Student's. The grey line is .93.

figure, axes = plt.subplots(
    1,
    len(SIZES),
    figsize=(3 + 3 * len(SIZES), 5),
    sharex=True,
    sharey=True,
    layout="constrained",
    squeeze=False,
)
axes = axes[0]
height = np.arange(len(WORLDS))
for ax, n_rounds in zip(axes, SIZES, strict=True):
    rows = np.array([least(name, n_rounds, "value") for name in WORLDS])
    ax.axvline(0.93, color="0.7")
    ax.plot(rows[:, 0], height, "o", label="default")
    ax.plot(rows[:, 1], height, "s", fillstyle="none", label="Student")
    ax.set(title=f"n = {n_rounds:,}", xlabel="least coverage of the value")
axes[0].set_yticks(height, WORLDS)
axes[0].invert_yaxis()
axes[-1].legend(loc="upper left", bbox_to_anchor=(1, 1))

# %%
# What to take from it
# --------------------
#
# - State the range of the rewards: ``BanditLogs(..., reward_range=(0, 1))``. The
#   default interval then covers with two clicks as with a thousand, and stays in the
#   range. Without any event it is wide, because the log contains little information.
# - With many events it is Student's interval, or slightly wider.
# - Without a range no interval covers for heavy tails. A
#   :class:`~skope_ope.exceptions.TailWarning` says so in nearly all of the small logs.
#
# The script checks these statements at its end.

known = [name for name, world in WORLDS.items() if world.reward_range is not None]
for (name, n_rounds, kind, evaluator), cell in found.items():
    covers, student, width, above, below, silent = cell
    error = np.sqrt(0.07 * 0.93 / SIZES[n_rounds])
    if name in known:
        assert covers > 0.93 - 4 * error, (name, n_rounds, kind, evaluator)
    else:
        assert silent < 0.08 + 4 * error, (name, n_rounds, kind, evaluator)
for name, n_rounds in (("clicks .2%", 100), ("rare weights of 90", 1_000)):
    assert least(name, n_rounds, "value")[1] < 0.8
many_events = "clicks 10%", "clicks 60 to 95%", "users of 5 rounds", "rewards -1, 0, 1"
for n_rounds in SIZES:
    for name in many_events:  # what it pays for few events falls as their number grows
        assert least(name, n_rounds, "value")[2] < 1 + 25 / np.sqrt(n_rounds)
    assert least("rewards in [0, 1], small weights", n_rounds, "value")[2] < 1.2

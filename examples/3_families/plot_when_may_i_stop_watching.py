# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
# sphinx_gallery_thumbnail_number = -1
"""
When may I stop watching?
=========================

A shop logs 1,000 visits a day. Every morning you evaluate a new policy on all days so
far. You switch to it as soon as its interval is above the logger's value. An ordinary
95% interval is made for one look. This script looks on thirty mornings, at a policy
that gains nothing and at one that does. It uses the ordinary interval, and a
:class:`~skope_ope.ConfidenceSequence`, whose intervals hold together at all times.

``--repetitions 500`` takes about half a minute.
"""

import argparse
import warnings

import matplotlib.pyplot as plt
import numpy as np

from skope_ope import BanditLogs, ConfidenceSequence, ConstantPolicy
from skope_ope.displays import ConfidenceSequenceDisplay

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--repetitions", type=int, default=100)
args = parser.parse_known_args()[0]

# %%
# A shop with three offers
# ------------------------
#
# The logger shows them with the probabilities .5, .3 and .2. The new policy always
# shows the second one. In one world all offers sell in 10% of the visits, and there is
# no gain. In the other the second one sells in 12%: a gain of .014 over the logger.

DAYS, VISITS = 30, 1_000
LOGGER = np.array([0.5, 0.3, 0.2])
WORLDS = {"no gain": [0.10, 0.10, 0.10], "a gain of .014": [0.10, 0.12, 0.10]}
new = ConstantPolicy("coupon")


def shop_logs(rates, seed):
    """Return the log of all days."""
    rng = np.random.default_rng(seed)
    n = DAYS * VISITS
    shown = rng.choice(3, p=LOGGER, size=n)
    return BanditLogs(
        np.zeros((n, 1)),
        np.array(["none", "coupon", "shipping"])[shown],
        (rng.random(n) < np.array(rates)[shown]).astype(float),
        LOGGER[shown],
        actions=["none", "coupon", "shipping"],
        timestamp=np.repeat(np.arange(1, DAYS + 1), VISITS),
        reward_range=(0, 1),
    )


# %%
# One log, day by day
# -------------------
#
# The sequence takes each day's visits as they come, and stores none of them.

logs = shop_logs(WORLDS["a gain of .014"], seed=0)
sequence = ConfidenceSequence(baseline="logger")
for day in range(1, DAYS + 1):
    sequence.update(logs[logs.timestamp == day], new)

print("day  visits   gain    95% at all times together")
for one in sequence.intervals_[[0, 1, 4, 9, 14, 19, 24, 29]]:
    print(
        f"{one['time']:3}{one['n_rounds']:8,}{one['estimate']:+8.3f}"
        f"   {one['low']:+.3f} to {one['high']:+.3f}"
    )
one_log = ConfidenceSequenceDisplay.from_sequence(sequence).plot(truth=0.014)

# %%
# Many logs
# ---------
#
# On which morning would you have switched to the new policy, and was that right?


def mornings(logs):
    """Return on which mornings each interval of the gain lies above zero."""
    watched = ConfidenceSequence(baseline="logger", every=VISITS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a few intervals miss, and it says so
        watched.update(logs, new)
    w = np.where(logs.action == "coupon", 1 / logs.propensity, 0.0)
    gain = (w - 1) * logs.reward  # of every visit
    n = np.arange(1, len(gain) + 1)
    mean = gain.cumsum() / n
    error = np.sqrt(((gain**2).cumsum() / n - mean**2) / (n - 1).clip(1))
    ordinary = (mean - 1.96 * error)[VISITS - 1 :: VISITS]
    return ordinary > 0, watched.intervals_["low"] > 0


switched = {}  # share of logs in which you have switched by each morning
print(f"\n{'':18}{'one look':>10}{'30 looks':>10}{'sequence':>10}{'median day':>12}")
for name, rates in WORLDS.items():
    looks = np.array(
        [mornings(shop_logs(rates, seed)) for seed in range(args.repetitions)]
    )
    by = np.maximum.accumulate(looks, axis=2).mean(axis=0)  # ordinary, sequence
    once = looks[:, 0, -1].mean()
    switched[name] = once, *by
    day = np.argmax(by[1] >= 0.5) + 1 if by[1][-1] >= 0.5 else "-"
    shares = f"{once:10.1%}{by[0][-1]:10.1%}{by[1][-1]:10.1%}"
    print(f"{name:18}{shares}{day:>12}")

# %%
# The share of logs in which you have switched by each day.

figure, axes = plt.subplots(1, 2, figsize=(7.6, 3.4), sharey=True, layout="constrained")
days = np.arange(1, DAYS + 1)
for ax, (name, (once, ordinary, watched)) in zip(axes, switched.items(), strict=True):
    ax.step(
        days,
        ordinary,
        "--",
        where="post",
        color="#D55E00",
        label="95% interval, each day",
    )
    ax.step(
        days,
        watched,
        where="post",
        color="#0072B2",
        label="confidence sequence, each day",
    )
    ax.plot(
        DAYS, once, "s", color="#666666", label="95% interval, on the last day only"
    )
    ax.axhline(0.025, color="#009E73", linestyle=":", label="2.5% that were promised")
    ax.set(title=name, xlabel="day", ylim=(0, 1), xlim=(0, DAYS + 1))
    ax.grid(axis="y", color="#DDDDDD")
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("logs in which you have switched")
axes[0].yaxis.set_major_formatter(lambda y, _: f"{100 * y:.0f}%")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)

# %%
# What to take from it
# --------------------
#
# - If you look every day, the ordinary interval lets you switch without a gain in far
#   more than 2.5% of the logs: in one of eight, by 500 logs. The longer you look, the
#   more often it does.
# - The confidence sequence keeps its guarantee: at most 2.5%, however often you look.
# - A real gain is found while the log grows, in most logs weeks before the last day. If
#   you really look once, an interval for a single look is narrower.
#
# The script checks these statements at its end.

room = 4 * np.sqrt(0.025 * 0.975 / args.repetitions)
once, ordinary, watched = switched["no gain"]
assert watched[-1] <= 0.025 + room
assert ordinary[-1] > watched[-1]
once, ordinary, watched = switched["a gain of .014"]
assert watched[-1] > 0.5

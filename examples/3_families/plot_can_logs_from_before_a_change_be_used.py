# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
# sphinx_gallery_thumbnail_number = -1
"""
Can logs from before a change of the production policy be used?
===============================================================

A new production policy has acted for a week. You want to evaluate a candidate to
replace it. There are four times as many rounds from before the change. If only the
policy changed, these rounds help, because propensities correct for it. But rewards may
have changed, and so may the users. Then old rounds are about other rewards, and more of
them make every pooled value worse.

How can you tell? Evaluate the candidate on both parts of the log, and compare the two
values. If they agree, pool.

The systems recognise handwritten digits, so the candidate's value after the change is
known. ``--full`` draws 400 logs of each world, which takes about a minute of CPU.
"""

import argparse
import warnings

import matplotlib.pyplot as plt
import numpy as np
from _digits import Digits, Part, in_errors, rmse
from sklearn.linear_model import Ridge

from skope_ope import MultiLoggerDR, audit, evaluate
from skope_ope.exceptions import OPEWarning

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--full", action="store_true", help="400 logs of each world")
parser.add_argument("--n-logs", type=int, help="logs of each world; default 80")
args = parser.parse_known_args()[0]
n_logs = args.n_logs or (400 if args.full else 80)

# %%
# Worlds
# ------
#
# There are four digits. The old policy learned from 25 images, the one in production
# from 300, the candidate from 350. In the first world nothing else changed. In three
# worlds the right digit is rewarded less often after the change, with probability 0.78,
# 0.75 or 0.7 instead of 0.8. In the last world the users changed. The right digit is
# always rewarded with probability 0.5 for zeros and ones. They were 30% of the rounds
# and are now 70%.

BEFORE, AFTER = 1600, 400
digits = Digits(n_actions=4)
old, production = digits.system(25, 1, 0.2), digits.system(300, 1, 0.1)
candidate = digits.system(350, 3, 0.02)

low = digits.labels < 2
mixed = np.where(low[:, None], digits.rewards(0.5), digits.mean_reward)


def users(share_of_low):
    """Return how often every image is met."""
    return np.where(low, share_of_low / low.sum(), (1 - share_of_low) / (~low).sum())


WORLDS = {
    "nothing else": (Part(old, BEFORE), Part(production, AFTER)),
    **{
        f"rewards, 0.80 to {right:.2f}": (
            Part(old, BEFORE),
            Part(production, AFTER, digits.rewards(right)),
        )
        for right in (0.78, 0.75, 0.7)
    },
    "users": (
        Part(old, BEFORE, mixed, users(0.3)),
        Part(production, AFTER, mixed, users(0.7)),
    ),
}

# %%
# Two values, and a choice
# ------------------------
#
# :meth:`~skope_ope.evaluators.PolicyValue.by` gives the value of each part. The naive
# pooling has such values. The balanced one does not, because its rounds average to the
# value only over both parts together. The parts are independent, so the squares of
# their standard errors add up. "If they agree" takes the balanced value if the two
# differ by less than 1.96 standard errors. Otherwise it takes the value after the
# change.

EVALUATORS = {
    name: MultiLoggerDR(pooling=name, reward_model=Ridge(10.0), cv=2)
    for name in ("naive", "balanced")
}
WAYS = ["after the change alone", "naive", "balanced", "balanced if they agree"]


def values_of(logs, image):
    """Return a value by way, and whether the two parts disagree."""
    found = evaluate(candidate[image], logs, evaluators=EVALUATORS)
    naive, balanced = (found[name] for name in EVALUATORS)
    before, after = naive.by("logger").values()
    error = np.hypot(before.standard_error, after.standard_error)
    disagree = abs(before.value - after.value) > 1.96 * error
    chosen = after if disagree else balanced
    return [one.value for one in (after, naive, balanced, chosen)], disagree


errors, alarms = {}, {}
for name, parts in WORLDS.items():
    reward, share = parts[1].mean_reward, parts[1].share
    reward = digits.mean_reward if reward is None else reward
    truth = np.average((candidate * reward).sum(axis=1), weights=share)
    rng = np.random.RandomState(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)
        found = [values_of(*digits.draw(parts, rng)) for _ in range(n_logs)]
    values, disagree = zip(*found, strict=True)
    errors[name] = dict(zip(WAYS, (np.array(values) - truth).T, strict=True))
    alarms[name] = np.array(disagree)

# %%
# Errors
# ------

print(f"rmse and 95% interval, and bias, over {n_logs} logs; disagree: share of logs")
print(f"{'what changed':22}" + "".join(f"{way:>26}" for way in WAYS) + "  disagree")
for name, found in errors.items():
    line = f"{name:22}"
    for way in WAYS:
        value, half = rmse(found[way])
        line += f"{value:10.4f} ±{half:.4f} {found[way].mean():+.4f}"
    print(f"{line}{alarms[name].mean():10.2f}")

# %%
# An audit of the log
# -------------------
#
# Values may agree although users differ. :func:`~skope_ope.audit` tests whether the
# context predicts which policy acted. It needs no candidate.

FINDING = "loggers_of_other_contexts"
told = {}
for name in ("nothing else", "users"):
    rng = np.random.RandomState(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)
        found = [audit(digits.draw(WORLDS[name], rng)[0]) for _ in range(10)]
    told[name] = [FINDING in {one.name for one in logs.findings} for logs in found]
    print(f"{FINDING}, world {name!r}: {sum(told[name])} of 10 logs")

# %%
# What to do
# ----------
#
# If only the policy changed, the old rounds nearly halve the error. Naive and balanced
# pooling do equally well, because the two loggers are alike. If rewards or users
# changed, the pooled value is mostly that before the change, and its standard error
# does not show it. It is the worst value here.
#
# The comparison finds large changes, and misses those of about one standard error. So
# "if they agree" gains less than pooling if nothing changed. With a moderate change it
# is worse than the new rounds alone. So pool if you have a reason to believe that
# nothing else changed, and check it by the comparison and the audit. Otherwise use only
# the rounds after the change. They have no bias in any of these worlds, and a wider
# interval.

figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
for way, marker in zip(WAYS, "os^D", strict=True):
    ax.plot([rmse(errors[name][way])[0] for name in WORLDS], marker + ":", label=way)
ax.set_xticks(range(len(WORLDS)), WORLDS, rotation=20)
ax.set(ylabel="rmse", ylim=(0, None))
ax.legend(loc="upper left", bbox_to_anchor=(1, 1))


def worse(name, way, other):
    """Return how much worse a way is than another one, in standard errors."""
    return in_errors(errors[name][way] ** 2 - errors[name][other] ** 2)


alone, _, balanced, chosen = WAYS
changed = ("rewards, 0.80 to 0.70", "users")
assert worse("nothing else", alone, balanced) > 2
assert all(worse(name, balanced, alone) > 2 for name in changed)
assert all(worse(name, balanced, chosen) > 2 for name in changed)
assert all(abs(in_errors(errors[name][alone])) < 4 for name in WORLDS)
assert alarms["nothing else"].mean() < 0.05 + 4 * np.sqrt(0.05 * 0.95 / n_logs)
assert all(alarms[name].mean() > 0.5 for name in changed)
assert all(told["users"]) and not any(told["nothing else"])

plt.show()

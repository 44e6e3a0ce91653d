# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
# sphinx_gallery_thumbnail_number = -1
"""
Which faults does an audit find? Logs with known faults, and correct ones
=========================================================================

An estimate from a faulty log can have a small standard error and a wrong value. Three
calls look for faults. :func:`~skope_ope.evaluate` runs cheap checks. ``audit(logs)``
also fits models and sorts rounds. ``audit(policy, logs)`` adds checks of a policy.

This script adds known faults to correct logs of a softmax logger, and counts how often
each call finds them. It also counts alarms in correct logs that look unusual, where
every alarm is false. Finally it uses logs whose faults no log can show.

``--repetitions 200 --n-rounds 3000 10000`` gives the tables of the guide's page on
audits.
"""

import argparse
import warnings
from collections import Counter

import matplotlib.pyplot as plt
import numpy as np
from _faults import FAULTS, SEEN_BY, UNSEEN, faulty
from _right_logs import RIGHT_LOGS, right
from joblib import Parallel, delayed

from skope_ope import audit, evaluate
from skope_ope.exceptions import ModelErrorWarning, OPEWarning

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--repetitions", type=int, default=2)
parser.add_argument("--n-rounds", type=int, nargs="+", default=[3_000])
parser.add_argument("--n-jobs", type=int, default=2)
args = parser.parse_known_args()[0]

CALLS = "evaluate(policy, logs)", "audit(logs)", "audit(policy, logs)"
COLUMN = {"BanditLogs": 0, "evaluate": 0, "audit": 1}
SHARP = 1, 3  # what the logger's logits are multiplied with

# %%
# One log
# -------
#
# The script stores the names of the alarms of each call. `evaluate` warns, audits have
# findings. Warnings about the fit of a reward model do not concern the log and do not
# count. A fault that the constructor refuses is found before all calls.


def alarms(logs, policy):
    """Return the names of the alarms of each call, in the order of `CALLS`."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        evaluate(policy, logs)
    told = {type(one.message) for one in caught} - {ModelErrorWarning}
    warned = {one.__name__ for one in told if issubclass(one, OPEWarning)}
    audits = audit(logs), audit(policy, logs)
    return warned, *({one.name for one in found.alarms} for found in audits)


def planted(fault, n_rounds, sharp, seed):
    """Return the alarms about one log with a fault."""
    try:
        logs, policy = faulty(fault, n_rounds, seed, sharp)
    except ValueError:
        return ({"ValueError"},) * len(CALLS)
    return alarms(logs, policy)


def unplanted(world, n_rounds, seed):
    """Return the alarms about one right log."""
    return alarms(*right(world, n_rounds, seed))


# %%
# Counting
# --------

found = {}  # (kind, name, n_rounds, sharp): shares of logs by call, counts of names
with Parallel(n_jobs=args.n_jobs) as parallel:

    def count(kind, name, n_rounds, sharp, job, *about):
        """Run a job for all seeds; keep and print what it tells."""
        seeds = range(args.repetitions)
        told = parallel(delayed(job)(name, n_rounds, *about, seed) for seed in seeds)
        shares = np.mean([[bool(names) for names in log] for log in told], axis=0)
        names = Counter(name for log in told for name in log[-1] | log[0])
        found[kind, name, n_rounds, sharp] = shares
        often = ", ".join(one for one, _ in names.most_common(3))
        print(f"{name:34}" + "".join(f"{s:9.3f}" for s in shares) + f"   {often}")

    for n_rounds in args.n_rounds:
        for sharp in SHARP:
            print(f"\nfaults, n = {n_rounds:,}, logits x {sharp}")
            print(f"{'':34} evaluate    audit    audit")
            print(f"{'':34}  (policy)   (logs) (policy)")
            for fault in FAULTS:
                count("fault", fault, n_rounds, sharp, planted, sharp)
        print(f"\nright logs, n = {n_rounds:,}")
        for world in RIGHT_LOGS:
            count("right", world, n_rounds, None, unplanted)
        print(f"\nfaults that no log shows, n = {n_rounds:,}, logits x 1")
        for fault in UNSEEN:
            count("unseen", fault, n_rounds, 1, planted, 1)

# %%
# The least share over sizes and loggers
# --------------------------------------
#
# Filled marks are shares of logs in which a fault is found, the least over sizes and
# loggers. Correct logs are shown with their largest share.


def rows(kind, worst):
    """Return names and shares (names x calls), the worst over sizes and loggers."""
    names = list(dict.fromkeys(key[1] for key in found if key[0] == kind))
    cells = [
        worst([found[key] for key in found if key[:2] == (kind, name)], axis=0)
        for name in names
    ]
    return names, np.array(cells)


kinds = {"fault": np.min, "right": np.max, "unseen": np.max}
titles = "planted faults: least share", "right logs: largest", "not to be seen: largest"
tables = {kind: rows(kind, worst) for kind, worst in kinds.items()}
figure, axes = plt.subplots(
    1, 3, figsize=(12, 7), sharex=True, layout="constrained", squeeze=True
)
for ax, title, (names, shares) in zip(axes, titles, tables.values(), strict=True):
    for j, (call, marker) in enumerate(zip(CALLS, "xo+", strict=True)):
        fill = "none" if marker == "o" else "full"
        ax.plot(shares[:, j], range(len(names)), marker, fillstyle=fill, label=call)
    ax.set_yticks(range(len(names)), names, fontsize=8)
    ax.invert_yaxis()
    ax.set(title=title, xlabel="share of logs with an alarm", xlim=(-0.05, 1.05))
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)

# %%
# What to take from it
# --------------------
#
# - An audit takes one call. For 3,000 rounds it takes less than a second. `evaluate`
#   runs the cheap checks only, so it finds fewer faults.
# - A log without alarms may still be wrong. Some faults do not show in the numbers.
#   Examples are rewards of other rounds, and a cause of both action and reward outside
#   the context. Rounds that were lost because of their reward do not show, either.
#   Compare a few rounds with what was served.
#
# The script checks these statements at its end. The call that the guide names finds
# every fault in 95% of the logs, and correct logs have almost no alarms.

for (kind, name, n_rounds, _), shares in found.items():
    error = np.sqrt(0.05 * 0.95 / args.repetitions)
    if kind == "fault":
        assert shares[COLUMN[SEEN_BY[name]]] > 0.95 - 4 * error, (name, n_rounds)
    elif kind == "right":
        assert shares.max() <= 0.01 + error, (name, n_rounds, shares)

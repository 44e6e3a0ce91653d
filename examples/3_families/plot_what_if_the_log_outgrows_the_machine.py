# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
# sphinx_gallery_thumbnail_number = -1
"""
What if the log is larger than memory?
======================================

A shop writes a parquet file a day. Together they do not fit in memory.
:func:`~skope_ope.scan_logs` reads their footers only. :func:`~skope_ope.evaluate` reads
one part of the rows after the other, and stores only sums. The numbers are those of one
evaluation in memory.

By default the files hold 400,000 rounds, so that the script can compare. With
``--full`` it builds and evaluates 1e8 rounds in 100 files, about 3 GB in a temporary
folder, which takes some minutes.
"""

import argparse
import atexit
import shutil
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
from pyarrow import parquet

from skope_ope import BanditLogs, evaluate, scan_logs, summarize
from skope_ope.evaluators import ValueSummary

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--days", type=int, default=8)
parser.add_argument("--rounds", type=int, default=50_000, help="of a day")
parser.add_argument("--full", action="store_true", help="100 days of 1e6 rounds")
args = parser.parse_known_args()[0]
DAYS, ROUNDS = (100, 1_000_000) if args.full else (args.days, args.rounds)

# %%
# A file a day
# ------------
#
# The logger draws one of five offers. The files also have a column for a new policy:
# its probability of the offer that was shown.

OFFERS = np.array(["bike", "boat", "bus", "tram", "walk"])
LOGGER = np.array([0.4, 0.3, 0.1, 0.1, 0.1])
NEW = np.array([0.1, 0.2, 0.1, 0.5, 0.1])
RATES = np.array([0.04, 0.05, 0.03, 0.07, 0.02])


def columns_of(day):
    """Return the columns of the rounds of one day."""
    rng = np.random.default_rng(day)
    shown = rng.choice(5, p=LOGGER, size=ROUNDS)
    return {
        "user": rng.integers(0, 20_000, ROUNDS),
        "offer": OFFERS[shown],
        "click": (rng.random(ROUNDS) < RATES[shown]).astype(float),
        "p": LOGGER[shown],
        "new": NEW[shown],
    }


folder = Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, folder)
for day in range(DAYS):
    table = pa.table(columns_of(day))
    parquet.write_table(table, folder / f"day-{day:03d}.parquet")

# %%
# The same call
# -------------
#
# Only the footers are read here. ``columns`` names columns for policies and models.
# Users are groups, because their rounds depend on each other.

roles = {"action": "offer", "reward": "click", "propensity": "p", "group": "user"}
logs = scan_logs(folder, **roles, columns=["new"], actions=OFFERS, reward_range=(0, 1))
table = evaluate("new", logs, evaluators=["IPS", "SNIPS"])
print(str(logs).replace(str(folder), "folder"))
print(table)

# %%
# The true value of the policy is known here, and both intervals contain it.

truth = float(NEW @ RATES)
for name in table:
    low, high = table[name].confidence_interval()
    assert low < truth < high, name

# %%
# Here is the same evaluation in memory, if the log fits.

if not args.full:
    days = [columns_of(day) for day in range(DAYS)]
    whole = {name: np.concatenate([day[name] for day in days]) for name in days[0]}
    in_memory = BanditLogs(
        np.empty((DAYS * ROUNDS, 0)),
        whole["offer"],
        whole["click"],
        whole["p"],
        group=whole["user"],
        reward_range=(0, 1),
    ).with_columns(new=whole["new"])
    for name, value in evaluate("new", in_memory, evaluators=["IPS", "SNIPS"]).items():
        assert np.isclose(table[name].value, value.value, rtol=1e-12)
        assert np.isclose(table[name].standard_error, value.standard_error, rtol=1e-9)

# %%
# A day at a time
# ---------------
#
# A daily job stores a summary: sums, and no rounds. It adds today's to those of the
# days before, and refuses to add the same file twice.

total = folder / "until_today.npz"
values = []
for day in range(DAYS):
    today = scan_logs(
        folder / f"day-{day:03d}.parquet",
        **roles,
        columns=["new"],
        actions=OFFERS,
        reward_range=(0, 1),
    )
    summary = summarize("new", today, evaluators=["SNIPS"])
    if total.exists():
        summary = ValueSummary.load(total) + summary
    summary.save(total)
    values.append(summary.values()["SNIPS"])

assert np.isclose(values[-1].value, table["SNIPS"].value, rtol=1e-12)

days = np.arange(1, DAYS + 1)
low, high = np.transpose([value.confidence_interval() for value in values])
plt.figure(figsize=(8, 4), layout="constrained")
plt.fill_between(days, low, high, alpha=0.3, label="95% interval")
plt.plot(days, [value.value for value in values], "o-", label="SNIPS so far")
plt.axhline(truth, color="black", linestyle="--", label="true value")
plt.xlabel("days")
plt.ylabel("clicks per round")
plt.legend(loc="upper left", bbox_to_anchor=(1, 1))
plt.show()

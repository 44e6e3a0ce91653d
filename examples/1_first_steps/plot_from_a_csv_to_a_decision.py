# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
# sphinx_gallery_thumbnail_number = -1
"""
From a csv to a decision: which teaser should the page show?
============================================================

A news site shows one of three teasers at the top of its page. For four weeks it
recorded the visitors, the teasers, their probabilities and the clicks. Would another
rule get more clicks? This script goes from the file to the answer.

The log is simulated with known click rates (``_news_site.py``), so you can compare the
answer with the truth.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from _news_site import true_value, write_log
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skope_ope import (
    BanditLogs,
    ClassifierPolicy,
    ConstantPolicy,
    DoublyRobust,
    DRPolicy,
    RewardModelPolicy,
    audit,
    compare_policies,
    evaluate,
)
from skope_ope.selection import rounds_needed

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--n-rounds", type=int, default=20_000)
parser.add_argument("--random-state", type=int, default=0)
args = parser.parse_known_args()[0]

# %%
# Read the file
# -------------

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "clicks.csv"
    write_log(path, args.n_rounds, args.random_state)
    frame = pd.read_csv(path, parse_dates=["timestamp"])
print(frame.head())

# %%
# Say what the columns mean
# -------------------------
#
# The context contains what was known *before* the teaser was chosen, and nothing else.
# Visits of one user are alike. With ``group="user"`` every error counts users.

logs = BanditLogs.from_frame(
    frame,
    action="item",
    reward="click",
    propensity="propensity",
    context=["hour", "device"],
    group="user",
    timestamp="timestamp",
    reward_range=(0, 1),
)
print(logs)

# %%
# Can this log answer?
# --------------------

report = audit(logs)
print(report)

# %%
# There is no alarm. Here is a log with a mistake: its propensities are shifted by a
# row.

slipped = audit(logs.replace(propensity=np.roll(logs.propensity, 1)))
print(slipped.alarms[0])

# %%
# Learn other rules
# -----------------
#
# Never judge a rule by visits that it has learned from, nor by other visits of the same
# users. So half of the users teach, the other half judge. The device is a text, so a
# Pipeline encodes it. The hour is encoded, too, because its effect may not be linear.
# One model serves three learners, and later as the model of clicks.

split = GroupShuffleSplit(n_splits=1, test_size=0.5, random_state=0)
train, test = (logs[rows] for rows in next(split.split(logs, groups=logs.group)))
columns = make_column_transformer(
    (OneHotEncoder(handle_unknown="ignore"), ["hour", "device"])
)
model = make_pipeline(columns, LogisticRegression())
policies = {
    "weighted clicks": ClassifierPolicy(model).fit(train),
    "predicted clicks": RewardModelPolicy(model).fit(train),
    "doubly robust": DRPolicy(model, reward_model=model).fit(train),
    "always video": ConstantPolicy("video"),
}

# %%
# What would they have earned?
# ----------------------------

table = evaluate(policies, test, reward_model=model)
print(table)

# %%
# Is one of them better? After 100 visits
# ---------------------------------------
#
# This compares policies and the site visit by visit, first on a small part of the log.

evaluator = DoublyRobust(reward_model=model)
early = compare_policies(policies, test[:100], evaluator=evaluator)
print(early)

# %%
# *Undecided* is an answer: these visits cannot tell. Keep the site as it is and collect
# more. How many? The sentence gives the number for the estimated gain, which is
# uncertain. It is better to state beforehand which gain matters to you, here two clicks
# in a hundred visits. Then look again after that many visits. The number is rough,
# because 100 visits say little about the variance. If you look every day until the
# answer pleases you, you are wrong more often than the interval says.

gain = early.differences["doubly robust"]
spread = gain.standard_error * gain.n_rounds**0.5
needed = rounds_needed(0.02, spread, n_comparisons=len(policies))
print(f"{needed:,.0f} visits tell a gain of .02; the whole test log has {len(test):,}")

# %%
# With all visits
# ---------------

comparison = compare_policies(policies, test, evaluator=evaluator)
print(comparison)

# %%
# This sentence is for the meeting:

print(comparison.sentence)

# %%
# The truth
# ---------
#
# Your own log does not contain the truth. Here every value is known.

truth = {name: true_value(policy) for name, policy in policies.items()}
today = true_value()
print(f"{'the site today':18}{today:.4f}")
for name, value in truth.items():
    print(f"{name:18}{value:.4f}  gain {value - today:+.4f}")
comparison.plot(truth={**truth, "logger": today})

# %%
# The chosen rule is better than the site, and by about the estimated gain. Deploy it,
# and keep some choices random (``epsilon=0.1``), because the next log must answer, too.
# The three learned rules are about equally good.
#
# The script checks these statements at its end.

assert report.ok
assert not slipped.ok
for name in policies:
    value = table[name, "DoublyRobust"]
    assert abs(value.value - truth[name]) < 4 * value.standard_error
assert table.recommended == "DoublyRobust"
assert early.decision == "undecided"
assert comparison.decision == "deploy"
assert truth[comparison.choice] > today + 0.02

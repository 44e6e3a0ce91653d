# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
# sphinx_gallery_thumbnail_number = -1
"""
From csv to a report: which e-mail, and which item?
===================================================

Two shops have logs, and each compares three rules. One call makes the page for those
who decide. The first log decides. The second cannot, and its page says how many more
rounds would. A third page comes from a log with a mistake, and says so at its top.

If the environment variable ``SKOPE_OPE_DATA`` names a folder with the real files, the
script uses them. They are an e-mail test of 48,000 customers (Hillstrom) and two
buckets of the Open Bandit Dataset, of 10,000 items each. Otherwise it simulates similar
logs.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from _two_shops import e_mail_file, item_files
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skope_ope import (
    BanditLogs,
    ConstantPolicy,
    FunctionPolicy,
    MixturePolicy,
    RewardModelPolicy,
    UniformPolicy,
    report,
)

# %%
# Which e-mail?
# -------------
#
# Every customer got one of three e-mails at random. The reward is 1 if a customer
# visited the shop. The context is what was known before.

with tempfile.TemporaryDirectory() as folder:
    customers = pd.read_csv(e_mail_file(folder))
known = ["recency", "history", "mens", "womens", "zip_code", "newbie", "channel"]
columns = {"action": "segment", "reward": "visit", "propensity": 1 / 3}
logs = BanditLogs.from_frame(customers, context=known, **columns)

# %%
# One half of the customers teaches a rule, the other half judges. The baseline is
# "None", without a campaign.

encoder = make_column_transformer(
    (StandardScaler(), ["recency", "history", "mens", "womens", "newbie"]),
    (OneHotEncoder(handle_unknown="ignore"), ["zip_code", "channel"]),
)
model = make_pipeline(encoder, LogisticRegression())
train, test = train_test_split(logs, test_size=0.5, random_state=0)
policies = {
    "none": ConstantPolicy("No E-Mail"),
    "men's to all": ConstantPolicy("Mens E-Mail"),
    "women's to all": ConstantPolicy("Womens E-Mail"),
    "learned": RewardModelPolicy(model).fit(train),
}
with tempfile.TemporaryDirectory() as folder:
    e_mails = report(
        policies,
        test,
        Path(folder) / "e_mails.html",
        title="Which e-mail should a customer get?",
        baseline="none",
        reward_model=model,
    )
    print(f"{e_mails.path.name}: {e_mails.path.stat().st_size:,} bytes")
print(e_mails.sentence)

# %%
# The top of the page says this. Below are gains, values, overlap, audit, assumptions,
# method and versions. The file needs no network: attach it to a message.
# :meth:`Report.to_html` returns the same as a text.

print(e_mails.values)

# %%
# Which item?
# -----------
#
# A fashion shop drew 10,000 items at random, from 34. In another bucket a Thompson
# sampler chose. Three rules are compared with random items: the sampler's table, an
# item that was clicked often there, and a mixture.

with tempfile.TemporaryDirectory() as folder:
    shown, sampled, table = map(pd.read_csv, item_files(folder))
table = table.filter(like="prob_position").to_numpy()
table /= table.sum(axis=0)
items = BanditLogs.from_frame(
    shown,
    action="item_id",
    reward="click",
    propensity="propensity_score",
    context=["position", "user_feature_0"],
    actions=range(34),
)
clicks = sampled.groupby("item_id")["click"].sum()
sampler = FunctionPolicy(lambda X: table.T[X["position"].to_numpy() - 1])
rules = {
    "sampler": sampler,
    "most clicked": ConstantPolicy(clicks.idxmax()),
    "half sampler": MixturePolicy([sampler, UniformPolicy()], [0.5, 0.5]),
}
fashion = report(rules, items)
print(fashion)
print(f"the sampler's own bucket had {sampled['click'].mean():.2%} clicks")

# %%
# A log with few clicks cannot tell. The page says so, and how many more rounds would
# tell. "Cannot tell" does not mean "no": keep what you have, and go on logging.

# %%
# A mistake
# ---------
#
# Suppose that somebody leaves out the customers without an e-mail, and keeps the
# propensity of one third. Then every weight is 1.5 times too large.

some = customers[customers["segment"] != "No E-Mail"]
mistake = report(
    {name: policies[name] for name in ("men's to all", "women's to all")},
    BanditLogs.from_frame(some, context=known, **columns),
    baseline="women's to all",
)
print(mistake.headline)
for alarm in mistake.alarms:
    print(f"[{alarm.severity}] {alarm.text}")

# %%
# The answer in a picture
# -----------------------

e_mails.comparison.plot()
plt.show()

# %%
# The script checks these statements at its end.

assert e_mails.decision == "deploy" and not e_mails.alarms
assert e_mails.comparison.differences[e_mails.choice].value > 0.03
assert fashion.decision == "undecided"
assert "cannot tell" in fashion.sentence
assert mistake.headline == "No decision yet: correct the log first"
assert mistake.decision == "undecided" and mistake.choice is None
for one in (e_mails, fashion, mistake):
    assert "<script" not in one.to_html() and "http" not in one.to_html()

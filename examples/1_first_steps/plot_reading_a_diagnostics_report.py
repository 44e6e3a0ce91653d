# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
# sphinx_gallery_thumbnail_number = -1
"""
Can these logs answer the question? Reading a diagnostics report
================================================================

An estimate can be wrong for reasons that its interval does not show. Every value has
`diagnostics`. The worst of them become warnings with a number. This script evaluates
one policy on five logs: a good one, two draws of a logger that explores too little, one
with wrong propensities, and one that never tried some actions. The truth is known, so
you can see the effect of each problem.
"""

# %%
# Five logs
# ---------
#
# Handwritten digits are sorted into ten bins. A log shows the reward of the chosen bin.
# The policy learned from half of the digits. The loggers are older readers that learned
# from a hundred or fewer.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import train_test_split

from skope_ope import IPS, ClassifierPolicy, DoublyRobust, PropensityEstimator
from skope_ope.datasets import make_logs_from_classification
from skope_ope.displays import ClippingCurveDisplay, PolicyValueDisplay, WeightsDisplay
from skope_ope.exceptions import OPEWarning
from skope_ope.policies import action_probabilities

# The results keep their warnings; they are printed from there.
warnings.simplefilter("ignore", OPEWarning)

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    X / 16, y, test_size=0.5, random_state=0
)
policy = ClassifierPolicy(epsilon=0.1).fit(X_train, y_train)


def logs_of(logging, random_state):
    """Log the test digits; the logger is a policy or an array of probabilities."""
    return make_logs_from_classification(
        X_test, y_test, logging=logging, random_state=random_state
    )[0]


# %%
# *Good*: an old reader's probabilities, and a random bin in half of the cases.

old = ClassifierPolicy(temperature=1.0).fit(X_train[:100], y_train[:100])
softmax = old.predict_proba(X_test)
good = logs_of(0.5 * softmax + 0.5 / 10, 3)

# %%
# *Rare, drawn* and *rare, missed*: an older reader that tries a random bin once in
# fifty cases. In one log it tried a bin that our policy prefers, in the other it did
# not.

older = ClassifierPolicy(epsilon=0.02).fit(X_train[:30], y_train[:30])
drawn, missed = logs_of(older, 3), logs_of(older, 0)

# %%
# *Wrong p*: the good log, but the software recorded the reader's probability without
# the exploration after it. This is a common mistake.

rows = np.arange(len(good))
wrong = good.replace(propensity=softmax[rows, good.action_index], logging_proba=None)

# %%
# *No 8, 9*: these two bins did not exist yet.

eight = np.where(np.arange(10) < 8, 0.5 * softmax + 0.5 / 10, 0)
without = logs_of(eight / eight.sum(axis=1, keepdims=True), 3)

LOGS = {
    "good": good,
    "rare, drawn": drawn,
    "rare, missed": missed,
    "wrong p": wrong,
    "no 8, 9": without,
}

# %%
# The report
# ----------
#
# Each log gets one evaluation with a model and one without. Diagnostics are computed
# when you read them.

doubly_robust = DoublyRobust(reward_model=Ridge())
dr = {name: doubly_robust.fit(logs).evaluate(policy) for name, logs in LOGS.items()}
ips = {name: IPS().fit(logs).evaluate(policy) for name, logs in LOGS.items()}
truth = action_probabilities(policy, good)[rows, y_test].mean()

ENTRIES = {
    "effective_sample_size": "{:.1f}",
    "max_weight": "{:.1f}",
    "max_weight_share": "{:.1%}",
    "mean_weight": "{:.2f}",
    "mean_weight_z": "{:+.1f}",
    "inverse_propensity_z": "{:+.1f}",
    "unsupported_mass": "{:.1%}",
    "correction": "{:+.3f}",
    "correction_z": "{:+.1f}",
}


def print_row(name, cells):
    """Print a name and right-aligned cells."""
    print(f"{name:22}" + "".join(f"{cell:>14}" for cell in cells))


print_row("", LOGS)
for entry, form in ENTRIES.items():
    print_row(entry, [form.format(dr[name].diagnostics[entry]) for name in LOGS])
for label, results in (("IPS", ips), ("DoublyRobust", dr)):
    print_row(label, [f"{results[name].value:.3f}" for name in LOGS])
    print_row("  +-", [f"{results[name].standard_error:.3f}" for name in LOGS])
print_row("truth", [f"{truth:.3f}"] * len(LOGS))

# %%
# These are the warnings. Programs can use the number `warning.value`.

for name in LOGS:
    print(f"{name}: {'' if ips[name].warnings else 'no warning'}")
    for warning in ips[name].warnings:
        print(f"  {type(warning).__name__}, value {warning.value:.3g}: {warning}")

# %%
# The values, as rows of logs. Three of the five intervals of IPS miss the truth.

display = PolicyValueDisplay.from_values(
    {
        (label, name): results[name]
        for name in LOGS
        for label, results in (("IPS", ips), ("DoublyRobust", dr))
    }
)
display.plot(truth=truth)

# %%
# Which rounds have the weight
# ----------------------------
#
# Bars are shares of the rounds, the line is their share of the weight. In the good log
# the line is high where many rounds are. In *rare, drawn* three of 899 rounds have 69%
# of the weight, at the right end. In *rare, missed* there are no such rounds.

figure, axes = plt.subplots(2, 3, figsize=(12, 7.5), layout="constrained")
spread = {}
for ax, (name, logs) in zip(axes.flat, LOGS.items(), strict=False):
    spread[name] = WeightsDisplay.from_evaluator(IPS().fit(logs), policy).plot(ax)
    ax.set_title(f"{name}\n{ax.get_title()}", fontsize="small")
    if ax is not axes[0, 2]:  # one legend, on the right of the first row
        ax.get_legend().remove()
axes[1, 2].remove()
large = spread["rare, drawn"].weights > 20
share = large @ spread["rare, drawn"].weights / spread["rare, drawn"].weights.sum()
print(f"rare, drawn: {large.sum()} weights above 20 are {share:.0%} of the weight")
for name in ("good", "rare, drawn", "rare, missed"):
    share = spread[name].share_of_largest(0.01)
    print(f"{name}: 1% of the rounds carry {share:.0%} of the weight")

# %%
# Symptom by symptom
# ------------------
#
# **Effective sample size** falls from 332 to 6 in *rare, drawn*. Below 30, or below 5%
# of the rounds, a `LowOverlapWarning` says so. IPS gives 2.1, and rewards are at most
# 1. Its interval, 0.93 to 1, misses the truth. That of the doubly robust evaluator is 0
# to 1, which says nothing. The clipping curve shows that the answer depends on a few
# rounds.

curve = ClippingCurveDisplay.from_evaluator(IPS().fit(drawn), policy).plot()
curve.ax_.axhline(truth, color="#009E73", linestyle="--", label="truth")
curve.ax_.legend(loc="upper left", bbox_to_anchor=(1.02, 1))

# %%
# **Mean weight.** With right propensities, weights average to one. *Rare, missed* has
# 518 effective rounds and the narrowest interval of all, far from the truth. Large
# weights are missing from the log, so its variance is too small. The mean weight shows
# it: 0.68 is 16 standard errors below one. A `LowOverlapWarning` says so.
#
# **The logged propensities alone.** :math:`1/p` averages to the number of actions, ten,
# for every policy. In *wrong p* it is ten standard errors off (`inverse_propensity_z`):
# the log is certainly wrong. If somebody knows how the software explored, compute the
# propensities again. Otherwise `PropensityEstimator` estimates them from the actions.
# Its estimate must pass the same tests, and here it fails. A few hundred rounds are too
# few to estimate ten probabilities.

mended = wrong.replace(propensity=0.5 * wrong.propensity + 0.5 / 10)
estimated = PropensityEstimator(LogisticRegression(C=0.1)).fit(wrong).transform(wrong)
print_row("propensities", ["wrong", "mended", "estimated"])
again = [IPS().fit(logs).evaluate(policy) for logs in (wrong, mended, estimated)]
print_row("IPS", [f"{result.value:.3f}" for result in again])
for entry in ("mean_weight_z", "inverse_propensity_z"):
    print_row(entry, [f"{result.diagnostics[entry]:+.1f}" for result in again])
print_row("truth", [f"{truth:.3f}"] * 3)

# %%
# **Unsupported mass.** Our policy puts a fifth of its probability on bins that were
# never tried. No weight can correct that, and a model only guesses. Rewards between 0
# and 1 bound the bias by 0.2. The default interval is wider by as much on both sides.
# Collect logs, or evaluate a policy that uses only the eight bins.
#
# **Correction.** This is what the weighted residuals add to the value of the model. In
# the good log they add 0.15, eight standard errors. `DirectMethod`, the model alone,
# gives 0.75, which is 0.12 too low. The doubly robust value includes the correction. If
# weights are unreliable it has the model's error, as in *rare, missed*.
#
# The script checks these statements at its end.

assert not ips["good"].warnings
for results in (ips, dr):
    low, high = results["good"].confidence_interval()
    assert low < truth < high
names = {name: {type(w).__name__ for w in r.warnings} for name, r in ips.items()}
assert names["rare, drawn"] == {"LowOverlapWarning"}
assert names["rare, missed"] == {"LowOverlapWarning"}
assert "PropensityWarning" in names["wrong p"]
assert "SupportWarning" in names["no 8, 9"]
for name in ("rare, missed", "wrong p", "no 8, 9"):
    assert ips[name].confidence_interval(method="student")[1] < truth
low, high = ips["no 8, 9"].confidence_interval()
assert low < truth < high
assert ips["rare, missed"].standard_error < ips["good"].standard_error
assert spread["rare, drawn"].share_of_largest(0.01) > 0.6
low, high = again[1].confidence_interval()
assert low < truth < high
assert abs(again[1].diagnostics["mean_weight_z"]) < 3
assert abs(again[2].diagnostics["mean_weight_z"]) > 3

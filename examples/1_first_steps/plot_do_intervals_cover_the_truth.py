# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
# sphinx_gallery_thumbnail_number = -1
"""
Do the intervals cover the truth? Coverage by simulation
========================================================

A 95% interval should cover the truth in 95 of 100 logs. It comes from the central limit
theorem. So it covers only if many rounds share the weight, and it ignores bias. This
script draws logs with known values and counts.

``--repetitions 2000`` gives the table of the guide's page on intervals.
"""

import argparse
import warnings

import matplotlib.pyplot as plt
import numpy as np
from joblib import Parallel, delayed
from sklearn.linear_model import Ridge

from skope_ope import evaluate
from skope_ope.datasets import make_bandit_logs
from skope_ope.exceptions import OPEWarning

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--repetitions", type=int, default=80)
parser.add_argument("--n-jobs", type=int, default=2)
args = parser.parse_known_args()[0]

# %%
# Two worlds
# ----------
#
# Five features, three actions, rewards of 0 and 1. In the first world the logger and
# the policy differ moderately. In the second the logger rarely takes the policy's
# actions. A world is the same in all repetitions. Contexts, actions and rewards are
# drawn anew.

WORLDS = {
    "good overlap": {"logging_temperature": 1.0, "world_random_state": 0},
    "poor overlap": {"logging_temperature": 0.3, "world_random_state": 0},
}
SIZES = [100, 1000]
EVALUATORS = [
    "IPS",
    "SNIPS",
    "DoublyRobust",
    "SNDR",
    "MRDR",
    "SwitchDR",
    "DRos",
    "SubGaussianIPS",
    "SubGaussianDR",
    "LogSmoothing",
    "DirectMethod",
]


def repeat(world, policy, n_rounds, seed):
    """Draw one log; return values and the ends of normal and Student's intervals."""
    logs = make_bandit_logs(n_rounds, random_state=seed, **WORLDS[world])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)
        table = evaluate(policy, logs, evaluators=EVALUATORS, reward_model=Ridge())
    return [
        [
            result.value,
            result.effective_sample_size,
            *result.confidence_interval(0.95, "normal"),
            *result.confidence_interval(0.95, "student"),
        ]
        for result in table.values()
    ]


# %%
# Two questions
# -------------
#
# How often does the interval cover the *true value* of the policy? And how often does
# it cover the *mean of the evaluator itself* over all logs? For unbiased evaluators
# both questions are the same. Other evaluators trade bias for variance. For them the
# second question shows whether the width is right, and the first shows the effect of
# the bias.

coverage = {}
with Parallel(n_jobs=args.n_jobs) as parallel:
    for world, options in WORLDS.items():
        # The true value is a mean over many contexts; ten times as many make its own
        # error small beside the standard errors.
        draws = [
            make_bandit_logs(1, random_state=seed, return_truth=True, **options)
            for seed in range(10)
        ]
        policy = draws[0][1]
        truth = np.mean([truth.population_value for _, _, truth in draws])
        for n_rounds in SIZES:
            drawn = np.array(
                parallel(
                    delayed(repeat)(world, policy, n_rounds, seed)
                    for seed in range(args.repetitions)
                )
            )
            centre = drawn[:, :, 0].mean(axis=0)
            ends = drawn[:, :, 2:].reshape(*drawn.shape[:2], 2, 2)
            covers = {
                name: ((ends[..., 0] <= target) & (target <= ends[..., 1])).mean(axis=0)
                for name, target in {
                    "truth": truth,
                    "mean": centre[:, None],
                }.items()
            }
            coverage[world, n_rounds] = covers
            print(
                f"\n{world}, n = {n_rounds:,}, {args.repetitions} repetitions: "
                f"true value {truth:.4f}, on average "
                f"{drawn[:, 0, 1].mean():.0f} effective rounds"
            )
            print(f"  {'':16}{'bias':>9}{'normal':>9}{'Student':>9}{'own mean':>10}")
            for i, evaluator in enumerate(EVALUATORS):
                bias = centre[i] - truth
                normal, student = covers["truth"][i]
                print(
                    f"  {evaluator:16}{bias:+9.4f}{normal:9.3f}{student:9.3f}"
                    f"{covers['mean'][i, 1]:10.3f}"
                )

error = np.sqrt(0.95 * 0.05 / args.repetitions)
print(f"\nstandard error of a coverage of 0.95: {error:.4f}")

# %%
# Coverage of the truth (filled) and of the own mean (open), Student's intervals. The
# grey band is 0.95 with four standard errors of the simulation.

figure, axes = plt.subplots(
    1, 4, figsize=(13, 5), sharex=True, sharey=True, layout="constrained"
)
height = np.arange(len(EVALUATORS))
for ax, ((world, n_rounds), covers) in zip(axes, coverage.items(), strict=True):
    ax.axvspan(0.95 - 4 * error, min(0.95 + 4 * error, 1), color="0.9")
    ax.plot(covers["truth"][:, 1], height, "o", label="true value")
    ax.plot(covers["mean"][:, 1], height, "s", fillstyle="none", label="own mean")
    ax.set(title=f"{world}, n = {n_rounds:,}", xlabel="coverage")
axes[0].set_yticks(height, EVALUATORS)
axes[0].invert_yaxis()
axes[-1].legend(loc="upper left", bbox_to_anchor=(1, 1))

# %%
# What to take from it
# --------------------
#
# - With a thousand rounds, a third of them effective, the intervals of unbiased and
#   self-normalised evaluators cover as they should. With a hundred rounds they cover
#   slightly less. Rare large weights are missing from most logs, so the variance is too
#   small. Student's quantiles do not correct that.
# - With poor overlap this happens at any size. IPS misses far more often than one time
#   in twenty. A `LowOverlapWarning` or `PropensityWarning` says more than the interval.
# - SubGaussianIPS and LogSmoothing are biased towards 0. Their intervals cover their
#   own mean, which is not the truth.
# - The interval of the direct method ignores the error of the model. DRos, SwitchDR and
#   SubGaussianDR correct the model by *less* than the whole residual. So they keep a
#   part of that error, and their intervals ignore it.
#
# The script checks these statements at its end.

low = 0.95 - 4 * error
covers = coverage["good overlap", 1000]
for name in ("IPS", "SNIPS", "DoublyRobust", "SNDR", "MRDR"):
    assert covers["truth"][EVALUATORS.index(name), 1] > low
for name in ("SubGaussianIPS", "LogSmoothing"):
    assert covers["mean"][EVALUATORS.index(name), 1] > low
assert covers["truth"][EVALUATORS.index("SubGaussianIPS"), 1] < low
assert coverage["poor overlap", 1000]["truth"][EVALUATORS.index("IPS"), 1] < low
for covers in coverage.values():
    assert (covers["truth"][:, 1] >= covers["truth"][:, 0]).all()
    assert covers["truth"][EVALUATORS.index("DirectMethod"), 1] < low

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""When histories are too short, too few or out of order."""

import numpy as np

from skope_ope.evaluators.core._warnings import none_accepted_warning
from skope_ope.evaluators.sequential._history import linearised, mean_of
from skope_ope.exceptions import (
    BiasWarning,
    HorizonWarning,
    LogsWarning,
    SingleTrajectoryWarning,
)
from skope_ope.logs._shown_numbers import figure

LARGE_MASS, MASS_Z = 0.1, 2  # bias mass; its standard errors from nothing
NEGLIGIBLE = 1e-6  # bias mass: that of single precision probabilities
RATIO_Z, RATIO_SHARE = 3, 0.5  # of a difference: its own and the value's errors


def reversal_warnings(row):
    """Return a warning where the rounds are not in the order of their times."""
    if row is None:
        return []
    return [
        LogsWarning(
            f"timestamp decreases at row {row}, but rounds are taken in the order "
            "of their rows. Sort the logs by time.",
            row,
        )
    ]


def unformed_warning(history, horizon):
    """Return the warning that goes with a NaN."""
    most = history.longest
    if horizon is None or not most:
        return none_accepted_warning(history.found.final_ratio, history.n_rounds)
    return HorizonWarning(
        f"no trajectory of horizon={horizon} was completed: the logs gave T = "
        f"{most} accepted rounds. The value is NaN. Shorten the horizon or use "
        "more logs.",
        most,
    )


def left_out_warnings(trajectories):
    """Return a warning where some parts of the logs gave no value."""
    lost = trajectories.n_lost
    if not lost:
        return []
    return [
        HorizonWarning(
            f"{lost} of {lost + len(trajectories.terms)} parts gave no value and "
            "are left out. Use fewer parts or a shorter horizon.",
            lost,
        )
    ]


def single_trajectory_warning(error, horizon, about):
    """Return the warning that goes with one trajectory of a policy that learns."""
    setting = "Set horizon" if horizon is None else "Set a smaller horizon"
    remedy = (
        f"{setting} so that the logs give several trajectories, or evaluate parts of "
        "the logs with repeated_runs."
    )
    if np.isnan(error):
        told = (
            "the standard error is NaN: it needs more than one trajectory of a "
            "policy that learns"
        )
    else:
        told = (
            f"a single trace tells about {about} only, a mixture of all stages of "
            "the policy. Its standard error and interval are not those of the "
            "learning policy at some horizon, whose value varies more"
        )
    return SingleTrajectoryWarning(f"{told}. {remedy}", 1)


def short_trajectory_warnings(trajectories, standard_error, horizon):
    """Return a warning where short histories bias the ratios of trajectories."""
    values, weights = trajectories.values, trajectories.weights
    if len(values) < 2:
        return []
    pooled = mean_of(values, weights)
    gaps = values - linearised(values, weights, pooled)
    gap, noise = gaps.mean(), gaps.std(ddof=1) / np.sqrt(len(gaps))
    if not abs(gap) > max(RATIO_Z * noise, RATIO_SHARE * standard_error):
        return []
    return [
        HorizonWarning(
            f"histories of {horizon} rounds are short, so their values lean "
            "towards the reward model. The mean of the ratios R / C of "
            f"{len(gaps)} trajectories is {values.mean():.6g}, but the ratio of "
            f"their sums is {pooled:.6g}. Pass normalize='pooled', or a longer "
            "horizon.",
            float(gap),
        )
    ]


def bias_mass_warnings(diagnostics, advice, allowed=LARGE_MASS, z=MASS_Z):
    """Return a warning where the acceptance ratio keeps too much out of the history."""
    mass, error = diagnostics["bias_mass"], diagnostics["bias_mass_error"]
    if not mass > max(allowed, z * error):
        return []
    share = diagnostics["violation_share"]
    return [
        BiasWarning(
            f"the acceptance ratio is too large in {share:.2%} of the rounds, "
            "where the logger seldom takes the logged action. So "
            f"{figure(mass, 3)} ± {error:.2g} of the policy's rounds are missing "
            f"in the simulated history (bias mass, at most {figure(allowed, 3)} is "
            "allowed). The value is biased, and its interval leaves out this bias. "
            f"{advice}.",
            mass,
        )
    ]

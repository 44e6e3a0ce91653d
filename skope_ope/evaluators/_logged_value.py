# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What the logger earned: the mean reward of the logs."""

import numpy as np

from skope_ope.evaluators.core._result import PolicyValue
from skope_ope.evaluators.static._base import combined_weights


def logged_value(logs):
    r"""Return the mean reward of the logs, the on-policy value of the logger.

    With sample weights :math:`\omega` it is the ratio :math:`\sum \omega r / \sum
    \omega`, whose round values are linearised.

    Parameters
    ----------
    logs : BanditLogs
        The rounds.

    Returns
    -------
    value : PolicyValue
        Estimates of other policies on the same rounds can be compared with it in
        pairs.
    """
    reward, weight, n_rounds = logs.reward, combined_weights(logs, None), len(logs)
    size = float(n_rounds)
    if weight is None:
        value, round_values = float(reward.mean()), reward
    else:
        value = float(np.average(reward, weights=weight))
        round_values = value + weight * (reward - value) / weight.mean()
        size = float(weight.sum() ** 2 / (weight**2).sum())
    error = float("nan")
    if n_rounds > 1:
        error = float(round_values.std(ddof=1) / np.sqrt(n_rounds))
    return PolicyValue(
        value,
        error,
        n_rounds,
        estimator="mean reward",
        logs=logs,
        round_values=round_values,
        effective_sample_size=size,
    )

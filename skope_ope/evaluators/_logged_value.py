# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What the logger earned: the mean reward of the logs."""

from functools import partial

import numpy as np

from skope_ope.evaluators.core._estimate import Estimate
from skope_ope.evaluators.core._functions import mean
from skope_ope.evaluators.core._plain_weights import PlainWeights
from skope_ope.evaluators.core._policy_value import PolicyValue
from skope_ope.evaluators.core._positive_rounds import PositiveRounds
from skope_ope.evaluators.core._reach import CornerReach, terms_at
from skope_ope.evaluators.core._rows import Rows
from skope_ope.evaluators.core._sample_weights import combined_weights
from skope_ope.evaluators.core._sums import Sums
from skope_ope.logs._known_range import known_range


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
    positive = PositiveRounds(logs, combined_weights(logs, None))
    design, n = positive.design, len(logs)
    sums = Sums(design)
    sums.add(design.block(0, n), (logs.reward,))
    mass, square = sums.mass, sums.square
    limits = known_range(logs)
    return PolicyValue(
        Estimate(sums, mean),
        Rows(design, logs.reward[None], logs=logs),
        estimator="mean reward",
        effective_sample_size=mass * mass / square,
        reach=CornerReach(limits, partial(_corners, n), reward=logs.reward, alike=True),
        plain_weights=PlainWeights(logs, positive, partial(np.ones, n), False, 1.0),
    )


def _corners(n, limits, max_weight=None, spare=0.0):
    """Return the rewards that rounds might have had; there are no weights."""
    own = [terms_at(np.broadcast_to(end, n)) for end in limits]
    return [[one] for one in own], own, None, None

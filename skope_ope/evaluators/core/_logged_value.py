# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What the logger earned: the mean reward of the logs."""

from functools import partial

import numpy as np

from skope_ope.evaluators.core._drowned import beyond_floats
from skope_ope.evaluators.core._estimate import Estimate
from skope_ope.evaluators.core._functions import mean
from skope_ope.evaluators.core._halves import in_upper_half
from skope_ope.evaluators.core._largest_deviation import (
    Extremes,
    LargestDeviation,
    effective,
)
from skope_ope.evaluators.core._plain_weights import PlainWeights
from skope_ope.evaluators.core._policy_value import PolicyValue
from skope_ope.evaluators.core._products import total
from skope_ope.evaluators.core._reach import refuse_stated
from skope_ope.evaluators.core._requires import Requires
from skope_ope.evaluators.core._rounds import PositiveRounds, combined_weights
from skope_ope.evaluators.core._rows import Rows
from skope_ope.evaluators.core._sums import WEIGHT, sums_of_rounds
from skope_ope.evaluators.core._tally import RoundCounts
from skope_ope.logs._row_container import known_range


def logged_value(logs):
    r"""Return the mean reward of the logs, the on-policy value of the logger."""
    # With sample weights :math:`\omega` it is the ratio :math:`\sum \omega r / \sum
    # \omega`, whose round values are linearised.
    positive = PositiveRounds(logs, combined_weights(logs, None))
    design, n = positive.design, len(logs)
    with beyond_floats():
        sums = sums_of_rounds(
            design, (logs.reward,), upper=in_upper_half(logs), moves=WEIGHT
        )
        estimate = Estimate(sums, mean)
    mass, square = sums.mass, sums.square
    limits = known_range(logs)
    return PolicyValue(
        estimate,
        Rows(design, logs.reward[None], logs=logs),
        estimator="mean reward",
        effective_sample_size=mass * mass / square,
        reach=MeanDeviation(limits, RoundCounts.of(positive)),
        plain_weights=PlainWeights(logs, positive, partial(np.ones, n), False, 1.0),
    )


def logged_value_of_sums(summary, log, rows, **about):
    """Return the same from merged sums."""
    mass, square = total(summary.sums.mass), total(summary.sums.square)
    limits = None if log is None else known_range(log)
    return PolicyValue(
        summary.estimate(),
        rows,
        estimator="mean reward",
        effective_sample_size=mass * mass / square,
        reach=MeanDeviation(limits, summary.counts),
        **about,
    )


class _MeanReward:
    """The formula of a mean reward, as an evaluator has it."""

    shift_with = WEIGHT
    requires, smooth = Requires(), ()  # all weights are one

    @staticmethod
    def terms(rounds):
        return (rounds.r,)

    @staticmethod
    def weights(w):
        return w


class MeanDeviation(LargestDeviation):
    """How far a reward may lie from the mean: there are no importance weights."""

    regional = None

    def __init__(self, limits, counts):
        about = {"seen": counts.reward_range, "sample_weights": counts.weights}
        super().__init__(_MeanReward(), limits, Extremes(), **about)

    def _largest(self, strata, max_weight, spare):
        refuse_stated(max_weight)
        return np.ones(len(strata)), None

    def effective_rounds(self, value):
        """Return those of the halves by their sample weights."""
        estimate = value._estimate
        parts = ((one.mass, one.square) for one in (estimate.sums, estimate.sums.upper))
        found = effective(estimate.shares.weight, *parts)
        return [(m, m) for m in found]

    def _gains(self, value):
        """Return sums of rewards and of rounds over the cells, and the offset."""
        sums = value._estimate.sums
        mass = sums.totals[-1]
        return sums.totals[0] + sums.origin[0] * mass, mass, sums.offset

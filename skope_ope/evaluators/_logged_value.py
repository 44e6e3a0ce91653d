# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What the logger earned: the mean reward of the logs."""

from functools import partial

import numpy as np

from skope_ope.evaluators.core._drowned import beyond_floats
from skope_ope.evaluators.core._estimate import Estimate
from skope_ope.evaluators.core._functions import mean
from skope_ope.evaluators.core._origins import total
from skope_ope.evaluators.core._plain_weights import PlainWeights
from skope_ope.evaluators.core._policy_value import PolicyValue
from skope_ope.evaluators.core._positive_rounds import PositiveRounds
from skope_ope.evaluators.core._reach import CornerReach, terms_at
from skope_ope.evaluators.core._round_ends import RoundEnds
from skope_ope.evaluators.core._rows import Rows
from skope_ope.evaluators.core._sample_weights import combined_weights
from skope_ope.evaluators.core._summed_reach import SummedReach
from skope_ope.evaluators.core._summed_value import SummedValue
from skope_ope.evaluators.core._sums import Sums
from skope_ope.evaluators.core._yes_no_sums import YesNoSums
from skope_ope.logs._known_range import known_range


def logged_value(logs):
    r"""Return the mean reward of the logs, the on-policy value of the logger."""
    # With sample weights :math:`\omega` it is the ratio :math:`\sum \omega r / \sum
    # \omega`, whose round values are linearised.
    positive = PositiveRounds(logs, combined_weights(logs, None))
    design, n = positive.design, len(logs)
    sums = Sums(design)
    with beyond_floats():
        sums.add(design.block(0, n), (logs.reward,))
        estimate = Estimate(sums, mean)
    mass, square = sums.mass, sums.square
    limits = known_range(logs)
    return PolicyValue(
        estimate,
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


def logged_value_of_sums(summary, log, n_rounds, **about):
    """Return the same from merged sums."""
    mass, square = total(summary.sums.mass), total(summary.sums.square)
    return SummedValue(
        summary.estimate(),
        n_rounds,
        estimator="mean reward",
        effective_sample_size=mass * mass / square,
        reach=_reach_of_sums(summary, log, n_rounds),
        **about,
    )


class _MeanReward:
    """The formula of a mean reward, as an evaluator has it."""

    _moves = -1  # by the weight of the round
    _uses_model = _uses_range = False
    _uses_weights = True  # all are one

    @staticmethod
    def _terms(rounds):
        return (rounds.r,)


def _reach_of_sums(summary, log, n_rounds):
    """Return the reach of a mean reward: there are no importance weights."""
    frame, counts = summary.sums.frame, summary.counts
    ends = RoundEnds()
    ends.weights[None] = 1.0
    ends.terms = np.array([counts.reward_range]) - summary.sums.offset
    limits = None
    if log is not None:
        limits, ends.omega = known_range(log), (log.weight_low, log.weight_high)
        if log._says_yes_and_no:
            rewarded = log.n_rewarded
            ends.yes_no = YesNoSums.alike(rewarded, counts.n - rewarded)
    groups = None
    if frame.clustered:
        n = len(frame.clusters)
        groups = np.bincount(frame.cell_cluster, frame.cell_mass, n)
    return SummedReach(
        _MeanReward(),
        limits,
        ends,
        n_rounds,
        seen=counts.reward_range,
        group_weights=groups,
        weighted=False,
    )

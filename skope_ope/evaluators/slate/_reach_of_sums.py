# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""How far the value of a round of slates may lie from an estimate from sums."""

from skope_ope.evaluators.core._functions import mean, ratio
from skope_ope.evaluators.core._reach import range_only
from skope_ope.evaluators.core._round_ends import RoundEnds
from skope_ope.evaluators.core._summed_reach import SummedReach
from skope_ope.logs._known_range import known_range


class _Weighed:
    """The formula of means and ratios of rewards times weights of slates."""

    _uses_model = _uses_range = False
    _uses_weights = True

    def __init__(self, combine):
        self.combine = combine
        self._moves = 1 if combine is ratio else None

    def _terms(self, rounds):
        gain = rounds.w * rounds.r
        return (gain,) if self.combine is mean else (gain, rounds.w)


def reach_of_slates(summary, log, n_rounds):
    """Return what finds how far the value of a round may lie from the estimate.

    Parameters
    ----------
    summary : Summary
        Sums of all parts.
    log : LogSums or None
        What is known of the log.
    n_rounds : int
        Number of rounds, those of sample weight zero included.
    """
    limits = None if log is None else known_range(log)
    if summary.ends is None:
        return range_only(limits)
    combine = getattr(summary.facts["combine"], "combine", None)
    plain = summary.ends.weights and combine in (mean, ratio)
    seen = summary.counts.reward_range
    if plain:
        formula = _Weighed(combine)
        return SummedReach(formula, limits, summary.ends, n_rounds, seen=seen)
    formula = _Weighed(mean)
    formula._uses_weights = False  # what a reward would move is not kept
    return SummedReach(formula, limits, summary.ends, n_rounds)


def ends_of_slates(found, terms, logs, part):
    """Return the `RoundEnds` of the terms of slates.

    Parameters
    ----------
    found : SlateTerms
        What was found of a part.
    terms : sequence of ndarray of shape (n_rounds,)
        Its terms.
    logs : SlateLogs
        The rounds.
    part : PositiveRounds
        Those that enter.
    """
    ends = RoundEnds()
    if not part.n:
        return ends
    ends.add_terms([part.of(term) for term in terms], powers=True)
    omega = None if part.omega is None else part.of(part.omega)
    if found.plain:
        ends.add_weights(part.of(found.weight), part.of(logs.reward), omega)
    elif omega is not None:
        ends.omega = float(omega.min()), float(omega.max())
    else:
        ends.omega = 1.0, 1.0
    return ends

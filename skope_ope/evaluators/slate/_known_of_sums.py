# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What a value of a slate evaluator is told beside its estimate, from merged sums."""

from copy import copy
from math import isnan, nan

from skope_ope.evaluators.core._functions import mean, ratio
from skope_ope.evaluators.core._overlap import Overlap, weight_entries
from skope_ope.evaluators.core._reach import range_only
from skope_ope.evaluators.core._round_ends import RoundEnds
from skope_ope.evaluators.core._summed_reach import SummedReach
from skope_ope.evaluators.core._support_findings import slate_support_findings
from skope_ope.evaluators.core._warnings import warnings_of
from skope_ope.evaluators.core._weight_findings import slate_weight_findings
from skope_ope.exceptions import SupportWarning
from skope_ope.logs._known_range import known_range


def known_of_slates(evaluator, summary, log, n_rounds):
    """Return the estimate, and what a value is told beside it, by name.

    Parameters
    ----------
    evaluator : SlateEvaluator
        The evaluator.
    summary : Summary
        Its sums on one policy.
    log : LogSums or None
        What is known of the log.
    n_rounds : int
        Number of rounds, those of sample weight zero included.
    """
    estimate, tally = summary.estimate(), summary.tally
    known, warned, size = {"n_rounds": summary.n}, [], nan
    if tally is not None:
        entries, findings, size = _of_weights(summary)
        known |= entries
        if tally.table:
            known["unsupported_share"] = lost = tally.told.sum() / summary.counts.n
            warned += warnings_of(slate_support_findings(float(lost), "slates"))
        warned += warnings_of(findings)
    warned += evaluator._own_warnings_of_sums()
    left_out = 1 - summary.n / summary.counts.n
    if left_out > 0:
        known["left_out_share"] = left_out
        warned.append(_left_out_warning(left_out))
    if isnan(estimate.value):
        combine = summary.facts["combine"]
        warned.append(combine.warning(type(evaluator).__name__, estimate))
    return estimate, {
        "effective_sample_size": size,
        "diagnostics": known,
        "warnings": warned,
        "reach": _reach(summary, log, n_rounds),
    }


def _left_out_warning(share):
    text = (
        f"{share:.2%} of the rounds lie outside of the range of the logger for this "
        "policy: the value is that of the others."
    )
    return SupportWarning(text, share)


def _of_weights(summary):
    """Return diagnostics, findings and effective size that the weights tell."""
    overlap = Overlap.of_sums(summary)
    balance = copy(summary)
    balance.weights = summary.weights.some([2, 3])
    balance = Overlap.of_sums(balance)
    expected = 1 + overlap.mean_weight - balance.mean_weight
    entries = {"expected_weight": expected} | weight_entries(overlap, balance)
    found = []
    if overlap.sum_w2:
        supported = not summary.tally.gaps
        found = slate_weight_findings(overlap, balance, expected, supported)
    return entries, found, overlap.effective_sample_size


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


def _reach(summary, log, n_rounds):
    """Return what finds how far the value of a round may lie from the estimate."""
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

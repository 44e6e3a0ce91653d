# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What a value is told beside its estimate, from the sums of all rounds."""

from math import inf, isfinite, isnan, nan
from types import SimpleNamespace

import numpy as np

from skope_ope.evaluators.core._arms import known_of_arms
from skope_ope.evaluators.core._diagnostics import DiagnosticEntries
from skope_ope.evaluators.core._drowned import (
    drowned_finding,
    huge_finding,
    huge_weight_finding,
    is_drowned,
    is_huge,
    lost_finding,
)
from skope_ope.evaluators.core._estimate import Estimate
from skope_ope.evaluators.core._functions import mean
from skope_ope.evaluators.core._largest_deviation import LargestDeviation
from skope_ope.evaluators.core._overlap_findings import (
    overlap_findings,
    support_findings,
)
from skope_ope.evaluators.core._plain_weights import bernstein_bound, keeps_range
from skope_ope.evaluators.core._rounds import known_shift
from skope_ope.evaluators.core._slates import known_of_slates
from skope_ope.evaluators.core._warnings import (
    learning_warnings,
    propensity_warnings,
    unformed_warning,
    warnings_of,
)
from skope_ope.logs._row_container import known_range


def known_of_sums(evaluator, summary, log, n_rounds=None):
    """Return the estimate, and what a value is told beside it, by name.

    Parameters
    ----------
    evaluator : StaticEvaluator
        What the value is by.
    summary : Summary
        Its sums.
    log : BanditLogs, LogSums or None
        What is known of the rounds that enter.
    n_rounds : int, default=None
        Number of all rounds, those of sample weight zero, too.
    """
    if summary.is_of_slates:
        return known_of_slates(evaluator, summary, log)
    if evaluator.sampling.arms is not None:
        return known_of_arms(evaluator, summary, log, n_rounds)
    estimate, overlap, rows = summary.estimate(), summary.overlap, summary.rows
    weighted, uses_model = evaluator.requires.weights, evaluator.requires.model
    warned, beyond = [], []
    if weighted and _is_huge(evaluator, overlap):
        formed = isfinite(estimate.value)
        if rows is None:
            found = huge_finding(overlap.max_w, log, formed)
        else:
            found = huge_weight_finding(rows.logs, rows.numbers[0], formed)
        beyond = [found.warning()]
        estimate = estimate.without_error() if formed else estimate.without_value()
    elif (
        estimate.lost and evaluator.shift_with is not None and isfinite(estimate.value)
    ):
        # the variance was lost in the rounding of sums of squares
        find = _without_lost_error if rows is None else _about_its_value
        estimate, beyond = find(evaluator, summary, estimate)
    if weighted:
        warned = _weight_warnings(summary, log, uses_model)
        if not uses_model and overlap.missing_mass > 1 - 1e-9:
            estimate = estimate.without_value()  # the logs say nothing of this policy
    else:  # a model extrapolates to what was never logged
        warned = warnings_of(support_findings(overlap, log))
    if isnan(estimate.value) and not beyond:
        warned.append(unformed_warning(evaluator))
    more, own = evaluator.diagnostics_of(summary, estimate)
    about = evaluator, summary, log, estimate, more
    is_ips = evaluator.combine is mean and "cmax" in vars(evaluator) and not uses_model
    return estimate, {
        "effective_sample_size": overlap.effective_sample_size if weighted else nan,
        "diagnostics": lambda: DiagnosticEntries(*about).by_name(),
        "warnings": [*warned, *beyond, *own],
        "bound": bernstein_bound if is_ips else None,
        "reach": _reach(evaluator, summary, log),
    }


def _weight_warnings(summary, log, uses_model):
    """Return the warnings of weights, which evaluators of a policy share."""
    overlap, job = summary.overlap, summary.job
    if uses_model not in overlap.told:
        target = SimpleNamespace(logged_only=not summary.tally.table, array=None)
        target = target if job is None else job.target
        found = warnings_of(overlap_findings(overlap, log, target, uses_model))
        if log is not None:
            whole = log if job is None else job.kept.logs
            found += propensity_warnings(log) + learning_warnings(whole)
        overlap.told[uses_model] = found
    return list(overlap.told[uses_model])


def _is_huge(evaluator, overlap):
    """Whether a weight that an evaluator uses leaves the range of floats."""
    largest = overlap.max_w
    return is_huge(largest) and is_huge(
        float(evaluator.weights(np.array([largest]))[0])
    )


def _without_lost_error(evaluator, summary, estimate):
    """Return the estimate without an error that no round can tell any more."""
    seen = summary.counts if evaluator.requires.model else summary.tally
    low, high = seen.reward_range
    if not low < high:  # if all rewards are equal it is zero
        return estimate, []
    if estimate.rests_on_one:
        return estimate.without_error(), []
    return estimate.without_error(), [lost_finding().warning()]


def _about_its_value(evaluator, summary, estimate):
    """Return the estimate with the error that rounding took, where it did."""
    # Terms about the value itself have no digits to lose. Where they vanish, too, the
    # terms are proportional, and there is no error; or one round has all the weight
    # that floating point holds, and there is none that could be told.
    if not estimate.frame.count.any():
        return estimate, []
    rows = summary.rows
    sums, reward = rows.sums_about(estimate.value), rows.logs.reward
    found = Estimate(sums, evaluator.combine, estimate.pooling)
    size = max(abs(found.value), abs(reward).max())
    if found.standard_error > 1e-15 * size:
        return found, []
    (w, _, q, _), omega = rows.numbers, rows.design.omega
    w = w if omega is None else np.where(omega > 0, w, 0.0)
    residual = reward if q is None else reward - q
    if not evaluator.requires.weights or not is_drowned(w, residual, size):
        return estimate, []
    return estimate.without_error(), [drowned_finding(rows.logs, w).warning()]


def _reach(evaluator, summary, log):
    """Return what finds how far the value of a round may lie from the estimate."""
    counts, weighted = summary.counts, evaluator.requires.weights
    return LargestDeviation(
        evaluator,
        known_range(log) if log is not None and keeps_range(evaluator) else None,
        summary.ends,
        0.0 if log is None else known_shift(log),
        counts.reward_range,
        summary.overlap.missing_mass if weighted else 0.0,
        summary.weighted,
        summary.bound,
        None if summary.job is None else summary.job.kept.n,
        counts.weights,
        float(summary.tally.largest.max()) if weighted else inf,
    )

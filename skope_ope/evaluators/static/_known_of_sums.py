# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What a value of a static evaluator is told beside its estimate, from merged sums."""

from functools import partial
from math import isfinite, isnan, nan
from types import SimpleNamespace

import numpy as np

from skope_ope.evaluators.core._drowned import huge_finding, lost_finding
from skope_ope.evaluators.core._engine import known_shift
from skope_ope.evaluators.core._largest_deviation import LargestDeviation
from skope_ope.evaluators.core._overlap import weight_entries
from skope_ope.evaluators.core._support_findings import support_findings
from skope_ope.evaluators.core._warnings import (
    learning_warnings,
    propensity_warnings,
    unformed_warning,
    warnings_of,
)
from skope_ope.evaluators.core._weight_findings import overlap_findings
from skope_ope.logs._known_range import known_range
from skope_ope.logs._propensity_audit import action_count_z


def known_of_sums(evaluator, summary, log):
    """Return the estimate, and what a value is told beside it, by name."""
    estimate, overlap = summary.estimate(), summary.overlap
    warned, beyond = [], []
    logged_only = not summary.tally.table
    if evaluator._uses_weights and evaluator._is_huge(overlap):
        formed = isfinite(estimate.value)
        beyond = [huge_finding(overlap.max_w, log, formed).warning()]
        estimate = estimate.without_error() if formed else estimate.without_value()
    elif _has_lost_its_error(estimate):
        beyond = [lost_finding().warning()]
    if evaluator._uses_weights:
        target = SimpleNamespace(logged_only=logged_only, array=None)
        uses_model = evaluator._uses_model
        warned = warnings_of(overlap_findings(overlap, log, target, uses_model))
        if log is not None:
            warned += propensity_warnings(log) + learning_warnings(log)
    else:  # a model extrapolates to what was never logged
        warned = warnings_of(support_findings(overlap, log))
        overlap = None
    if isnan(estimate.value) and not beyond:
        warned.append(unformed_warning(evaluator))
    warned += beyond
    warned += evaluator._own_warnings_of_sums(summary, estimate)
    return estimate, {
        "effective_sample_size": nan
        if overlap is None
        else overlap.effective_sample_size,
        "diagnostics": partial(_entries, evaluator, summary, overlap, log),
        "warnings": warned,
        "reach": _reach(evaluator, summary, overlap, log),
    }


def _has_lost_its_error(estimate):
    """Whether nothing but the rounding of squares hides the error of a value."""
    unknown = isfinite(estimate.value) and isnan(estimate.standard_error)
    return estimate.lost and unknown and not estimate.rests_on_one


def _entries(evaluator, summary, overlap, log):
    """Return the diagnostics that sums tell, by name."""
    found = {"n_rounds": summary.n}
    if evaluator._weight_kind != "plain":  # several loggers may have acted
        found |= _of_loggers(evaluator, summary.sums)
    if overlap is not None:
        found |= weight_entries(overlap) | {
            "unsupported_mass": overlap.missing_mass if summary.tally.table else nan,
            "overlap_chi2": overlap.sum_w2 / overlap.n - 1,
        }
        if log is not None:
            found["inverse_propensity_z"] = lambda: log._inverse_propensity_z
            if log._action_count_law is not None:
                found["action_count_z"] = lambda: action_count_z(log)
    if evaluator._uses_model:
        found["model_error_included"] = bool(evaluator._uses_weights)
    frame = summary.sums.frame
    if frame.clustered:
        exact = frame.n_buckets is None
        found["clusters"] = (
            "exact groups" if exact else f"{frame.n_buckets} hash buckets"
        )
    return found


def _of_loggers(evaluator, sums):
    """Return how many rounds the loggers have, and what they count."""
    frame, labels = sums.frame, sums.frame.strata
    shares = evaluator._pooling_of_parts(frame)(sums.mass, frame.units).weight
    shares = np.atleast_1d(shares * sums.mass)
    count = frame.count.astype(int).tolist()
    return {
        "logger_rounds": dict(zip(labels, count, strict=True)),
        "logger_shares": dict(
            zip(labels, (shares / shares.sum()).tolist(), strict=True)
        ),
    }


def _reach(evaluator, summary, overlap, log):
    """Return what finds how far the value of a round may lie from the estimate."""
    return LargestDeviation(
        evaluator,
        None if log is None else known_range(log),
        summary.ends,
        0.0 if log is None else known_shift(log),
        summary.counts.reward_range,
        0.0 if overlap is None else overlap.missing_mass,
        summary.weighted,
        summary.limits,
    )

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Which interval a value has, and the alarms that go with it."""

from functools import partial
from math import isnan, nan, sqrt

from skope_ope._renamed import renamed_value
from skope_ope.evaluators.core._plain_weights import KNOWN_WEIGHTS, bounded_interval
from skope_ope.evaluators.core._reach import Reach
from skope_ope.exceptions import FewEventsWarning, PropensityWarning, TailWarning
from skope_ope.intervals import (
    ConfidenceInterval,
    normal_interval,
    student_interval,
)
from skope_ope.intervals._gamma import gamma_limits

ASYMPTOTIC = ("empirical_likelihood", "cressie_read")  # of those with bounds
FEW_EVENTS = 10  # effective ones, below which an interval rests on its assumptions
NEGLIGIBLE = 0.25  # bound of a round value, in standard errors of the sum of all
HIGH_SKEWNESS = 0.25  # G of the round values: 16 effective events
NEARLY_ALL = 0.8  # of the range of the rewards


def interval_of(value, level, method, max_weight):
    """Return the `ConfidenceInterval` of a `PolicyValue`, see its method."""
    if not 0 < level < 1:
        raise ValueError(f"level must lie in (0, 1), got {level}.")
    method = renamed_value("method", method, {"clopper-pearson": "clopper_pearson"})
    if method not in METHODS:
        known = ", ".join(map(repr, METHODS))
        raise ValueError(f"method must be one of {known}, got {method!r}.")
    return METHODS[method](value, level, max_weight)


def _auto(value, level, max_weight):
    """Gamma limits where the range is known and rounds may be large, else Student's."""
    if isnan(value.value):
        return _of_nothing(value, level)
    if isnan(value.standard_error):
        return _student(value, level)
    deviations = value._deviations
    if not _is_spread(value, deviations):  # of parts, say: these are few and alike
        reach = None if value._limits is None else Reach(*value._limits)
        return _student(value, level, reach, _tail_warnings(value, deviations))
    reach = value._reach(max_weight)
    if reach is None or isnan(reach.up):
        return _student(value, level, reach, _tail_warnings(value, deviations))
    spread = sqrt(deviations.n * (deviations.n - 1)) * value.standard_error
    # of a round, or of what a group brought
    largest = max(reach.up, reach.down, deviations.largest, -deviations.least)
    if largest <= NEGLIGIBLE * spread:
        return _student(value, level, reach)
    return _paired_gamma(value, level, reach)


def _gamma(value, level, max_weight):
    """Gamma limits, where all that they need is known."""
    if isnan(value.value):
        return _of_nothing(value, level)
    reach = value._reach(max_weight)
    if reach is None or isnan(reach.up):
        raise ValueError(
            "method='gamma' needs the range of the rewards: build the logs with "
            "reward_range=(low, high). It is for means and ratios of weighted rewards "
            f"of independent rounds; this value is one of {value.estimator}."
        )
    if reach.source is not None and reach.source not in KNOWN_WEIGHTS:
        raise ValueError(
            "method='gamma' needs a bound on the importance weights, and the logs "
            "tell none: pass max_weight=..., or logging_proba=... with the logs. "
            f"method='auto' takes {reach.max_weight:.6g}, from the {reach.source}."
        )
    return _paired_gamma(value, level, reach)


def _paired_gamma(value, level, reach):
    deviations, freedom = value._deviations, value.degrees_of_freedom
    low, high = gamma_limits(
        value.value, deviations, reach.up, reach.down, level, freedom
    )
    low, high, warned = _within(low, high, reach)
    return ConfidenceInterval(
        low,
        high,
        level,
        "gamma",
        reach.max_weight,
        reach.source,
        (reach.low, reach.high),
        [*warned, *_few_events_warnings(deviations.effective_events, low, high, reach)],
    )


def _student(value, level, reach=None, warned=()):
    low, high = student_interval(
        value.value, value.standard_error, value.degrees_of_freedom, level
    )
    if reach is None:
        return ConfidenceInterval(low, high, level, "student", warnings=warned)
    low, high, outside = _within(low, high, reach)
    limits = reach.low, reach.high
    return ConfidenceInterval(
        low,
        high,
        level,
        "student",
        reward_range=limits,
        warnings=[*outside, *warned],
    )


def _plain_student(value, level, max_weight):
    return _student(value, level)


def _normal(value, level, max_weight):
    low, high = normal_interval(value.value, value.standard_error, level)
    return ConfidenceInterval(low, high, level, "normal")


def _bounded(method, value, level, max_weight):
    """Limits from the bounds of weights and rewards."""
    found = bounded_interval(value, method, level, max_weight)
    low, high, warned = _within(found.low, found.high, Reach(*found.reward_range))
    if method in ASYMPTOTIC and not isnan(value.value):
        warned += _asymptotic_warnings(method, value._deviations.effective_events)
    return ConfidenceInterval(
        low,
        high,
        level,
        method,
        found.max_weight,
        found.source,
        found.reward_range,
        warned,
    )


def _asymptotic_warnings(method, events):
    if events >= FEW_EVENTS:
        return []
    text = (
        f"the coverage of method={method!r} holds for many rounds, and this value "
        f"rests on {events:.1f} effective events. Use 'auto' or 'betting'."
    )
    return [FewEventsWarning(text, events)]


METHODS = {
    "auto": _auto,
    "gamma": _gamma,
    "student": _plain_student,
    "normal": _normal,
    **{
        method: partial(_bounded, method)
        for method in ("clopper_pearson", "betting", *ASYMPTOTIC)
    },
}


def _of_nothing(value, level):
    """Return the interval of a value that cannot be formed: all that is possible."""
    limits = value._limits
    if limits is None:
        return ConfidenceInterval(nan, nan, level, "student")
    warned = FewEventsWarning(
        "the logged rounds say nothing of the policy: the interval is the whole range "
        f"{limits[0]:.4g} to {limits[1]:.4g}.",
        0.0,
    )
    return ConfidenceInterval(
        *limits, level, "gamma", reward_range=limits, warnings=[warned]
    )


def _is_spread(value, deviations):
    """Whether the standard error is the spread of the round values."""
    n, error = deviations.n, value.standard_error
    variance = (deviations.up_square + deviations.down_square) / (n * (n - 1))
    return value.independent_rounds and abs(variance - error**2) <= 1e-6 * error**2


def _within(low, high, reach):
    """Return limits that stay in the range, and a warning where they lay beyond it."""
    inside = [min(max(limit, reach.low), reach.high) for limit in (low, high)]
    if low <= reach.high and high >= reach.low:
        return *inside, []
    warned = PropensityWarning(
        f"the whole interval, {low:.4g} to {high:.4g}, lies outside the range of the "
        f"rewards, {reach.low:.4g} to {reach.high:.4g}: the propensities or the range "
        "are wrong, or the rounds are too few for their weights.",
        low if low > reach.high else high,
    )
    return *inside, [warned]


def _few_events_warnings(events, low, high, reach):
    if events >= FEW_EVENTS:
        return []
    whole = reach.high - reach.low
    text = (
        f"the interval rests on {events:.1f} effective events: it holds if the range "
        f"of the rewards, {reach.low:.4g} to {reach.high:.4g},"
    )
    if reach.max_weight is None:
        text += " is right."
    else:
        text += f" and the largest weight, {reach.max_weight:.4g} ({reach.source}),"
        text += " are right."
    if high - low >= NEARLY_ALL * whole:
        text += " It is nearly the whole range: the logs cannot tell."
    return [FewEventsWarning(text, events)]


def _tail_warnings(value, deviations):
    """Warn where a few rounds, or none, make the spread behind Student's interval."""
    skewness = deviations.skewness
    known = value._limits is not None
    if isnan(skewness) or value.standard_error == 0:
        alike = "round values" if isnan(skewness) else "parts"
        text = (
            f"all {alike} are alike: the interval has no width, for nothing tells what "
            "other rounds would bring. "
        )
        text += (
            f"{value.estimator} cannot allow for them, though the range of the rewards "
            "is known: take another evaluator, or collect more rounds."
            if known
            else "State reward_range=(low, high) with the logs, and the interval will "
            "allow for them."
        )
        return [TailWarning(text, skewness)]
    if skewness <= HIGH_SKEWNESS:
        return []
    text = (
        f"few rounds make most of the spread (skewness {skewness:.2f}, as of "
        f"{1 / skewness**2:.1f} events): the interval may miss the value more often "
        "than it says. "
    )
    text += (
        "Collect more rounds."
        if known
        else "State reward_range=(low, high) with the logs where the rewards have one, "
        "or collect more rounds."
    )
    return [TailWarning(text, skewness)]

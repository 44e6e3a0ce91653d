# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Which interval a value has, and the alarms that go with it."""

from dataclasses import replace
from functools import partial
from math import inf, isnan, nan, sqrt
from numbers import Real

from skope_ope._texts import meant
from skope_ope.evaluators.core._bootstrap import jackknife_error, resampled_values
from skope_ope.evaluators.core._drowned import beyond_floats
from skope_ope.evaluators.core._implied_weights import further
from skope_ope.evaluators.core._plain_weights import (
    BOUNDED,
    KNOWN_WEIGHTS,
    WEIGHT_BOUNDED,
    bounded_interval,
)
from skope_ope.evaluators.core._reach import (
    Reach,
    implied_of,
    of_seen_rewards,
    without_model,
)
from skope_ope.evaluators.core._warnings import outside_warnings
from skope_ope.exceptions import (
    FewEventsWarning,
    PropensityWarning,
    TailWarning,
)
from skope_ope.intervals import (
    ConfidenceInterval,
    normal_interval,
    student_interval,
)
from skope_ope.intervals._confidence_interval import check_level
from skope_ope.intervals._gamma import gamma_limits
from skope_ope.logs._shown_numbers import figure

RESAMPLED = ("bootstrap", "percentile")
ASYMPTOTIC_METHODS = ("empirical_likelihood", "cressie_read")  # of those with bounds
FEW_EVENTS = 10  # effective ones, below which an interval rests on its assumptions
NEGLIGIBLE_ROUND = 0.25  # bound of a round value, in standard errors of the sum of all
HIGH_SKEWNESS = 0.22  # of the round values on one side: 20 effective events
LEAST_DEVIATION = 1e-10  # of the largest round value: a smaller spread is none
FAR_OUT = 2  # standard errors by which a single round may move the value
NEARLY_ALL = 0.8  # of the range of the rewards
UNTOLD = "tail_of_sums"  # merged sums leave open whether events are few


def interval_of(value, level, method, **options):
    """Return the `ConfidenceInterval` of a `PolicyValue`, see its method."""
    [found] = intervals_of([value], level, method, **options)
    return found


def intervals_of(values, level, method, random_state=0, **options):
    """Return the `ConfidenceInterval` of every `PolicyValue`."""
    # Options that are None were not given; a method refuses those that it does not use.
    # Resamples are those of all values.
    check_level(level)
    given = {name: option for name, option in options.items() if option is not None}
    method = checked_method(method, given)
    if method not in RESAMPLED:
        made = METHODS[method]
        with beyond_floats():
            return [
                (_of_nothing if one._extreme else made)(one, level, **given)
                for one in values
            ]
    formed = [value for value in values if _is_formed(value)]
    given |= {"studentized": method == "bootstrap", "random_state": random_state}
    found = iter(resampled_values(formed, level, **given))
    return [
        _of_resamples(value, next(found), level, method)
        if _is_formed(value)
        else _of_nothing(value, level)
        for value in values
    ]


def _is_formed(value):
    return not isnan(value.value) and value._extreme is None


def one_sided(value, level, method, **options):
    """Return the interval whose ends are one-sided bounds."""
    # An end of the two-sided interval misses the value with the probability of one
    # tail: that at 2 level - 1 is the one-sided bound at `level`.
    check_level(level)
    if level <= 0.5:
        raise ValueError(
            f"level of a one-sided bound must lie in (0.5, 1), got {level!r}: at 0.5 "
            "it would be the estimate itself, and below that on its other side."
        )
    return interval_of(value, 2 * level - 1, method, **options)


def checked_method(method, given):
    """Return the name of a method as it is today."""
    # Raise if there is none, or if it does not use an option that was given.
    if not isinstance(method, str) or method not in METHOD_NAMES:
        known = ", ".join(map(repr, METHOD_NAMES))
        raise ValueError(
            f"method must be one of {known}, got {method!r}."
            f"{meant(method, METHOD_NAMES)}"
        )
    for name in given:
        if name not in USERS:
            known = ", ".join([*USERS, "random_state"])
            hint = meant(name, USERS)
            raise TypeError(f"intervals take no {name!r}; they take {known}.{hint}")
        if method not in USERS[name]:
            known = ", ".join(map(repr, USERS[name]))
            raise ValueError(
                f"method={method!r} does not use {name}, which is for {known}. Leave "
                "it out, or use one of these methods."
            )
    if not isinstance(given.get("max_weight", 1.0), Real):
        found = given["max_weight"]
        raise ValueError(f"max_weight must be a positive number, got {found!r}.")
    return method


def _auto(value, level, max_weight=None):
    """Gamma limits where the range is known and rounds may be large, else Student's."""
    if isnan(value.value):
        return _of_nothing(value, level)
    if isnan(value.standard_error):
        # of one round or one group; the rounds of a policy that learns tell less
        alone = value._independent_rounds and value._limits is not None
        return _of_nothing(value, level) if alone else _student(value, level)
    if not (value._is_of_halves or _is_spread(value, value._deviations)):
        # of parts, say: these are few and alike
        reach = None if value._limits is None else Reach(*value._limits)
        return _student(value, level, reach, _tail_warnings(value))
    reach = value._reach(max_weight)
    if reach is None or isnan(reach.up) or value._deviations is None:
        warned = _tail_warnings(value, of_seen_rewards(value))
        implied = implied_of(value) if reach is None else ()
        return _student(value, level, reach, warned, implied)
    if max(_largest(value._deviations, reach)) <= NEGLIGIBLE_ROUND * _spread(value):
        return _student(value, level, reach)
    found = _paired_gamma(value, level, reach)
    if _events(value, reach) >= FEW_EVENTS:
        return found
    # with few events a reward model rests on the same ones, and its errors and those
    # of the correction are not independent
    other = without_model(value)
    return found if other is None else _hull(found, other)


def _spread(value):
    """Return the root of the sum of squares of the deviations of the round values."""
    return sqrt(value.n_rounds * max(value.n_rounds - 1, 1)) * value.standard_error


def _events(value, reach):
    """Return the effective events on the side that has fewer of them."""
    # Of the sides where a round that was not seen may be large.
    found = value._deviations
    pairs = zip(found.events, _largest(found, reach), strict=True)
    large = NEGLIGIBLE_ROUND * _spread(value)
    return min((events for events, size in pairs if size > large), default=inf)


def effective_events(value):
    """Return the effective number of events of a value, NaN where it is not known."""
    reach = value._reach()
    if reach is not None and not isnan(reach.up) and value._deviations is not None:
        return _events(value, reach)
    if value._is_of_halves and reach is not None:
        return nan  # of predictions alone
    found = value._deviations_of_rounds if value._is_of_halves else value._deviations
    return nan if found is None else found.effective_events


def _hull(found, other):
    """Return an interval that holds that of another value, too."""
    other = other._interval(found.level)
    low, high = min(found.low, other.low), max(found.high, other.high)
    about = found.max_weight, found.max_weight_from, found.reward_range
    return ConfidenceInterval(
        low, high, found.level, found.method, *about, found.warnings
    )


def _largest(deviations, reach):
    """Get the largest deviation upwards and downwards that may not have been seen."""
    # That of a round. Of groups it is the largest that was seen, or, with fewer than
    # ten effective ones, what a typical group would bring whose rounds are all alike.
    up, down = max(reach.up, deviations.largest), max(reach.down, -deviations.least)
    events_up, events_down = deviations.events
    if events_up < FEW_EVENTS:
        up = max(up, reach.of_group[0])
    if events_down < FEW_EVENTS:
        down = max(down, reach.of_group[1])
    return up, down


def _gamma(value, level, max_weight=None):
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
            "give none: pass max_weight=..., or logging_proba=... with the logs. "
            f"method='auto' takes {figure(reach.max_weight)}, from the {reach.source}."
        )
    if isnan(value.standard_error):  # of one round or one group
        return _of_nothing(value, level)
    if value._deviations is None:
        raise ValueError(
            "method='gamma' needs to know how the rounds spread above and below the "
            "value, and these merged sums do not show it. Use method='student', or "
            "evaluate the rounds in memory."
        )
    return _paired_gamma(value, level, reach)


def _paired_gamma(value, level, reach):
    deviations, freedom = value._deviations, value.degrees_of_freedom
    up, down = _largest(deviations, reach)
    low, high = gamma_limits(value.value, deviations, up, down, level, freedom)
    low, high, warned = _within(low, high, reach, value.value)
    return ConfidenceInterval(
        low,
        high,
        level,
        "gamma",
        reach.max_weight,
        reach.source,
        (reach.low, reach.high),
        [*warned, *_few_events_warnings(value, low, high, reach)],
    )


def _student(value, level, reach=None, warned=(), implied=()):
    low, high = student_interval(
        value.value, value.standard_error, value.degrees_of_freedom, level
    )
    if reach is None:
        low, high, missing = further(implied, low, high, value.value)
        warned = [*missing, *warned]
        return ConfidenceInterval(low, high, level, "student", warnings=warned)
    low, high, outside = _within(low, high, reach, value.value)
    limits = reach.low, reach.high
    return ConfidenceInterval(
        low,
        high,
        level,
        "student",
        reward_range=limits,
        warnings=[*outside, *warned],
    )


def _plain_student(value, level):
    return _student(value, level, warned=_no_width_warnings(value))


def _normal(value, level):
    low, high = normal_interval(value.value, value.standard_error, level)
    warned = _no_width_warnings(value)
    return ConfidenceInterval(low, high, level, "normal", warnings=warned)


def _jackknife(value, level):
    error = jackknife_error(value)
    found = student_interval(value.value, error, value.degrees_of_freedom, level)
    warned = _no_width_warnings(value)
    return ConfidenceInterval(*found, level, "jackknife", warnings=warned)


def _no_width_warnings(value):
    """Warn of an interval without width, by a method that has no other."""
    if value.standard_error != 0:
        return []
    text = (
        "the standard error is 0, so the interval has no width, and the error of the "
        "value is not known. Use method='auto', which allows for other rewards if "
        "their range is known."
    )
    return [TailWarning(text, nan)]


def _bounded(method, value, level, **options):
    """Limits from the bounds of weights and rewards."""
    found = bounded_interval(value, method, level, **options)
    reach = Reach(*found.reward_range)
    if method != "log_smoothing":  # which holds for what is lost, too
        reach = replace(reach, lost=getattr(value._find_reach, "lost", 0.0))
    low, high, warned = _within(found.low, found.high, reach, value.value, proven=True)
    if method in ASYMPTOTIC_METHODS and not isnan(value.value):
        warned += _asymptotic_warnings(method, effective_events(value))
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


NO_RESAMPLE = FewEventsWarning(
    "no resample has a value and a spread, so the limits are NaN. Use 'auto'.", 0.0
)


def _of_resamples(value, found, level, method):
    """Return the `ConfidenceInterval` of a `ResampledValue`."""
    studentized = method == "bootstrap"
    low, high = found.found.limits(value.value, level, studentized)
    if not low < high:
        warned = [NO_RESAMPLE] if isnan(low) else _tail_warnings(value)
        return ConfidenceInterval(low, high, level, method, warnings=warned)
    dropped = found.found.n_dropped if studentized else 0
    warned = _asymptotic_warnings(method, found.effective_events, dropped)
    return ConfidenceInterval(low, high, level, method, warnings=warned)


def _asymptotic_warnings(method, events, dropped=0):
    if events >= FEW_EVENTS:
        return []
    text = (
        f"the coverage of method={method!r} holds for many rounds, and this value "
        f"rests on {events:.1f} effective events. "
    )
    if dropped:
        text += f"{dropped:,} resamples without a spread were left out. "
    return [FewEventsWarning(text + "Use 'auto' or 'betting'.", events)]


METHODS = {
    "auto": _auto,
    "gamma": _gamma,
    "student": _plain_student,
    "normal": _normal,
    "jackknife": _jackknife,
    **{method: partial(_bounded, method) for method in BOUNDED},
}
METHOD_NAMES = (*METHODS, *RESAMPLED)
USERS = {  # which methods use an option
    "max_weight": ("auto", "gamma", *WEIGHT_BOUNDED),
    "n_resamples": RESAMPLED,
    "n_jobs": RESAMPLED,
    "block_length": RESAMPLED,
}


def _of_nothing(value, level, **given):
    """Return the interval of a value that cannot be formed: all that is possible."""
    limits, extreme = value._limits, value._extreme
    if limits is None or extreme is not None:
        warned = () if extreme is None else (extreme,)
        return ConfidenceInterval(nan, nan, level, "student", warnings=warned)
    lacking = "have no information on the policy"
    if not isnan(value.value):
        lacking = "do not show how large the error of the value is"
    warned = FewEventsWarning(
        f"the logged rounds {lacking}: the interval is the whole range "
        f"{figure(limits[0])} to {figure(limits[1])}.",
        0.0,
    )
    return ConfidenceInterval(
        *limits, level, "gamma", reward_range=limits, warnings=[warned]
    )


def _is_spread(value, deviations):
    """Whether the standard error is the spread of the round values."""
    if deviations is None or isnan(deviations.third):
        return True  # sums gave both
    n, error = deviations.n, value.standard_error
    variance = (deviations.up_square + deviations.down_square) / (n * (n - 1))
    size = max(abs(value.value), deviations.largest, -deviations.least)
    noise = (LEAST_DEVIATION * size) ** 2
    return value._independent_rounds and abs(variance - error**2) <= max(
        1e-6 * error**2, noise
    )


def _within(low, high, reach, value, proven=False):
    """Return limits that stay in the range, and a warning where the value does not."""
    # Decisions of which the logs tell nothing may bring anything in the range. Cut to
    # the range, the limits of a value beyond it would seem the surer the further out it
    # is: they reach as far from the nearest value that can be, unless they are
    # `proven`.
    unknown = reach.lost * (reach.high - reach.low)
    low, high = low - unknown, high + unknown
    missing = []
    if not proven:
        low, high, missing = further(reach.implied, low, high, value)
    if low > reach.high or high < reach.low:
        text = (
            f"both limits, {figure(low)} to {figure(high)}, lie outside the range of "
            f"the rewards, {figure(reach.low)} to {figure(reach.high)}. The interval "
            "is the whole range. Either the propensities or the range are wrong, or "
            "there are too few rounds for such weights."
        )
        return reach.low, reach.high, [*missing, PropensityWarning(text, value)]
    move = 0.0 if proven or isnan(value) else _inside(value, reach) - value
    inside = [_inside(low + min(move, 0.0), reach), _inside(high + max(move, 0), reach)]
    outside = outside_warnings(value, (reach.low, reach.high))
    return *inside, [*missing, *outside]


def _inside(limit, reach):
    return min(max(limit, reach.low), reach.high)


def _few_events_warnings(value, low, high, reach):
    events = _events(value, reach)
    if events >= FEW_EVENTS:
        return []
    whole = reach.high - reach.low
    text = (
        f"the interval rests on {events:.1f} effective events: it holds if the range "
        f"of the rewards, {figure(reach.low)} to {figure(reach.high)},"
    )
    if reach.max_weight is None:
        text += " is right."
    else:
        text += f" and the largest weight, {figure(reach.max_weight)} ({reach.source}),"
        text += " are right."
    if high - low >= NEARLY_ALL * whole:
        text += " It is nearly the whole range: the logs cannot answer."
    return [FewEventsWarning(text, events)]


def _skewness(value, spread):
    """Return the skewness of the round values, or a bound of it that is no alarm."""
    # NaN: they are all alike; None: it is not known.
    if value._is_of_halves:
        if not spread > 0:
            return nan
        if value._limits is not None:
            return 0.0  # a model knows no rewards beyond them
        seen = of_seen_rewards(value, few=0)
        if seen is not None and max(seen.up, seen.down) <= HIGH_SKEWNESS * spread:
            return max(seen.up, seen.down) / spread
    found = value._skewness
    alike = spread == 0 and value._independent_rounds
    return nan if found is None and alike else found


def _tail_warnings(value, seen=None):
    """Warn where a few rounds, or none, make the spread behind Student's interval."""
    # Or would make it: those of `seen`, the `Reach` of the rewards of the whole log.
    known, name = value._limits is not None, None
    spread = _spread(value)
    skewness = _skewness(value, spread)
    if skewness is not None and (isnan(skewness) or value.standard_error == 0):
        alike = "round values" if isnan(skewness) else "parts"
        text = (
            f"all {alike} are alike, so the interval has no width, and the error of "
            "the value is not known. "
        )
        text += (
            f"{value.estimator} cannot use the range of the rewards, though it is "
            "known: use another evaluator, or collect more rounds."
            if known
            else "Give reward_range=(low, high) with the logs, and the interval "
            "allows for other rewards. Leave it out if rewards have no bounds."
        )
        return [TailWarning(text, skewness)]
    if skewness is None:
        text = (
            "merged sums do not show whether a few rounds make most of the spread. The "
            "interval may miss the true value more often than its level says. "
        )
        skewness, name = nan, UNTOLD
    elif skewness > HIGH_SKEWNESS:
        text = (
            f"few rounds make most of the spread (skewness {skewness:.2f}, as of "
            f"{1 / skewness**2:.1f} events). The interval may miss the true value "
            "more often than its level says. "
        )
    elif seen is not None and max(seen.up, seen.down) > FAR_OUT * spread:
        text = (
            "one more round with the largest weight and the most extreme reward of "
            "the log would move the value by more than two standard errors. Too few "
            "rounds have the policy's actions to show the tail of the rewards. "
        )
    else:
        return []
    text += (
        "Collect more rounds."
        if known
        else "Give reward_range=(low, high) with the logs if the rewards have a "
        "range. Leave it out if they have no bounds, and collect more rounds."
    )
    return [TailWarning(text, skewness, name)]

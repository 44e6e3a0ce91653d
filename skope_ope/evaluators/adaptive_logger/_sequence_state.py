# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What a confidence sequence knows of the rounds so far, and takes from a part.

Parts of a log arrive one after the other: in time order, each row once.
"""

from copy import copy, deepcopy
from math import isnan
from numbers import Real
from typing import NamedTuple

import numpy as np

from skope_ope.evaluators.core._engine import EXTRACT_WEIGHTS, Extract, terms_of
from skope_ope.evaluators.core._rounds import PositiveRounds, combined_weights
from skope_ope.evaluators.core._target import Target, refuse_learning
from skope_ope.evaluators.core._warnings import learned_warnings
from skope_ope.evaluators.core._weight_bound import stated_weight
from skope_ope.exceptions import (
    LogsWarning,
    PropensityWarning,
    RowError,
    SupportWarning,
    TailWarning,
)
from skope_ope.intervals import ConfidenceInterval
from skope_ope.intervals._sequences import (
    AsymptoticBounds,
    WeightedLimits,
    running_sums,
)
from skope_ope.logs import BanditLogs
from skope_ope.logs._row_container import known_range
from skope_ope.logs.checks._propensity_sums import estimating_step
from skope_ope.reward_models._sources import reward_source

ASYMPTOTIC = "asymptotic"
NAME = "ConfidenceSequence"
LOGGER_BASELINE = "logger"
_ROBUST = Extract(lambda rounds: (rounds.w, rounds.v, rounds.q))
WEIGHT_LEVEL = 0.9999  # of the sequence of mean weights: it rings in one log of 10,000
HIGH_SKEWNESS_OF_MEAN = 0.22  # of the mean of the terms: that of 20 events
ROUNDING_OF_MEANS = 1e-9
ORDER = (
    "A confidence sequence takes rounds in the order they were logged. Sort the "
    "log by time before you cut it into parts."
)


class SequenceState:
    """What a confidence sequence knows of the rounds so far, and takes from a part.

    Parts of a log arrive one after the other: in time order, each row once.
    """

    def __init__(self, sequence):
        sequence._validate_params()
        check_stream_model(sequence)
        self.parameters = sequence.get_params(deep=False)
        self.order = StreamOrder()
        self.reward_range = self.limits = None
        self.weights = AsymptoticBounds(WEIGHT_LEVEL)
        self.baseline_weights = AsymptoticBounds(WEIGHT_LEVEL)
        self.total = 0.0
        self.warnings = []
        self.greatest_low, self.least_high = -np.inf, np.inf
        self.intervals = None

    def __getstate__(self):
        state = self.__dict__.copy()
        interval = state.get("interval")
        if interval is not None:  # skops keeps the two limits of one, and no more
            state["interval"] = tuple(interval), vars(interval)
        return state

    def __setstate__(self, state):
        self.__dict__.update(state)
        if state.get("interval") is not None:
            limits, about = state["interval"]
            self.interval = ConfidenceInterval(*limits, **about)

    def copy(self):
        """Return a state that can be given up if a part turns out to be wrong."""
        out = copy(self)
        out.limits, out.weights = deepcopy((self.limits, self.weights))
        out.baseline_weights = deepcopy(self.baseline_weights)
        out.warnings = list(self.warnings)
        return out

    def check_parameters(self, sequence):
        """Raise if parameters were changed since the first part."""
        changed = [
            name
            for name, value in sequence.get_params(deep=False).items()
            if not _same_parameter(value, self.parameters[name])
        ]
        if changed:
            raise ValueError(
                f"{', '.join(changed)} changed after the first part. A confidence "
                "sequence keeps its parameters. Start a new one: clone(sequence)."
            )

    def take(self, sequence, logs, policy, place=None):
        """Take a part and return the warnings that are new."""
        order = self.order.after(logs, place)
        self.reward_range = self._range_with(sequence, logs)
        terms = round_terms(sequence, logs, policy)
        if self.limits is None:
            self.limits = self._new_limits(sequence)
        before, n = self.order.n, len(logs)
        after, kept = _after(before, n, sequence.every)
        totals = running_sums(self.total, terms.z)
        estimates, self.total = totals[after] / (before + after), float(totals[-1])
        if sequence.method == ASYMPTOTIC:
            low, high = self.limits.take(terms.z, after)
            if self.reward_range is not None:
                ends = _range_of_terms(self.reward_range, sequence.baseline)
                low, high = np.clip(low, *ends), np.clip(high, *ends)
        else:
            low, high = self.limits.take(terms.weight, logs.reward, after)
        means = self._mean_weights(terms, sequence.baseline)
        self.order = order
        found = learned_warnings(policy, logs)
        if is_policy(sequence.baseline):
            found += learned_warnings(sequence.baseline, logs)
        for who, low_weight, high_weight in means:
            found += _mean_weight_warnings(who, low_weight, high_weight, sequence)
        if not any(isinstance(one, SupportWarning) for one in (*self.warnings, *found)):
            found += _agreement_warnings(low, sequence.method)
        if sequence.method == ASYMPTOTIC and self.limits.n >= sequence.start:
            found += _skewness_warnings(self.limits.skewness)
        low, high, changed = self._together(low, high, sequence)
        found += changed
        known = {type(one) for one in self.warnings}
        new = [one for one in found if type(one) not in known]
        self.warnings += new
        self.estimate = float(estimates[-1])
        self._keep(logs, after[kept], before, low[kept], high[kept], estimates[kept])
        bound = _weight_in_use(sequence)
        self.interval = ConfidenceInterval(
            low[-1],
            high[-1],
            sequence.level,
            sequence.method,
            max_weight=bound,
            max_weight_from=None if bound is None else "stated",
            reward_range=self.reward_range,
            warnings=self.warnings,
        )
        return new

    def _mean_weights(self, terms, baseline):
        """Return whose weights are known, and limits of their mean."""
        weights = [("policy", self.weights, terms.policy_weight)]
        if is_policy(baseline):
            other = terms.policy_weight - terms.weight
            weights.append(("baseline", self.baseline_weights, other))
        last = np.array([len(terms.weight)])
        means = [(who, bounds.take(w, last)) for who, bounds, w in weights]
        return [(who, float(low[0]), float(high[0])) for who, (low, high) in means]

    def _range_with(self, sequence, logs):
        """Return the range of the rewards of all parts so far."""
        needed, before = sequence.method != ASYMPTOTIC, self.reward_range
        if self.order.n == 0:
            found = known_range(logs)
            if found is None and needed:
                raise ValueError(
                    f"method={sequence.method!r} needs the range of the rewards. "
                    "Build the logs with reward_range=(low, high), such as (0, 1) "
                    "for clicks, or use method='asymptotic'."
                )
            return found
        if before is None:
            return None
        if logs.reward_range is not None:
            found = known_range(logs)
            if found != before and needed:
                raise ValueError(
                    f"these logs have reward_range={found}, those before have "
                    f"{before}. Give the same range with all parts."
                )
            return before if found == before else None
        low, high = before
        outside = np.flatnonzero((logs.reward < low) | (logs.reward > high))
        if outside.size and needed:
            raise RowError(
                f"the reward {logs.reward[outside[0]]:.6g} lies outside the range "
                f"[{low:.6g}, {high:.6g}] of the parts before",
                outside[0],
                ". Give reward_range=(low, high) with the logs of all parts.",
            )
        return None if outside.size else before

    def _new_limits(self, sequence):
        if sequence.method == ASYMPTOTIC:
            return AsymptoticBounds(sequence.level, sequence.start)
        bound = None
        if sequence.baseline is not None:
            bound = 1.0 if is_logger(sequence.baseline) else sequence.max_weight
        return WeightedLimits(
            sequence.method,
            sequence.level,
            self.reward_range,
            sequence.max_weight,
            bound,
        )

    def _together(self, low, high, sequence):
        """Return intervals, intersected where wanted, and a warning if none agrees."""
        lows = np.fmax.accumulate(np.concatenate([[self.greatest_low], low]))[1:]
        highs = np.fmin.accumulate(np.concatenate([[self.least_high], high]))[1:]
        self.greatest_low, self.least_high = float(lows[-1]), float(highs[-1])
        apart = lows > highs
        if sequence.intersect:
            known = ~np.isnan(low)
            low = np.where(known & ~apart, lows, np.nan)
            high = np.where(known & ~apart, highs, np.nan)
        if not apart.any():
            return low, high, []
        text = (
            "the value changed along the log: no value lies in all intervals so "
            f"far. One interval starts at {lows[-1]:.6g} and another ends at "
            f"{highs[-1]:.6g}. By chance this happens in at most "
            f"{1 - sequence.level:.2g} of all logs. "
        )
        text += (
            "Intersections are NaN from here on. For the average value so far use "
            "intersect=False."
            if sequence.intersect
            else (
                "The intervals are about the average value so far. For today's "
                "value start a new sequence."
            )
        )
        return low, high, [LogsWarning(text, float(lows[-1] - highs[-1]))]

    def _keep(self, logs, rows, before, low, high, estimate):
        time = np.full(len(rows), np.nan)
        if logs.timestamp is not None:
            time = logs.timestamp[rows - 1]
        fields = {
            "n_rounds": before + rows,
            "time": time,
            "low": low,
            "high": high,
            "estimate": estimate,
        }
        new = np.empty(len(rows), [(name, v.dtype) for name, v in fields.items()])
        for name, values in fields.items():
            new[name] = values
        old = self.intervals
        self.intervals = new if old is None else np.concatenate([old, new])


def _same_parameter(one, other):
    if isinstance(one, (str, Real)) and isinstance(other, (str, Real)):
        return one == other
    return one is other


def _weight_in_use(sequence):
    """Return the largest weight that the limits rest on, or None."""
    in_use = sequence.method == "betting" or (
        sequence.method != ASYMPTOTIC and is_policy(sequence.baseline)
    )
    return sequence.max_weight if in_use else None


def _after(before, n, every):
    """Return after which rounds of a part intervals are found, and which are kept."""
    if every is None:
        return np.array([n]), np.array([True])
    kept = np.arange(every - before % every, n + 1, every)
    if len(kept) and kept[-1] == n:
        return kept, np.ones(len(kept), dtype=bool)
    return np.append(kept, n), np.append(np.ones(len(kept), dtype=bool), False)


def _range_of_terms(limits, baseline):
    low, high = limits
    return (low, high) if baseline is None else (low - high, high - low)


def _skewness_warnings(skewness):
    """Warn where the normal approximation of the terms so far is poor."""
    if isnan(skewness):
        text = (
            "all weighted rewards so far are equal, so the interval has no width. "
            "It does not allow for other rewards in later rounds. Use "
            "method='betting', which needs the range of the rewards."
        )
    elif abs(skewness) > HIGH_SKEWNESS_OF_MEAN:
        text = (
            f"few rounds make most of the spread (skewness {skewness:.2f}, as "
            f"with {1 / skewness**2:.1f} events). The sequence may miss the value "
            "more often than its level says. Use method='betting', which needs the "
            "range of the rewards, or a larger start."
        )
    else:
        return []
    return [TailWarning(text, skewness)]


def _agreement_warnings(low, method):
    """Warn where the lower limit is above the upper one."""
    apart = np.isnan(low)
    if method == ASYMPTOTIC or not apart.any():
        return []
    text = (
        "no value agrees with the rounds so far, and the interval is NaN. The "
        "propensities do not fit the logged actions. Correct the propensities."
    )
    return [PropensityWarning(text, int(apart.sum()))]


def _mean_weight_warnings(who, low, high, sequence):
    """Warn where the weights of the policy, or of the baseline, do not average 1."""
    whose = "" if who == "policy" else f" of the {who}"
    if low > 1 + ROUNDING_OF_MEANS:
        text = (
            f"the importance weights{whose} average at least {low:.4g}, and must "
            "average 1. The propensities do not fit the logged actions, so the "
            "intervals are wrong. Correct the propensities."
        )
        return [PropensityWarning(text, low)]
    if high < 1 - ROUNDING_OF_MEANS:
        safe = _weight_in_use(sequence) is None and sequence.method != ASYMPTOTIC
        text = (
            f"the importance weights{whose} average at most {high:.4g}, where 1 is "
            f"expected. The {who} takes actions that the logger never or hardly "
            "ever takes. The estimate leaves out their rewards"
        )
        text += (
            "; the interval allows for them."
            if safe
            else (
                ", and so does the interval, which is NaN if no value agrees with "
                f"the rounds. Choose a {who} that is closer to the logger."
            )
        )
        return [SupportWarning(text, high)]
    return []


class StreamOrder:
    """What is known of the rows that came before."""

    def __init__(self):
        self.n, self.time = 0, None
        self._last = {}  # last position of every origin
        self._seen = {}  # `Runs` that came, where timestamps give the order
        self._places = {}  # of every row group, the scan that it came from

    def after(self, logs, place=None):
        """Return the order after another part; raise where the part cannot follow."""
        timed = logs.timestamp is not None
        if self.n and timed != (self.time is not None):
            have, had = ("have", "had none") if timed else ("have no", "had")
            raise ValueError(
                f"these logs {have} timestamps, those before {had}. Give "
                "timestamps to all parts, or to none."
            )
        out = copy(self)
        out._last, out._seen = dict(self._last), dict(self._seen)
        rows = logs.row_id
        if place is not None:
            # another scan counts rows anew, so positions do not tell
            if self._places.get(place, rows.origin) != rows.origin:
                raise ValueError(
                    "these rows were already given, by another scan of the file. "
                    "Give each round to update once, in the order of time."
                )
            out._places = {**self._places, place: rows.origin}
        if timed:
            out._seen[rows.origin] = self._checked_repeats(rows)
            out.time = self._checked_time(logs.timestamp)
        else:
            self._checked_positions(rows)
            out._last[rows.origin] = int(rows.position[-1])
        out.n += len(logs)
        return out

    def _checked_time(self, time):
        if self.time is not None:
            kinds = time.dtype.kind == "M", np.asarray(self.time).dtype.kind == "M"
            if kinds[0] != kinds[1]:
                raise ValueError(
                    f"these timestamps are {time.dtype}, those before were "
                    f"{np.asarray(self.time).dtype}. Use the same type of "
                    "timestamps in all parts."
                )
            if time[0] < self.time:
                raise ValueError(
                    "the timestamps decrease: the part before ended at "
                    f"{self.time}, and this part starts at {time[0]}. {ORDER} Give "
                    "each part once."
                )
        back = np.flatnonzero(time[1:] < time[:-1])
        if back.size:
            row = int(back[0]) + 1
            raise RowError(
                f"the timestamps decrease from {time[row - 1]} to {time[row]}",
                row,
                f". {ORDER}",
            )
        return time[-1]

    def _checked_repeats(self, rows):
        """Return the positions of an origin that came, with those of these rows."""
        position = rows.position
        before = self._seen.get(rows.origin, Runs())
        again = np.flatnonzero(before.hold(position))
        if not again.size and not (position[1:] > position[:-1]).all():
            first = np.unique(position, return_index=True)[1]
            again = np.setdiff1d(np.arange(len(position)), first)
        if again.size:
            raise _repeated(again)
        return before.with_more(position)

    def _checked_positions(self, rows):
        """Raise where rows of an origin do not follow those before."""
        position = rows.position
        last = self._last.get(rows.origin, -1)
        steps = np.diff(position, prepend=last)
        back = np.flatnonzero(steps <= 0)
        if not back.size:
            return
        old = np.flatnonzero(position <= last)
        if old.size:
            raise _repeated(old, "do not come after those that were already given")
        raise RowError(
            "these rows are not in the order they were logged: the first that does "
            "not come after the row before it is",
            int(back[0]),
            f". {ORDER}",
        )


class Runs:
    """A set of integers, kept as runs of consecutive ones."""

    def __init__(self, first=(), stop=()):
        self.first = np.asarray(first, dtype=np.int64)
        self.stop = np.asarray(stop, dtype=np.int64)

    def hold(self, numbers):
        """Tell which numbers are in the set, ndarray of bool."""
        run = np.searchsorted(self.first, numbers, side="right") - 1
        if not len(self.first):
            return np.zeros(len(numbers), dtype=bool)
        return (run >= 0) & (numbers < self.stop[run])

    def with_more(self, numbers):
        """Return the set with more numbers, which it does not hold yet."""
        numbers = np.sort(numbers)
        cut = np.flatnonzero(np.diff(numbers) > 1) + 1
        first = numbers[np.concatenate([[0], cut])]
        stop = numbers[np.concatenate([cut - 1, [len(numbers) - 1]])] + 1
        first = np.sort(np.concatenate([self.first, first]))
        stop = np.sort(np.concatenate([self.stop, stop]))
        apart = first[1:] > stop[:-1]  # others go on where the one before ends
        return Runs(first[np.append(True, apart)], stop[np.append(apart, True)])


def _repeated(rows, what="were already given"):
    return RowError(
        f"{len(rows)} of these rows {what}, the first",
        int(rows[0]),
        ". Give each round to update once, in the order of time.",
    )


class RoundTerms(NamedTuple):
    """Terms of the rounds of a part, ndarrays of shape (n_rounds,)."""

    policy_weight: np.ndarray  # importance weights of the policy
    weight: np.ndarray  # these, less those of the baseline
    z: np.ndarray  # terms whose mean is the estimate


def is_logger(baseline):
    """Whether a baseline is the logger itself."""
    return isinstance(baseline, str) and baseline == LOGGER_BASELINE


def is_policy(baseline):
    """Whether a baseline is another policy than the logger."""
    return baseline is not None and not is_logger(baseline)


def check_stream_logs(logs):
    """Raise if these are no logs whose rounds a confidence sequence can take."""
    if not isinstance(logs, BanditLogs):
        raise TypeError(
            "logs must be BanditLogs, LazyLogs or a partition of these, got "
            f"{type(logs).__name__}. The call is update(logs, policy)."
        )
    if not len(logs):
        raise ValueError("the logs are empty: a part needs at least one round.")
    if logs.propensity is None:
        raise ValueError(
            f"{NAME} needs the propensities of the logged actions, which these logs do "
            "not have. Pass propensity=..., or estimate them from earlier rounds with "
            f"{estimating_step(logs)}."
        )
    if logs.group is not None:
        raise ValueError(
            f"{NAME} needs rounds that are independent given the past, and rounds "
            "of a group are not. If yours are, leave the groups out: "
            "logs.replace(group=None). Otherwise make one round of each group. Or "
            "use DoublyRobust, whose interval is clustered, and look at the value "
            "once only."
        )
    if combined_weights(logs, None) is not None:
        raise ValueError(
            f"{NAME} needs rounds of equal weight, and these have different sample "
            "weights. Use logs without weights."
        )


def check_stream_model(sequence):
    """Raise if the parameters do not go together."""
    model, method = sequence.reward_model, sequence.method
    if model is not None and method != "asymptotic":
        raise ValueError(
            f"method={method!r} takes no reward_model: it needs terms in a known "
            "range. Use reward_model=None, or method='asymptotic'."
        )
    frozen = type(model).__name__ == "FrozenEstimator"
    if not (model is None or isinstance(model, (str, Real)) or frozen):
        raise ValueError(
            "reward_model must be the name of a column with predictions, a number, "
            "or FrozenEstimator(model) with a model fitted to earlier rounds, got "
            f"{type(model).__name__}. The rounds of the sequence must not be used "
            "to fit it."
        )
    if isinstance(sequence.baseline, (np.ndarray, list, tuple)):
        raise ValueError(
            "baseline must be a policy, 'logger' or the name of a column. An array "
            "fits the rows of one part only. Add it to the logs of every part, "
            "logs.with_columns(name=...), and pass the name."
        )
    bounded = sequence.max_weight is not None or method == "asymptotic"
    if is_policy(sequence.baseline) and not bounded:
        raise ValueError(
            f"method={method!r} with a policy as baseline needs max_weight=...: "
            "the largest possible weight of the policy and of the baseline. Or use "
            "baseline='logger' or method='asymptotic', which do not need it."
        )


def round_terms(sequence, logs, policy):
    """Return the `RoundTerms` of a part."""
    source = None
    if sequence.reward_model is not None:
        source = reward_source(sequence.reward_model, logs, "prefit")
    weight, z = _of_policy(logs, policy, source, sequence.max_weight)
    baseline = sequence.baseline
    if baseline is None:
        return RoundTerms(weight, weight, z)
    if is_logger(baseline):
        return RoundTerms(weight, weight - 1.0, z - logs.reward)
    other, other_z = _of_policy(logs, baseline, source, sequence.max_weight)
    return RoundTerms(weight, weight - other, z - other_z)


def _of_policy(logs, policy, source, max_weight):
    """Return the weights of a policy, and the terms of its value."""
    target, positive = Target(policy, logs), PositiveRounds(logs)
    refuse_learning(NAME, target)
    if source is None:
        [weight] = terms_of(EXTRACT_WEIGHTS, logs, target, None, positive)
        z = weight * logs.reward
    else:
        if target.logged_only:
            raise ValueError(
                f"{NAME} with a reward_model needs the probabilities of all "
                "actions, of the policy and the baseline. If you know only those "
                "of logged actions, use reward_model=None."
            )
        weight, v, q = terms_of(_ROBUST, logs, target, source, positive)
        z = v + weight * (logs.reward - q)
    if max_weight is not None:
        stated_weight(max_weight, weight)
    return weight, z

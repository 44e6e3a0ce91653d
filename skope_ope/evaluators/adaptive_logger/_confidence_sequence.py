# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Confidence sequences of a policy's value, while logs arrive."""

import warnings
from copy import copy, deepcopy
from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from skope_ope._sklearn import Interval, StrOptions
from skope_ope.evaluators.adaptive_logger._stream_order import StreamOrder
from skope_ope.evaluators.adaptive_logger._stream_terms import (
    LOGGER,
    check_stream_logs,
    check_stream_model,
    round_terms,
)
from skope_ope.evaluators.core._warnings import learned_warnings
from skope_ope.exceptions import (
    LogsWarning,
    PropensityWarning,
    RowError,
    SupportWarning,
)
from skope_ope.intervals import ConfidenceInterval
from skope_ope.intervals._asymptotic_sequence import START, AsymptoticBounds
from skope_ope.intervals._sequence_rounds import running_sums
from skope_ope.intervals._weighted_limits import WeightedLimits
from skope_ope.logs._known_range import known_range

ASYMPTOTIC = "asymptotic"
WEIGHT_LEVEL = 0.9999  # of the sequence of mean weights: it rings in one log of 10,000
ROUNDING = 1e-9


class ConfidenceSequence(BaseEstimator):
    r"""Interval of a policy's value that you may look at whenever you like.

    An ordinary 95% interval covers in 95 of 100 logs if you look at it once. If you
    look every day and stop when you like what you see, it covers in far fewer. The
    intervals of a confidence sequence hold together, after every round: look as often
    as you like, stop when you like. Hand it the log part by part, as it arrives; it
    keeps sums and no rounds. Read more in the
    :ref:`User Guide <confidence_sequences>`.

    Parameters
    ----------
    method : {"betting", "empirical_bernstein", "asymptotic"}, default="betting"
        How the limits are found. "betting" and "empirical_bernstein" hold for every
        number of rounds and need the range of the rewards; "betting" is the narrower
        one. "asymptotic" needs no range and holds from `start` rounds on,
        approximately. See :func:`~skope_ope.intervals.betting_sequence`,
        :func:`~skope_ope.intervals.empirical_bernstein_sequence` and
        :func:`~skope_ope.intervals.asymptotic_sequence`.
    level : float, default=0.95
        Probability with which all intervals cover together.
    baseline : policy, str or None, default=None
        `None`: the intervals are about the policy's value. Otherwise they are about its
        gain: the value less that of "logger", or of another policy, or of the name of a
        column.
    max_weight : float, default=None
        Largest importance weight that the policy and the baseline may have on such
        logs, known beforehand. "betting" is narrower with it; "betting" and
        "empirical_bernstein" need it where the baseline is a policy.
    reward_model : str, float or FrozenEstimator, default=None
        Predictions for doubly robust terms, which "asymptotic" takes: the name of a
        column, a number, or a model that was fitted on earlier rounds. `None`: the
        weighted rewards alone.
    start : int, default=1000
        Number of rounds from which "asymptotic" makes its promise. Before, its
        interval is NaN.
    every : int, default=None
        Keep the interval after every so many rounds. `None`: after every part.
    intersect : bool, default=False
        Whether to intersect each interval with those that were kept before. Only for a
        value that stays the same along the log.

    Attributes
    ----------
    intervals_ : ndarray of shape (n_kept,)
        Fields: n_rounds (so far), time (of the last round; NaN without timestamps),
        low, high, estimate (the mean of the terms so far, by IPS or doubly robust).
        `pandas.DataFrame(intervals_)` makes a table of it.
    interval_ : ConfidenceInterval
        The interval after all rounds so far.
    estimate_ : float
        The estimate after all rounds so far.
    n_rounds_ : int
        Number of rounds so far.
    warnings_ : tuple of OPEWarning
        What was found so far. Each warning comes once.

    See Also
    --------
    ConfidenceSequenceDisplay : Draws the intervals over the rounds.
    compare_policies : Decides once, from a whole log.

    Notes
    -----
    The intervals are about the average of the values that the policy had in the rounds
    so far, given the past of each. Rewards and contexts may drift, the logger may have
    learned, and you may change the policy between parts, as long as it did not learn
    from the rounds of the part. A :class:`~skope_ope.exceptions.LogsWarning` says if
    the intervals show that the value has changed.

    The result does not depend on how the log is cut into parts, except for rounding,
    which intervals are kept, and what `intersect` makes of them.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import ConfidenceSequence
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs, policy, truth = make_bandit_logs(4000, random_state=0, return_truth=True)
    >>> sequence = ConfidenceSequence()
    >>> for day in range(4):
    ...     sequence = sequence.update(logs[1000 * day : 1000 * (day + 1)], policy)
    >>> sequence.intervals_["n_rounds"]
    array([1000, 2000, 3000, 4000])
    >>> low, high = sequence.interval_
    >>> bool(low < truth.value < high)
    True
    """

    _doc_link_module = "skope_ope"
    _parameter_constraints: dict = {
        "method": [StrOptions({"betting", "empirical_bernstein", ASYMPTOTIC})],
        "level": [Interval(Real, 0, 1, closed="neither")],
        "baseline": "no_validation",
        "max_weight": [Interval(Real, 1, None, closed="left"), None],
        "reward_model": "no_validation",
        "start": [Interval(Integral, 2, None, closed="left")],
        "every": [Interval(Integral, 1, None, closed="left"), None],
        "intersect": ["boolean"],
    }

    def __init__(
        self,
        method="betting",
        *,
        level=0.95,
        baseline=None,
        max_weight=None,
        reward_model=None,
        start=START,
        every=None,
        intersect=False,
    ):
        self.method = method
        self.level = level
        self.baseline = baseline
        self.max_weight = max_weight
        self.reward_model = reward_model
        self.start = start
        self.every = every
        self.intersect = intersect

    def update(self, logs, policy):
        """Take the next part of the log.

        A part that raises an error changes nothing.

        Parameters
        ----------
        logs : BanditLogs
            Rounds with propensities, in the order of time, later than those before. A
            part of any size, one round or a year. For "betting" and
            "empirical_bernstein" the logs need a `reward_range`, or rewards of 0 and 1.
        policy : policy, array or str
            A stationary policy, as evaluators take it. It must not have learned from
            these rounds.

        Returns
        -------
        self : ConfidenceSequence

        Raises
        ------
        TypeError
            If `logs` are no BanditLogs, or the policy learns while it acts.
        ValueError
            If rows came before, or time runs backwards; if the logs have groups or
            uneven sample weights, lack propensities or the range of the rewards, or it
            is not that of the parts before; if a weight exceeds `max_weight`.
        """
        started = hasattr(self, "_state")
        state = self._state.copy() if started else _State(self)
        state.check_parameters(self)
        check_stream_logs(logs)
        warned = state.take(self, logs, policy)
        self._state = state
        for warning in warned:
            warnings.warn(warning, stacklevel=2)
        return self

    @property
    def intervals_(self):
        """The intervals that were kept."""
        return self._known("intervals").copy()

    @property
    def interval_(self):
        """The interval after all rounds so far."""
        return self._known("interval")

    @property
    def estimate_(self):
        """The estimate after all rounds so far."""
        return self._known("estimate")

    @property
    def n_rounds_(self):
        """The number of rounds so far."""
        return self._known("order").n

    @property
    def warnings_(self):
        """What was found so far."""
        return tuple(self._known("warnings"))

    def _known(self, name):
        if not hasattr(self, "_state"):
            raise NotFittedError(
                "this ConfidenceSequence has no rounds yet: call update(logs, policy)."
            )
        return getattr(self._state, name)


class _State:
    """What a confidence sequence knows of the rounds so far."""

    def __init__(self, sequence):
        sequence._validate_params()
        check_stream_model(sequence)
        self.parameters = sequence.get_params(deep=False)
        self.order = StreamOrder()
        self.reward_range = self.limits = None
        self.weights = AsymptoticBounds(WEIGHT_LEVEL)
        self.total = 0.0
        self.warnings = []
        self.greatest_low, self.least_high = -np.inf, np.inf
        self.intervals = None

    def copy(self):
        """Return a state that can be given up if a part turns out to be wrong."""
        out = copy(self)
        out.limits, out.weights = deepcopy((self.limits, self.weights))
        out.warnings = list(self.warnings)
        return out

    def check_parameters(self, sequence):
        """Raise if parameters were changed since the first part."""
        changed = [
            name
            for name, value in sequence.get_params(deep=False).items()
            if not _same(value, self.parameters[name])
        ]
        if changed:
            raise ValueError(
                f"{', '.join(changed)} changed after the first part. A confidence "
                "sequence keeps its parameters; start another one, clone(sequence)."
            )

    def take(self, sequence, logs, policy):
        """Take a part and return the warnings that are new."""
        order = self.order.after(logs)
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
                ends = _ends(self.reward_range, sequence.baseline)
                low, high = np.clip(low, *ends), np.clip(high, *ends)
        else:
            low, high = self.limits.take(terms.weight, logs.reward, after)
        mean_low, mean_high = self.weights.take(terms.policy_weight, np.array([n]))
        self.order = order
        found = learned_warnings(policy, logs)
        found += _weight_warnings(mean_low[0], mean_high[0], sequence)
        low, high, changed = self._together(low, high, sequence.intersect)
        found += changed
        known = {type(one) for one in self.warnings}
        new = [one for one in found if type(one) not in known]
        self.warnings += new
        self.estimate = float(estimates[-1])
        self._keep(logs, after[kept], before, low[kept], high[kept], estimates[kept])
        self.interval = ConfidenceInterval(
            low[-1],
            high[-1],
            sequence.level,
            sequence.method,
            max_weight=sequence.max_weight,
            max_weight_from=None if sequence.max_weight is None else "stated",
            reward_range=self.reward_range,
            warnings=self.warnings,
        )
        return new

    def _range_with(self, sequence, logs):
        """Return the range of the rewards of all parts so far."""
        needed, before = sequence.method != ASYMPTOTIC, self.reward_range
        if self.order.n == 0:
            found = known_range(logs)
            if found is None and needed:
                raise ValueError(
                    f"method={sequence.method!r} needs the range of the rewards: build "
                    "the logs with reward_range=(low, high), such as (0, 1) for "
                    "clicks. method='asymptotic' needs none."
                )
            return found
        if before is None:
            return None
        if logs.reward_range is not None:
            found = known_range(logs)
            if found != before and needed:
                raise ValueError(
                    f"these logs have reward_range={found}, those before {before}. "
                    "State the same range with all parts."
                )
            return before if found == before else None
        low, high = before
        outside = np.flatnonzero((logs.reward < low) | (logs.reward > high))
        if outside.size and needed:
            raise RowError(
                f"the reward {logs.reward[outside[0]]:.6g} lies outside of the range "
                f"[{low:.6g}, {high:.6g}] of the parts before",
                outside[0],
                ". State reward_range=(low, high) with the logs of all parts.",
            )
        return None if outside.size else before

    def _new_limits(self, sequence):
        if sequence.method == ASYMPTOTIC:
            return AsymptoticBounds(sequence.level, sequence.start)
        bound = None
        if sequence.baseline is not None:
            own = isinstance(sequence.baseline, str) and sequence.baseline == LOGGER
            bound = 1.0 if own else sequence.max_weight
        return WeightedLimits(
            sequence.method,
            sequence.level,
            self.reward_range,
            sequence.max_weight,
            bound,
        )

    def _together(self, low, high, intersect):
        """Return intervals, intersected where wanted, and a warning if none agrees."""
        lows = np.fmax.accumulate(np.concatenate([[self.greatest_low], low]))[1:]
        highs = np.fmin.accumulate(np.concatenate([[self.least_high], high]))[1:]
        self.greatest_low, self.least_high = float(lows[-1]), float(highs[-1])
        apart = lows > highs
        if intersect:
            known = ~np.isnan(low)
            low = np.where(known & ~apart, lows, np.nan)
            high = np.where(known & ~apart, highs, np.nan)
        if not apart.any():
            return low, high, []
        text = (
            "the value has changed along the log: no value lies in all intervals so "
            f"far, one of which starts at {lows[-1]:.6g} and one ends at "
            f"{highs[-1]:.6g}. "
        )
        text += (
            "Intersections are NaN from here on; use intersect=False for the average "
            "of the values so far."
            if intersect
            else "The intervals are about its average over the rounds so far. For the "
            "value of today start another sequence."
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


def _same(one, other):
    if isinstance(one, (str, Real)) and isinstance(other, (str, Real)):
        return one == other
    return one is other


def _after(before, n, every):
    """Return after which rounds of a part intervals are found, and which are kept."""
    if every is None:
        return np.array([n]), np.array([True])
    kept = np.arange(every - before % every, n + 1, every)
    if len(kept) and kept[-1] == n:
        return kept, np.ones(len(kept), dtype=bool)
    return np.append(kept, n), np.append(np.ones(len(kept), dtype=bool), False)


def _ends(limits, baseline):
    low, high = limits
    return (low, high) if baseline is None else (low - high, high - low)


def _weight_warnings(low, high, sequence):
    """Warn where the weights of the policy do not average 1."""
    if low > 1 + ROUNDING:
        text = (
            f"the importance weights average at least {low:.4g}, and must average 1: "
            "the propensities do not fit the logged actions, and the intervals do not "
            "hold. Correct the propensities."
        )
        return [PropensityWarning(text, float(low))]
    if high < 1 - ROUNDING:
        safe = sequence.method != ASYMPTOTIC and sequence.max_weight is None
        safe = safe and sequence.baseline in (None, LOGGER)
        text = (
            f"the importance weights average at most {high:.4g}, where 1 is expected: "
            "the policy takes actions that the logger never, or hardly ever, takes. "
            "The estimate leaves them out"
        )
        text += (
            "; the interval allows for them."
            if safe
            else ", and so does the interval. Evaluate a policy nearer the logger."
        )
        return [SupportWarning(text, float(high))]
    return []

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Confidence sequences of a policy's value, while logs arrive."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any, Literal, Self

from sklearn.exceptions import NotFittedError

from skope_ope._parallel import named
from skope_ope._sklearn import Estimator, Interval, StrOptions
from skope_ope._types import PolicyLike
from skope_ope.evaluators.adaptive_logger._sequence_state import (
    ASYMPTOTIC,
    SequenceState,
    check_stream_logs,
)
from skope_ope.exceptions import OPEWarning
from skope_ope.intervals._confidence_interval import ConfidenceInterval
from skope_ope.intervals._sequences import FROM_ROUND
from skope_ope.logs._bandit_logs import BanditLogs
from skope_ope.logs.lazy._lazy_logs import LazyLogs
from skope_ope.logs.lazy._partitions import Partition, read_partitions


class ConfidenceSequence(Estimator):
    r"""Interval of a policy's value that you may look at whenever you like.

    An ordinary 95% interval covers in 95 of 100 logs if you look at it once. If you
    look every day and stop when you like what you see, it covers in far fewer. The
    intervals of a confidence sequence hold together, after every round: look as often
    as you like, stop when you like. Pass the log part by part, as it arrives. Only sums
    are kept, no rounds. Read more in the :ref:`User Guide <confidence_sequences>`.

    Parameters
    ----------
    method : {"betting", "empirical_bernstein", "asymptotic"}, default="betting"
        How the limits are found. "betting" and "empirical_bernstein" hold for every
        number of rounds and need the range of the rewards. "betting" is narrower.
        "asymptotic" needs no range and holds from `start` rounds on, approximately. A
        :class:`~skope_ope.exceptions.TailWarning` says if a few rounds make that
        doubtful. See :func:`~skope_ope.intervals.betting_sequence`,
        :func:`~skope_ope.intervals.empirical_bernstein_sequence` and
        :func:`~skope_ope.intervals.asymptotic_sequence`.
    level : float, default=0.95
        Probability with which all intervals cover together.
    baseline : policy, str or None, default=None
        `None`: the intervals are about the policy's value. Otherwise they are about its
        gain over "logger", over another policy, or over a policy given by the name of a
        column.
    max_weight : float, default=None
        Largest importance weight that the policy and the baseline may have on such
        logs, known beforehand. "betting" is narrower with it. "betting" and
        "empirical_bernstein" need it if the baseline is a policy.
    reward_model : str, float or FrozenEstimator, default=None
        Predictions for the doubly robust terms of "asymptotic": the name of a column, a
        number, or a model that was fitted on earlier rounds. `None`: weighted rewards
        without a model.
    start : int, default=1000
        Number of rounds from which "asymptotic" holds. Before, its interval is NaN.
    every : int, default=None
        Number of rounds between the intervals that are kept. `None`: one after every
        part.
    intersect : bool, default=False
        Whether to intersect each interval with those that were kept before. Only for a
        value that stays the same along the log.

    Attributes
    ----------
    intervals_ : ndarray of shape (n_kept,)
        Fields: n_rounds, time, low, high, estimate. The time is that of the last round,
        NaN without timestamps. The estimate is the mean of the terms so far, by IPS or
        doubly robust. `pandas.DataFrame(intervals_)` makes a table of it.
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
    so far, given the past of each. Rewards and contexts may drift, and the logger may
    have learned. You may change the policy between parts, if it did not learn from the
    rounds of the part. A :class:`~skope_ope.exceptions.LogsWarning` says if the
    intervals show that the value has changed.

    The result does not depend on how the log is cut into parts, with three exceptions:
    rounding, which intervals are kept, and `intersect`.

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
        method: Literal["betting", "empirical_bernstein", "asymptotic"] = "betting",
        *,
        level: float = 0.95,
        baseline: PolicyLike | None = None,
        max_weight: float | None = None,
        reward_model: Any = None,
        start: int = FROM_ROUND,
        every: int | None = None,
        intersect: bool = False,
    ) -> None:
        self.method = method
        self.level = level
        self.baseline = baseline
        self.max_weight = max_weight
        self.reward_model = reward_model
        self.start = start
        self.every = every
        self.intersect = intersect

    def update(
        self, logs: BanditLogs | LazyLogs | Partition, policy: PolicyLike
    ) -> Self:
        """Take the next part of the log.

        What raises an error changes nothing.

        Parameters
        ----------
        logs : BanditLogs, LazyLogs or Partition
            Rounds with propensities, in the order of time, later than all earlier
            parts. A part has any size, one round or a year. Every partition of lazy
            logs is a part. The partitions are read one after the other. For "betting"
            and "empirical_bernstein" the logs need a `reward_range`, or rewards of 0
            and 1.
        policy : policy, array or str
            A stationary policy, as evaluators take it. It must not have learned from
            these rounds.

        Returns
        -------
        self : ConfidenceSequence

        Raises
        ------
        TypeError
            If `logs` are of another type, or a lazy frame, which has no order. If the
            policy learns while it acts.
        ValueError
            If the rows were passed before, or the timestamps decrease. If the logs have
            groups or uneven sample weights, or no propensities. If the range of the
            rewards is unknown, or differs from earlier parts. If a weight is above
            `max_weight`.
        """
        started = hasattr(self, "_state")
        state = self._state.copy() if started else SequenceState(self)
        state.check_parameters(self)
        warned = []
        for name, place, part in _parts_of(logs):
            try:
                check_stream_logs(part)
                warned += state.take(self, part, policy, place)
            except Exception as error:
                if name is None:
                    raise
                raise named(error, name) from error
        self._state = state
        for warning in warned:
            warnings.warn(warning, stacklevel=2)
        return self

    @property
    def intervals_(self) -> Any:
        """The intervals that were kept."""
        return self._known("intervals").copy()

    @property
    def interval_(self) -> ConfidenceInterval:
        """The interval after all rounds so far."""
        return self._known("interval")

    @property
    def estimate_(self) -> float:
        """The estimate after all rounds so far."""
        return self._known("estimate")

    @property
    def n_rounds_(self) -> int:
        """The number of rounds so far."""
        return self._known("order").n

    @property
    def warnings_(self) -> tuple[OPEWarning, ...]:
        """What was found so far."""
        return tuple(self._known("warnings"))

    def _known(self, name):
        if not hasattr(self, "_state"):
            raise NotFittedError(
                "this ConfidenceSequence has no rounds yet: call update(logs, policy)."
            )
        return getattr(self._state, name)


def _parts_of(logs):
    """Yield every part: its name, where its rows lie, and its rounds."""
    # Logs in memory have no name, and lie nowhere: both are None.
    lazy = isinstance(logs, LazyLogs)
    if not (lazy or isinstance(logs, Partition)):
        yield None, None, logs
        return
    if lazy and logs.partitions is None:
        raise TypeError(
            "a confidence sequence takes rounds in the order of time, and a lazy "
            "frame has no order. Sort the frame by time, write it to parquet "
            "files, and scan these."
        )
    partitions = logs.labelled().partitions if lazy else (logs,)
    empty = True
    for partition, part in read_partitions(partitions):
        if part is not None:
            empty = False
            yield partition.name, partition.key, part
    if empty:
        raise ValueError("the logs are empty: a part needs at least one round.")

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""A policy that learns from an exploration log, in batches of time."""

from __future__ import annotations

from datetime import timedelta
from numbers import Integral, Real
from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import MetaEstimatorMixin

from skope_ope._meant import meant
from skope_ope._sklearn import Interval
from skope_ope.logs import BanditLogs
from skope_ope.logs._row_container import own, take_rows
from skope_ope.logs._validation import label_codes
from skope_ope.policies._adaptive import AdaptivePolicy, contexts_of, fresh_copy
from skope_ope.policies._base import FitFreePolicy
from skope_ope.policies._policy_outputs import named_table
from skope_ope.policies.adaptive._segmented_policy import SegmentedPolicy

if TYPE_CHECKING:
    from skope_ope._types import Array


class BatchPolicy(MetaEstimatorMixin, FitFreePolicy):
    r"""Act by what the policy learned from another log before the current batch.

    Time is divided into batches of length `every`. The first batch begins at the first
    timestamp :math:`s_0` of the exploration log. In a round at time t the policy has
    learned from the exploration rows with timestamps

    .. math:: s < s_0 + \lfloor (t - s_0) / \text{every} \rfloor \cdot \text{every}

    and from no round that it is evaluated on. So evaluators treat it as stationary,
    with the probabilities of `logs_proba(logs)`. [1]_ compares three such policies with
    their online results:

    - EMP, `BatchPolicy(EpsilonGreedy(0), logs, every)`: the most popular action;
    - SEMP, `BatchPolicy(SegmentedPolicy(EpsilonGreedy(0), segment), logs, every)`: the
      most popular action of every segment;
    - CEMP, `BatchPolicy(OnlineClassifierPolicy(LogisticRegression(), epsilon=0), logs,
      every)`: the best action by a model per action.

    Read more in the :ref:`User Guide <adaptive_policies>`.

    Parameters
    ----------
    policy : AdaptivePolicy
        A clone of it learns, by one `update_many` per batch.
    exploration_logs : BanditLogs
        The rows to learn from. They need timestamps. They may be the rows that you
        evaluate on: the policy learns from a row only after its batch is over.
    every : float or timedelta
        Length of a batch in the units of the timestamps. For datetimes, a
        `numpy.timedelta64` or `datetime.timedelta`.
    min_trials : int, default=0
        Number of exploration rows that an action needs before it may be chosen. A
        `SegmentedPolicy` counts the rows of the segment. If no offered action has
        enough rows, every offered action may be chosen. See Notes.

    Raises
    ------
    ValueError
        If logs have no timestamps, or the exploration log has actions that the
        evaluated logs do not know.

    See Also
    --------
    SegmentedPolicy : A separate policy for every segment.

    Notes
    -----
    `update` gets the propensity of the exploration log as the probability of the
    action, or 1 / (number of offered actions) if it is unknown.

    `EpsilonGreedy` and `UCB1` try untried actions first, and learn the result only
    after the batch. With `min_trials=0`, a new action (or one that is new in a segment)
    is shown to all users for a whole batch. An action with a click in its only row is
    shown for the next batch. Online, the policy would change after one round.
    `min_trials` excludes actions until the exploration log has enough rows of them. An
    action that is never explored is then never chosen.

    References
    ----------
    .. [1] Li, L., Chu, W., Langford, J., & Wang, X. (2011). Unbiased offline
       evaluation of contextual-bandit-based news article recommendation algorithms.
       WSDM.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import BanditLogs, EpsilonGreedy
    >>> from skope_ope.policies import BatchPolicy
    >>> logs = BanditLogs(
    ...     np.empty((4, 0)),
    ...     ["a", "b", "a", "b"],
    ...     [0.0, 1.0, 1.0, 0.0],
    ...     timestamp=[0, 1, 2, 3],
    ... )
    >>> BatchPolicy(EpsilonGreedy(0), logs, 2).logs_proba(logs)
    array([[1., 0.],
           [1., 0.],
           [0., 1.],
           [0., 1.]])
    """

    _parameter_constraints: dict = {
        "policy": [AdaptivePolicy],
        "exploration_logs": [BanditLogs],
        "every": [Real, timedelta, np.timedelta64],
        "min_trials": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        policy: AdaptivePolicy,
        exploration_logs: BanditLogs,
        every: float | timedelta,
        *,
        min_trials: int = 0,
    ) -> None:
        self.policy = policy
        self.exploration_logs = exploration_logs
        self.every = every
        self.min_trials = min_trials

    def logs_proba(self, logs: BanditLogs) -> Array:
        """Probabilities over the actions of the logs.

        Parameters
        ----------
        logs : BanditLogs
            The rounds, with timestamps.

        Returns
        -------
        proba : ndarray of shape (n_rounds, n_actions)
        """
        self._validate_params()
        source = self.exploration_logs
        if source.n_features != logs.n_features:
            raise ValueError(
                f"exploration_logs have {source.n_features} features, the logs have "
                f"{logs.n_features}: both need the same context."
            )
        learned_in, asked_in = self._batches(source), self._batches(logs)
        codes = self._codes(logs)
        chance = _propensity(source)
        policy = fresh_copy(self.policy, logs)
        lessons, X = contexts_of(policy, source), contexts_of(policy, logs)
        trials = _Trials(policy, logs.n_actions, self.min_trials)
        proba = np.empty((len(logs), logs.n_actions))
        learn, ask = _by_batch(learned_in), _by_batch(asked_in)
        for batch in sorted(learn.keys() | ask.keys()):
            # first act, then learn: what a batch teaches is known after it
            if batch in ask:
                rows = ask[batch]
                offered = None if logs.available is None else logs.available[rows]
                contexts = take_rows(X, rows)
                eligible = trials.eligible(contexts, len(rows), offered)
                given = policy.predict_proba(own(contexts, policy), eligible)
                proba[rows] = named_table(policy, given, policy.classes_)
            if batch in learn:
                rows = learn[batch]
                rows = rows[np.argsort(source.timestamp[rows], kind="stable")]
                lesson = take_rows(lessons, rows)
                trials.add(lesson, codes[rows])
                taught = codes[rows], source.reward[rows], chance[rows]
                policy.update_many(lesson, *taught)
        return proba

    def _proba(self, X, available):
        raise TypeError(
            "BatchPolicy needs the time of every round, which contexts lack. Pass "
            "logs to logs_proba, to action_probabilities or to an evaluator."
        )

    def _batches(self, logs):
        """Return the number of the batch of every row."""
        first = self.exploration_logs.timestamp
        for name, time in (("exploration_logs", first), ("the logs", logs.timestamp)):
            if time is None:
                raise ValueError(
                    f"BatchPolicy needs timestamps, {name} have none. Pass "
                    "timestamp=... when building them."
                )
        every = self.every
        if isinstance(every, timedelta):
            every = np.timedelta64(every)
        is_date = first.dtype.kind == "M"
        if is_date != (logs.timestamp.dtype.kind == "M"):
            raise TypeError(
                "the timestamps of exploration_logs and of the logs must both be "
                f"numbers or datetimes, got {first.dtype} and {logs.timestamp.dtype}."
            )
        if is_date != isinstance(every, np.timedelta64):
            want = "numpy.timedelta64 (or datetime.timedelta)" if is_date else "number"
            raise TypeError(
                f"timestamps are {first.dtype}: every must be a {want}, got {every!r}."
            )
        if not every > every * 0:
            raise ValueError(f"every must be positive, got {every!r}.")
        return np.floor_divide(logs.timestamp - first.min(), every).astype(np.int64)

    def _codes(self, logs):
        source = self.exploration_logs
        codes = label_codes(logs.actions, source.action)
        if (codes < 0).any():
            row = int(np.flatnonzero(codes < 0)[0])
            taken = source.action.item(row)
            raise ValueError(
                f"exploration_logs took action {taken!r} at row "
                f"{row}, which the logs do not know ({int((codes < 0).sum())} such "
                f"rows).{meant(taken, logs.actions.tolist())} Pass all labels as "
                "actions=[...] when building the logs."
            )
        return codes


class _Trials:
    """How often every action was explored so far, in every segment of the policy."""

    def __init__(self, policy, n_actions, least):
        self.policy, self.least = policy, least
        self.counts, self.none = {}, np.zeros(n_actions, dtype=int)

    def add(self, X, codes):
        """Count the actions of exploration rows."""
        if not self.least:
            return
        for label, rows in self._segments(X, len(codes)):
            new = np.bincount(codes[rows], minlength=len(self.none))
            self.counts[label] = self.counts.get(label, self.none) + new

    def eligible(self, X, n_rounds, offered):
        """Return what may be chosen: the offered actions with trials enough."""
        if not self.least:
            return offered
        tried = np.empty((n_rounds, len(self.none)), dtype=bool)
        for label, rows in self._segments(X, n_rounds):
            tried[rows] = self.counts.get(label, self.none) >= self.least
        if offered is not None:
            tried &= offered
        none = ~tried.any(axis=1)
        tried[none] = True if offered is None else offered[none]
        return tried

    def _segments(self, X, n_rounds):
        """Yield the label and the rows of every segment."""
        if isinstance(self.policy, SegmentedPolicy):
            return self.policy._segment_rows(X)
        return [(None, np.arange(n_rounds))]


def _propensity(logs):
    if logs.propensity is not None:
        return logs.propensity
    if logs.available is None:
        return np.full(len(logs), 1 / logs.n_actions)
    return 1 / logs.available.sum(axis=1)


def _by_batch(batches):
    """Rows of every batch, as {batch: rows in order}."""
    order = np.argsort(batches, kind="stable")
    distinct, first = np.unique(batches[order], return_index=True)
    return dict(zip(distinct.tolist(), np.split(order, first[1:]), strict=True))

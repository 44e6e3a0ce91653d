# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Policies that learn by segments of users, and by batches of time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import MetaEstimatorMixin

from skope_ope._sklearn import Interval
from skope_ope._texts import meant
from skope_ope._types import Array, Contexts
from skope_ope.logs import BanditLogs
from skope_ope.logs._frames import opened_frame
from skope_ope.logs._labels import rows_of_codes
from skope_ope.logs._row_container import own, take_rows
from skope_ope.logs._validation import check_labels, is_frame, label_codes
from skope_ope.policies._adaptive import AdaptivePolicy, contexts_of, fresh_copy, learn
from skope_ope.policies._base import FitFreePolicy, n_rows
from skope_ope.policies._policy_outputs import named_table


class SegmentedPolicy(MetaEstimatorMixin, AdaptivePolicy):
    """Let a separate clone of a policy learn in every segment.

    With :class:`EpsilonGreedy` it is the "segmented most popular" policy of [1]_: the
    best action of each group of users. Read more in the
    :ref:`User Guide <adaptive_policies>`.

    Parameters
    ----------
    policy : AdaptivePolicy
        Every segment gets a clone of it. The clones share nothing.
    segment : callable, int or str
        A function `segment(X)` that returns a label for every round. Or a column of the
        context, by index or name. Or the name of a column of the logs (see
        `BanditLogs.with_columns`).

    Attributes
    ----------
    classes_ : ndarray of shape (n_actions,)
        Action labels.
    policies_ : dict
        The policy of every segment seen so far.

    See Also
    --------
    BatchPolicy : Learns in batches from another log.

    Notes
    -----
    A segment that was never seen gets the policy with an empty history.

    References
    ----------
    .. [1] Li, L., Chu, W., Langford, J., & Wang, X. (2011). Unbiased offline
       evaluation of contextual-bandit-based news article recommendation algorithms.
       WSDM.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import BanditLogs, EpsilonGreedy
    >>> from skope_ope.policies import SegmentedPolicy
    >>> X = np.array([[20.0], [70.0]])  # an age
    >>> logs = BanditLogs(X, ["a", "b"], [0.0, 1.0], [0.5, 0.5])
    >>> policy = SegmentedPolicy(EpsilonGreedy(0), lambda X: X[:, 0] > 50).fit(logs)
    >>> changed = policy.update(X[:1], 0, 0.0, 1.0)  # the young one did not like "a"
    >>> policy.predict(X)
    array(['b', 'a'], dtype='<U1')
    """

    _parameter_constraints: dict = {
        "policy": [AdaptivePolicy],
        "segment": [callable, Interval(Integral, 0, None, closed="left"), str],
    }

    def __init__(
        self, policy: AdaptivePolicy, segment: Callable[..., Any] | int | str
    ) -> None:
        self.policy = policy
        self.segment = segment

    def reset(self, logs: BanditLogs) -> None:
        """Forget everything; learn the actions from empty logs.

        Parameters
        ----------
        logs : BanditLogs
            `logs[:0]` of the logs that the policy will act on.
        """
        super().reset(logs)
        self._empty_logs = logs
        self._unseen = fresh_copy(self.policy, logs)
        self.policies_ = {}
        self._last = None

    def context_of(self, logs: BanditLogs) -> Any:
        """Return the contexts, with the segments if these are a column of the logs.

        Parameters
        ----------
        logs : BanditLogs
            The rounds.

        Returns
        -------
        X : array, sparse matrix, frame or other rows
        """
        context = contexts_of(self.policy, logs)
        name = self.segment
        if not isinstance(name, str) or name not in logs.columns:
            return context
        if is_frame(logs.context) and name in opened_frame(logs.context).columns:
            return context
        return SegmentRows(context, logs.columns[name], name)

    def _segment_rows(self, X):
        """Yield the label of every segment and its rows, in their order."""
        return _groups(self._split(X)[0])

    def _split(self, X):
        """Return the segment of every row, and what the inner policies get."""
        if isinstance(X, SegmentRows) and X.name == self.segment:
            return check_labels("segment", X.segment), X.context
        features = X
        while isinstance(features, SegmentRows):  # those of the inner policy
            features = features.context
        if callable(self.segment):
            labels = self.segment(own(features, self.segment))
        elif is_frame(features):
            labels = self._frame_column(features)
        else:
            labels = self._array_column(features)
        labels = check_labels("segment", labels)
        if len(labels) != n_rows(X):
            raise ValueError(
                f"segment gave {len(labels)} labels for {n_rows(X)} rounds."
            )
        return labels, X

    def _frame_column(self, X):
        frame = opened_frame(X)
        names = frame.columns
        name = self.segment
        if isinstance(name, Integral) and name < len(names):
            name = names[name]
        if name not in names:
            raise ValueError(
                f"segment {name!r} is neither a column of the context ({names}) nor "
                "one of the logs. Add it with logs.with_columns."
            )
        return frame.get_column(name).to_numpy()

    def _array_column(self, X):
        if isinstance(self.segment, str):
            raise ValueError(
                f"segment {self.segment!r} is not a column of the logs, and their "
                "context is an array. Add it with logs.with_columns, or give the "
                "index of a feature."
            )
        X = X if hasattr(X, "shape") else np.asarray(X)
        if self.segment >= X.shape[1]:
            raise ValueError(
                f"segment {self.segment} is not a feature: the contexts have "
                f"{X.shape[1]}."
            )
        column = X[:, [self.segment]]
        return (column.toarray() if sparse.issparse(X) else column)[:, 0]

    @property
    def takes_weight(self) -> bool:
        """Whether the policy of a segment takes weights."""
        return self.policy.takes_weight

    def update(
        self, X: Contexts, action: int, reward: float, proba: float, weight: float = 1.0
    ) -> bool:
        """Let the policy of the round's segment learn from it.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (1, n_features)
            Context.
        action : int
            Index of the action in `classes_`.
        reward : float
            Its reward.
        proba : float
            The policy's own probability of the action.
        weight : float, default=1.0
            How often the round counts, if the policy takes weights.

        Returns
        -------
        changed : bool
            Whether action probabilities may have changed.
        """
        labels, context = self._split(X)
        self._last = labels.item(0)
        return learn(self._own(self._last), context, action, reward, proba, weight)

    def update_many(
        self, X: Contexts, action: Array, reward: Array, proba: Array
    ) -> bool:
        """Learn from several rounds at once, segment by segment.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_rounds, n_features)
            Contexts.
        action : ndarray of int of shape (n_rounds,)
            Indices of the actions in `classes_`.
        reward : ndarray of shape (n_rounds,)
            Their rewards.
        proba : ndarray of shape (n_rounds,)
            Probabilities with which they were taken.

        Returns
        -------
        changed : bool
            Whether action probabilities may have changed.
        """
        changed = False
        labels, context = self._split(X)
        for label, rows in _groups(labels):
            changed |= self._own(label).update_many(
                take_rows(context, rows), action[rows], reward[rows], proba[rows]
            )
        return changed

    def _own(self, label):
        if label not in self.policies_:
            self.policies_[label] = fresh_copy(self.policy, self._empty_logs)
        return self.policies_[label]

    def look_ahead(self, X: Contexts, available: Array | None = None) -> Any:
        """Probabilities of a block of coming rounds; see `AdaptivePolicy`.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_rounds, n_features)
            Contexts.
        available : ndarray of bool of shape (n_rounds, n_actions), default=None
            Offered actions.

        Returns
        -------
        block : object
            Its `refresh` updates one segment, if the policy can.
        """
        return _SegmentedBlock(self, X, available)

    def _proba(self, X, available):
        return self._gather(X, available, lambda policy: policy.predict_proba)

    def _exploit(self, X, available):
        return self._gather(X, available, lambda policy: policy._exploit)

    def _gather(self, X, available, method_of):
        labels, context = self._split(X)
        out = np.empty((len(labels), len(self.classes_)))
        for label, rows in _groups(labels):
            policy, *rounds = self._of_segment(label, rows, context, available)
            out[rows] = method_of(policy)(*rounds)
        return out

    def _of_segment(self, label, rows, context, available):
        """Return the policy of a segment, and its contexts and offers in some rows."""
        policy = self.policies_.get(label, self._unseen)
        offered = None if available is None else available[rows]
        return policy, own(take_rows(context, rows), policy), offered


class SegmentRows:
    """Contexts beside the segments that the logs hold."""

    def __init__(self, context, segment, name):
        self.context, self.segment, self.name = context, segment, name
        self.shape = (len(segment), context.shape[1])

    def take(self, rows):
        """Return the rows `rows`, an array of ints."""
        context = take_rows(self.context, rows)
        return SegmentRows(context, self.segment[rows], self.name)


class _SegmentedBlock:
    def __init__(self, policy, X, available):
        self.policy, self.available = policy, available
        labels, self.context = policy._split(X)
        self.proba = np.empty((len(labels), len(policy.classes_)))
        self.parts = {}
        for label, rows in _groups(labels):
            self._ask(label, rows)

    def _ask(self, label, rows):
        given = label, rows, self.context, self.available
        policy, *rounds = self.policy._of_segment(*given)
        block = policy.look_ahead(*rounds)
        self.proba[rows] = block.proba
        self.parts[label] = policy, rows, block

    def refresh(self, start, action):
        label = self.policy._last
        if label not in self.parts:  # none of its rounds is in the block
            return True
        policy, rows, block = self.parts[label]
        first = int(np.searchsorted(rows, start))
        if first == len(rows):
            return True
        if policy is self.policy._unseen:  # it has got a policy of its own by now
            self._ask(label, rows[first:])
            return True
        if not block.refresh(first, action):
            return False
        self.proba[rows[first:]] = block.proba[first:]
        return True


def _groups(labels):
    """Yield (label, its rows in order)."""
    distinct, codes = np.unique(labels, return_inverse=True)
    rows = rows_of_codes(codes, len(distinct))
    return zip(distinct.tolist(), rows, strict=True)


# -- A policy that learns from an exploration log, in batches of time ------------------


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
        learn, ask = dict(_groups(learned_in)), dict(_groups(asked_in))
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

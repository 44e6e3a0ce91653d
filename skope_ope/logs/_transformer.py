# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Logs -> logs steps, and the one in which repeated views count once."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from skope_ope._progress import TellsOfFit
from skope_ope._sklearn import Estimator
from skope_ope.exceptions import LogsWarning
from skope_ope.logs._bandit_logs import BanditLogs
from skope_ope.logs._coded_labels import check_group
from skope_ope.logs._labels import factorise
from skope_ope.logs._row_container import own


class BaseLogTransformer(TransformerMixin, TellsOfFit, Estimator):
    """Base class of logs -> logs steps.

    A subclass implements `_fit(logs)` and `_transform(logs)`. It never changes the
    context, because the policy was trained on it. Anything but logs is returned
    unchanged, because `Pipeline.score(policy)` passes the policy through every step.
    """

    def fit(self, X, y=None):
        """Learn from logs.

        Parameters
        ----------
        X : BanditLogs
            The logged rounds.
        y : object, default=None
            Ignored: a Pipeline hands y, or a reward model, through here.

        Returns
        -------
        self : object
        """
        if not isinstance(X, BanditLogs):
            raise self._refusal(X)
        self._validate_params()
        self._fit(own(X, self))
        self.n_features_in_ = X.n_features
        return self

    def transform(self, X: Any) -> BanditLogs:
        """Return the transformed logs.

        Parameters
        ----------
        X : BanditLogs or anything else
            Logs; anything else is returned unchanged.

        Returns
        -------
        logs : BanditLogs
            New logs with the same `row_id` and the same context.
        """
        check_is_fitted(self)
        if isinstance(X, BanditLogs):
            given = own(X, self)
            out = self._transform(given)
            if out.context is given.context:  # which a step never changes
                out.__dict__["context"] = X.context
            return out
        if hasattr(X, "partitions"):  # unchanged, its propensities would be believed
            raise self._refusal(X)
        return X

    def _refusal(self, X):
        """Return what is raised where logs in memory are needed."""
        from skope_ope.logs.lazy._lazy_logs import kind_of

        return TypeError(f"{type(self).__name__} takes BanditLogs, got {kind_of(X)}.")


# -- repeated views of the same action count once --------------------------------------


class DistinctViews(BaseLogTransformer):
    """Merge consecutive rounds that show a user the same action [1]_.

    Users who see the same article repeatedly click less and less. A policy that keeps
    its action repeats it more often than a logger that varies. Its rounds are not
    independent, and not comparable with those of the logger. Distinct views make both
    comparable. Within each group (a user, a session), a run of the same action becomes
    one round. It keeps the first row of the run, with the largest reward of the run (a
    click if there was any). Read more in the :ref:`User Guide <distinct_views>`.

    Parameters
    ----------
    group : str, default=None
        Name of the column of the logs with the labels of the groups. `None`:
        `logs.group`.

    Attributes
    ----------
    n_merged_ : int
        Number of rows of `fit` that were merged into an earlier row.

    Raises
    ------
    ValueError
        If the logs have no groups.

    Notes
    -----
    A run has the propensity of its first row, since the action was chosen there. Rows
    are taken in the order in which they are stored. If time decreases within a group,
    a warning says so.

    References
    ----------
    .. [1] Li, L., Chu, W., Langford, J., & Wang, X. (2011). Unbiased offline
       evaluation of contextual-bandit-based news article recommendation algorithms.
       WSDM. Section 4.2.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import BanditLogs
    >>> from skope_ope.logs import DistinctViews
    >>> logs = BanditLogs(
    ...     np.empty((5, 0)),
    ...     ["a", "b", "a", "a", "b"],
    ...     [0.0, 0.0, 0.0, 1.0, 0.0],
    ...     group=["ann", "bob", "ann", "ann", "ann"],
    ... )
    >>> views = DistinctViews().fit_transform(logs)  # ann saw "a" three times running
    >>> views.action.tolist(), views.reward.tolist()
    (['a', 'b', 'b'], [1.0, 0.0, 0.0])
    """

    _parameter_constraints: dict = {"group": [str, None]}

    def __init__(self, group: str | None = None) -> None:
        self.group = group

    def _fit(self, logs):
        first, _ = self._runs(logs)
        self.n_merged_ = len(logs) - len(first)

    def _transform(self, logs):
        first, reward = self._runs(logs)
        order = np.argsort(first)
        return logs[first[order]].replace(reward=reward[order])

    def _runs(self, logs):
        """Return the first row of every run, and its largest reward."""
        groups = self._groups(logs)
        order = np.argsort(groups, kind="stable")  # one user's rounds after the other
        groups, action = groups[order], logs.action_index[order]
        same_user = groups[1:] == groups[:-1]
        _check_time(logs, order, same_user)
        new = np.ones(len(logs), dtype=bool)
        new[1:] = ~same_user | (action[1:] != action[:-1])
        starts = np.flatnonzero(new)
        return order[starts], np.maximum.reduceat(logs.reward[order], starts)

    def _groups(self, logs):
        if self.group is None:
            if logs.group is None:
                raise ValueError(
                    "DistinctViews needs the groups of the rounds, such as users. "
                    "Build the logs with group=..., or name a column, "
                    "DistinctViews('user')."
                )
            return logs.group_index
        if self.group not in logs.columns:
            raise ValueError(
                f"group {self.group!r} is not a column of the logs (they have "
                f"{sorted(logs.columns)}). Add it with logs.with_columns."
            )
        return factorise(check_group(logs.columns[self.group], len(logs)))[1]


def _check_time(logs, order, same_user):
    if logs.timestamp is None:
        return
    time = logs.timestamp[order]
    back = np.flatnonzero(same_user & (time[1:] < time[:-1]))
    if back.size:
        row = int(order[back[0] + 1])
        told = (
            f"timestamp decreases within a group at row {row} ({back.size} such rows): "
            "rounds are taken in the order in which they are stored. Sort the logs by "
            "time."
        )
        warnings.warn(LogsWarning(told, row), stacklevel=5)

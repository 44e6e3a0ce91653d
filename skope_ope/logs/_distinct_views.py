# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Repeated views of the same action count once."""

from __future__ import annotations

import warnings

import numpy as np

from skope_ope.exceptions import LogsWarning
from skope_ope.logs._coded_labels import check_group
from skope_ope.logs._factorise import factorise
from skope_ope.logs._transformer import BaseLogTransformer


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

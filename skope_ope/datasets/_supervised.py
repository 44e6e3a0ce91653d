# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Supervised data as bandit logs: every reward is known, so is every value."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from skope_ope.datasets._synthetic import draw_actions
from skope_ope.logs import BanditLogs
from skope_ope.logs._validation import check_probabilities
from skope_ope.policies import action_probabilities

if TYPE_CHECKING:
    from typing import Any

    from skope_ope._types import Array, ArrayLike, Contexts, RandomSeed

CONFOUNDED_SHARE = 0.7


def make_logs_from_classification(
    X: Contexts,
    y: ArrayLike,
    *,
    logging: Any = "confounded",
    actions: ArrayLike | None = None,
    random_state: RandomSeed = None,
) -> tuple[BanditLogs, Array]:
    r"""Turn a classification problem into bandit logs with full information.

    The actions are the classes. The reward of an action is 1 if it is a label of the
    row, and 0 otherwise. The logs hold the reward of one drawn action per row. The
    rewards of all actions are also returned, so that the true value of every policy is
    known. Read more in the :ref:`User Guide <datasets>`.

    Parameters
    ----------
    X : array, sparse matrix or data frame of shape (n_rounds, n_features)
        The context, kept as it is.
    y : array-like of shape (n_rounds,) or (n_rounds, n_actions)
        One label per row, or a 0/1 indicator of the labels of each row (dense or
        sparse), as `sklearn.preprocessing.MultiLabelBinarizer` makes of sets.
    logging : {"confounded", "uniform"}, array-like or policy, default="confounded"
        Distribution from which the logged actions are drawn.

        - "confounded": the rule of [1]_ (see Notes). It depends on the label, so the
          log is confounded given the context. Evaluators that use the logged
          propensities correct for this; reward models are biased.
        - "uniform": every action with the same probability.
        - array of shape (n_rounds, n_actions), or (n_actions,) for all rows:
          probabilities, in the order of the actions.
        - policy: any policy that can be evaluated on the logs.
    actions : array-like of shape (n_actions,), default=None
        Ordered labels. `None`: the sorted distinct labels of `y`, or the column
        numbers of an indicator.
    random_state : int, RandomState instance or None, default=None
        Seed of the logging probabilities of "confounded" and of the drawn actions.

    Returns
    -------
    logs : BanditLogs
        With `propensity`, `logging_proba` and `reward_range=(0, 1)`.
    rewards : ndarray of shape (n_rounds, n_actions)
        Rewards of all actions. The value of a policy with probabilities `pi` is
        ``(pi * rewards).sum(axis=1).mean()``.

    Raises
    ------
    ValueError
        If `y` does not hold labels, `logging` is none of the above, or its rows do not
        sum to one.

    Notes
    -----
    Confounded logging: with labels c of the row and s_a uniform on [0.1, 1], drawn
    for every row and action,

    .. math::

        \mu(a \mid x) = 0.3 \frac{s_a}{\sum_b s_b} + 0.7 \frac{1(a \in c)}{|c|}

    A row without labels uses the first part alone, normalised.

    References
    ----------
    .. [1] Dudik, Erhan, Langford, Li (2012). Sample-efficient nonstationary policy
       evaluation for contextual bandits. UAI.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skope_ope.datasets import make_logs_from_classification
    >>> X, y = load_digits(return_X_y=True)
    >>> logs, rewards = make_logs_from_classification(X, y, random_state=0)
    >>> logs
    BanditLogs(n_rounds=1797, n_features=64, n_actions=10)
    >>> uniform = 0.1 * rewards.sum(axis=1).mean()
    >>> f"{uniform:.2f}"  # what a uniform policy would earn
    '0.10'
    """
    labels, rewards = _full_information(y, actions)
    rng = check_random_state(random_state)
    proba = _logging_proba(X, labels, rewards, logging, rng)
    action, propensity = draw_actions(proba, rng)
    logs = BanditLogs(
        X,
        labels[action],
        rewards[np.arange(len(rewards)), action],
        propensity,
        actions=labels,
        logging_proba=proba,
        reward_range=(0.0, 1.0),
    )
    return logs, rewards


def _full_information(y, actions):
    """Ordered labels and the rewards of all of them."""
    y = y.toarray() if sparse.issparse(y) else np.asarray(y)
    if y.ndim not in (1, 2) or y.shape[0] == 0:
        raise ValueError(
            "y must hold one label per row, or a 0/1 indicator of shape (n_rounds, "
            f"n_actions), and at least one row; got shape {y.shape}."
        )
    if y.ndim == 1:
        # The codes, the messages about missing and unknown labels: those of logs.
        logs = BanditLogs(np.empty((len(y), 0)), y, np.zeros(len(y)), actions=actions)
        return logs.actions, np.eye(logs.n_actions)[logs.action_index]
    if y.dtype.kind not in "biuf" or not np.isin(y, (0, 1)).all():
        row = column = 0
        if y.dtype.kind in "biuf":
            row, column = np.argwhere(~np.isin(y, (0, 1)))[0]
        raise ValueError(
            "a two-dimensional y must be a 0/1 indicator of labels, got "
            f"{y[row, column]!r} at row {row}, column {column}. Use "
            "sklearn.preprocessing.MultiLabelBinarizer for sets of labels and "
            "y.ravel() for a column."
        )
    labels = np.arange(y.shape[1]) if actions is None else np.asarray(actions)
    if labels.shape != (y.shape[1],):
        raise ValueError(
            f"actions must name the {y.shape[1]} columns of y, got shape "
            f"{labels.shape}."
        )
    return labels, y.astype(np.float64)


def _logging_proba(X, labels, rewards, logging, rng):
    n_rounds, n_actions = rewards.shape
    if isinstance(logging, str):
        if logging == "uniform":
            return np.full((n_rounds, n_actions), 1 / n_actions)
        if logging == "confounded":
            return _confounded(rewards, rng)
        raise ValueError(
            'logging must be "confounded", "uniform", an array of probabilities or '
            f"a policy, got {logging!r}."
        )
    if not hasattr(logging, "predict_proba") and not hasattr(logging, "logs_proba"):
        proba = np.asarray(logging)
        if proba.ndim == 1:
            proba = np.broadcast_to(proba, (n_rounds, len(proba)))
        return check_probabilities("logging", proba, rewards.shape)
    # A log in which nothing has happened yet aligns the classes of the policy with
    # the actions, and its probabilities are checked.
    action = np.resize(labels, n_rounds)
    logs = BanditLogs(X, action, np.zeros(n_rounds), actions=labels)
    return action_probabilities(logging, logs)


def _confounded(rewards, rng):
    proba = rng.uniform(0.1, 1.0, size=rewards.shape)
    proba /= proba.sum(axis=1, keepdims=True)
    n_labels = rewards.sum(axis=1, keepdims=True)
    share = np.where(n_labels > 0, CONFOUNDED_SHARE, 0.0)
    proba *= 1 - share
    proba += share * rewards / np.maximum(n_labels, 1)
    return proba

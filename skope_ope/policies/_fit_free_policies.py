# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Policies that need no fit: a constant action, a function of contexts, uniform."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from skope_ope._texts import meant
from skope_ope._types import Array, ArrayLike, Contexts, Label
from skope_ope.logs import BanditLogs
from skope_ope.logs._row_container import check_output_labels, own
from skope_ope.logs._validation import label_codes
from skope_ope.policies._base import (
    FitFreePolicy,
    check_some_available,
    check_some_mass,
    n_rows,
    restrict,
)
from skope_ope.policies._policy_outputs import (
    columns_told,
    function_table,
    report_unknown,
)


class ConstantPolicy(FitFreePolicy):
    """Always take the same action.

    You can evaluate it without `fit`. If a round does not offer the action, it raises
    an error.

    Parameters
    ----------
    action : label
        The action.

    Attributes
    ----------
    classes_ : ndarray of shape (n_actions,)
        Action labels: those of `fit`, before that the one action.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import ConstantPolicy
    >>> policy = ConstantPolicy("b").fit(np.zeros((2, 1)), ["a", "b"])
    >>> policy.predict_proba([[0.0]])
    array([[0., 1.]])
    """

    def __init__(self, action: Label) -> None:
        self.action = action

    def fit(self, X, y=None):
        """Learn the set of actions, which must include the constant one.

        Parameters
        ----------
        X : BanditLogs, or array-like of shape (n_samples, n_features)
            Logs or contexts.
        y : array-like of shape (n_samples,), default=None
            Action labels, if `X` are contexts.

        Returns
        -------
        self : ConstantPolicy
        """
        classes = self._actions_of(X, y)
        if label_codes(classes, [self.action])[0] < 0:
            raise ValueError(
                f"action {self.action!r} is not among the actions {classes.tolist()}."
                f"{meant(self.action, classes.tolist())}"
            )
        self._fitted_classes = classes
        return self

    @property
    def classes_(self) -> Array:
        """Action labels."""
        return getattr(self, "_fitted_classes", np.array([self.action]))

    def _proba(self, X, available):
        proba = np.zeros((n_rows(X), len(self.classes_)))
        proba[:, label_codes(self.classes_, [self.action])[0]] = 1.0
        return restrict(proba, available)

    def logged_proba(self, logs: BanditLogs) -> Array:
        """Return the probability of the logged actions.

        Parameters
        ----------
        logs : BanditLogs
            The rounds.

        Returns
        -------
        proba : ndarray of shape (n_rounds,)
            One where the action of the policy was logged.
        """
        return (logs.action_index == self._code_in(logs)).astype(float)

    def mass_on(self, logs: BanditLogs, codes: ArrayLike) -> Array:
        """Return the probability of a set of actions.

        Parameters
        ----------
        logs : BanditLogs
            The rounds.
        codes : array-like of int of shape (n_codes,)
            Distinct indices into `logs.actions`.

        Returns
        -------
        mass : ndarray of shape (n_rounds,)
        """
        return np.full(len(logs), float(np.isin(self._code_in(logs), codes)))

    def _code_in(self, logs):
        """Return the index of the action, which every round must be able to take."""
        code = label_codes(logs.actions, [self.action])[0]
        if logs.available is not None:
            known = code >= 0
            check_some_mass(logs.available[:, code] & known)
        elif code < 0:
            report_unknown(np.array([self.action]), np.ones((len(logs), 1)), logs)
        return code


class FunctionPolicy(FitFreePolicy):
    """Act by a function of the contexts.

    You can evaluate it without `fit`: the actions are then `logs.actions`. Read more
    in the :ref:`User Guide <rule_by_hand>`.

    Parameters
    ----------
    func : callable
        `func(X)` gets the contexts, a frame if the logs hold one. It gives one of
        these:

        - the label of one action per round, shape (n_rounds,);
        - the probability of every action, an array of shape (n_rounds, n_actions)
          with its columns in the order of `classes_`;
        - these probabilities as a frame, with columns named like the actions, in any
          order.

        Probabilities are renormalised over the offered actions. If no offered action
        has any, the policy raises.

    Attributes
    ----------
    classes_ : ndarray of shape (n_actions,)
        Action labels of the columns, after `fit`.

    Raises
    ------
    ValueError
        If `func` names an action that there is not, or gives neither a label nor a
        distribution for every round.

    Examples
    --------
    A rule that names the action of every round:

    >>> import numpy as np
    >>> from skope_ope import BanditLogs, FunctionPolicy
    >>> from skope_ope.policies import action_probabilities
    >>> logs = BanditLogs([[0.2], [0.9]], ["a", "b"], [1.0, 0.0], [0.5, 0.5])
    >>> rule = FunctionPolicy(lambda X: np.where(X[:, 0] > 0.5, "a", "b"))
    >>> action_probabilities(rule, logs)
    array([[0., 1.],
           [1., 0.]])

    A rule that draws:

    >>> policy = FunctionPolicy(lambda X: np.column_stack([X[:, 0], 1 - X[:, 0]]))
    >>> action_probabilities(policy, logs).round(1)
    array([[0.2, 0.8],
           [0.9, 0.1]])
    """

    def __init__(self, func: Callable[..., Any]) -> None:
        self.func = func

    def _proba(self, X, available):
        classes = getattr(self, "classes_", None)
        with columns_told(X):
            given = self.func(own(X, self.func))
        check_output_labels("the output of func", given, X)
        given = function_table("the output of func", given, classes, n_rows(X))
        return restrict(given, available)

    def _knowing(self, classes):
        """Return a copy that knows the labels of the actions."""
        policy = copy.copy(self)
        policy.classes_ = classes
        return policy

    def _on_logs(self, logs, available):
        if not hasattr(self, "classes_"):
            return self._knowing(logs.actions)._on_logs(logs, available)
        return super()._on_logs(logs, available)

    def predict(self, X: Contexts) -> Array:
        """Most likely action of every round, after `fit` or for logs.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_rounds, n_features), or BanditLogs
            Contexts; or logs, whose `context` and `available` are used.

        Returns
        -------
        action : ndarray of shape (n_rounds,)
        """
        if not hasattr(self, "classes_") and not isinstance(X, BanditLogs):
            raise ValueError(
                "FunctionPolicy does not know the labels of its columns yet: call "
                "fit(logs) or fit(X, y)."
            )
        return super().predict(X)


class UniformPolicy(FitFreePolicy):
    """Take every (offered) action with the same probability.

    You can evaluate it without `fit`: the actions are those of the logs.

    Attributes
    ----------
    classes_ : ndarray of shape (n_actions,)
        Action labels, after `fit`.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import UniformPolicy
    >>> UniformPolicy().fit(np.zeros((2, 1)), ["a", "b"]).predict_proba([[0.0]])
    array([[0.5, 0.5]])
    """

    def _proba(self, X, available):
        if not hasattr(self, "classes_"):
            raise ValueError(
                "UniformPolicy does not know the actions yet: call fit(logs) or "
                "fit(X, y), or pass it to an evaluator, which knows them."
            )
        return self._uniform(n_rows(X), len(self.classes_), available)

    def logs_proba(self, logs: BanditLogs) -> Array:
        """Return probabilities over the actions of the logs.

        Parameters
        ----------
        logs : BanditLogs
            The rounds.

        Returns
        -------
        proba : ndarray of shape (n_rounds, n_actions)
            Columns in the order of `logs.actions`.
        """
        return self._uniform(len(logs), logs.n_actions, logs.available)

    def logged_proba(self, logs: BanditLogs) -> Array:
        """Return the probability of the logged actions.

        Parameters
        ----------
        logs : BanditLogs
            The rounds.

        Returns
        -------
        proba : ndarray of shape (n_rounds,)
            One over the number of offered actions.
        """
        return 1.0 / self._n_offered(logs)

    def mass_on(self, logs: BanditLogs, codes: ArrayLike) -> Array:
        """Return the probability of a set of actions.

        Parameters
        ----------
        logs : BanditLogs
            The rounds.
        codes : array-like of int of shape (n_codes,)
            Distinct indices into `logs.actions`.

        Returns
        -------
        mass : ndarray of shape (n_rounds,)
            The share of the offered actions that are in the set.
        """
        codes = np.asarray(codes, dtype=np.intp)
        if logs.available is None:
            return len(codes) / self._n_offered(logs)
        in_set = np.zeros(logs.n_actions, dtype=bool)
        in_set[codes] = True
        offered = logs.available.sum(axis=1, where=in_set)
        return offered / self._n_offered(logs)

    @staticmethod
    def _n_offered(logs):
        if logs.available is None:
            return np.full(len(logs), float(logs.n_actions))
        check_some_available(logs.available)
        return logs.available.sum(axis=1, dtype=float)

    @staticmethod
    def _uniform(n_rounds, n_actions, available):
        if available is None:
            return np.full((n_rounds, n_actions), 1.0 / n_actions)
        check_some_available(available)
        return available / available.sum(axis=1, keepdims=True)

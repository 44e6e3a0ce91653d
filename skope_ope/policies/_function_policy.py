# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""A function of the contexts as a policy."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from skope_ope._types import Array, Contexts
from skope_ope.logs import BanditLogs
from skope_ope.logs._row_container import own
from skope_ope.logs._row_labels import check_output_labels
from skope_ope.policies._base import FitFreePolicy, n_rows, restrict
from skope_ope.policies._policy_outputs import columns_told, function_table


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

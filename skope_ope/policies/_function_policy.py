# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""A function of the contexts as a policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skope_ope.policies._base import FitFreePolicy, as_floats, restrict

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from skope_ope._types import Array, Contexts


class FunctionPolicy(FitFreePolicy):
    """Act by a function of the contexts.

    You can evaluate it without `fit`: the columns then follow the order of
    `logs.actions`.

    Parameters
    ----------
    func : callable
        `func(X)` gives an array of shape (n_rounds, n_actions) with the probability
        of every action. If offers vary, it is renormalised over the offered actions.

    Attributes
    ----------
    classes_ : ndarray of shape (n_actions,)
        Action labels of the columns, after `fit`.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import BanditLogs, FunctionPolicy, action_probabilities
    >>> policy = FunctionPolicy(lambda X: np.column_stack([X[:, 0], 1 - X[:, 0]]))
    >>> logs = BanditLogs([[0.2], [0.9]], ["a", "b"], [1.0, 0.0], [0.5, 0.5])
    >>> action_probabilities(policy, logs).round(1)
    array([[0.2, 0.8],
           [0.9, 0.1]])
    """

    def __init__(self, func: Callable[..., Any]) -> None:
        self.func = func

    def _proba(self, X, available):
        return restrict(as_floats("the output of func", self.func(X)), available)

    def predict(self, X: Contexts) -> Array:
        """Most likely action of every round, after `fit`.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_rounds, n_features), or BanditLogs
            Contexts; or logs, whose `context` and `available` are used.

        Returns
        -------
        action : ndarray of shape (n_rounds,)
        """
        if not hasattr(self, "classes_"):
            raise ValueError(
                "FunctionPolicy does not know the labels of its columns yet: call "
                "fit(logs) or fit(X, y)."
            )
        return super().predict(X)

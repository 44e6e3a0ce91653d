# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The policy that takes every offered action equally often."""

from __future__ import annotations

import numpy as np

from skope_ope._types import Array, ArrayLike
from skope_ope.logs import BanditLogs
from skope_ope.policies._base import FitFreePolicy, check_some_available, n_rows


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

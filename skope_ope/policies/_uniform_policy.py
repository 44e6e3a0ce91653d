# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The policy that takes every offered action equally often."""

import numpy as np

from skope_ope.policies._base import FitFreePolicy, check_some_available, n_rows


class UniformPolicy(FitFreePolicy):
    """Take every (offered) action with the same probability.

    It needs no `fit` to be evaluated: the actions are those of the logs.

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

    def logs_proba(self, logs):
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

    @staticmethod
    def _uniform(n_rounds, n_actions, available):
        if available is None:
            return np.full((n_rounds, n_actions), 1.0 / n_actions)
        check_some_available(available)
        return available / available.sum(axis=1, keepdims=True)

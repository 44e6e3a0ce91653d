# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The policy that always takes the same action."""

from __future__ import annotations

import numpy as np

from skope_ope._meant import meant
from skope_ope._types import Array, ArrayLike, Label
from skope_ope.logs import BanditLogs
from skope_ope.logs._validation import label_codes
from skope_ope.policies._action_probabilities import report_unknown
from skope_ope.policies._base import FitFreePolicy, check_some_mass, n_rows, restrict


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

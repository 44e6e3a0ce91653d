# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""A function of the contexts and of the history as a policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from skope_ope.logs._concat import stack_rows
from skope_ope.logs._row_container import own
from skope_ope.logs._validation import check_distributions
from skope_ope.policies._adaptive import AdaptivePolicy
from skope_ope.policies._base import n_rows, restrict
from skope_ope.policies._policy_outputs import columns_told, function_table

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from skope_ope._types import Contexts
    from skope_ope.logs._bandit_logs import BanditLogs


class PolicyHistory(NamedTuple):
    """The rounds that a policy has learned from, in their order."""

    contexts: object
    actions: np.ndarray
    rewards: np.ndarray
    proba: np.ndarray


class AdaptiveFunctionPolicy(AdaptivePolicy):
    """Act by a function of the contexts and of the policy's own history.

    It makes a policy of a function. A subclass of `AdaptivePolicy` with a cheap
    `update` is faster. Read more in the :ref:`User Guide <adaptive_policies>`.

    Parameters
    ----------
    func : callable
        `func(X, history)` gives the label of one action per round, shape (n_rounds,),
        or an array of shape (n_rounds, n_actions) with the probability of every
        action. Columns are in the order of `logs.actions`; those of a frame are
        matched by name. If offers vary, the array is renormalised over the offered
        actions. `history` is a tuple (contexts, actions, rewards, proba) of the rounds
        so far. Contexts have the shape (n_history, n_features). Action indices, rewards
        and the policy's own probabilities of these actions have the shape (n_history,).
        The function must not change them, and its result must depend on nothing else.

    Attributes
    ----------
    classes_ : ndarray of shape (n_actions,)
        Action labels.
    history_ : tuple (contexts, actions, rewards, proba)
        The history so far.

    See Also
    --------
    FunctionPolicy : A function of the contexts only.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import BanditLogs
    >>> from skope_ope.policies import AdaptiveFunctionPolicy
    >>> def win_stay_lose_shift(X, history):
    ...     last = history.actions[-1] if len(history.actions) else 0
    ...     if len(history.rewards) and history.rewards[-1] == 0:
    ...         last = (last + 1) % 2
    ...     return np.tile(np.eye(2)[last], (len(X), 1))
    >>> logs = BanditLogs(np.zeros((2, 1)), ["a", "b"], [0.0, 1.0], [0.5, 0.5])
    >>> policy = AdaptiveFunctionPolicy(win_stay_lose_shift).fit(logs)
    >>> changed = policy.update(logs[:1].context, 0, 0.0, 1.0)
    >>> policy.predict_proba([[0.0]])
    array([[0., 1.]])
    """

    _parameter_constraints: dict = {"func": [callable]}

    def __init__(self, func: Callable[..., Any]) -> None:
        self.func = func

    def reset(self, logs: BanditLogs) -> None:
        """Forget everything; learn the actions from empty logs.

        Parameters
        ----------
        logs : BanditLogs
            `logs[:0]` of the logs that the policy will act on.
        """
        super().reset(logs)
        self._contexts = [self.context_of(logs)]
        self._rounds = np.empty((3, 16))
        self._n_rounds = 0

    def update(self, X: Contexts, action: int, reward: float, proba: float) -> bool:
        """Append one round to the history.

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

        Returns
        -------
        changed : bool
            True.
        """
        if self._n_rounds == self._rounds.shape[1]:  # double: appending stays cheap
            self._rounds = np.hstack([self._rounds, np.empty_like(self._rounds)])
        self._rounds[:, self._n_rounds] = action, reward, proba
        self._contexts.append(X)
        self._n_rounds += 1
        return True

    @property
    def history_(self) -> Any:
        """The history so far."""
        if len(self._contexts) > 1:
            self._contexts = [stack_rows(self._contexts)]
        actions, rewards, proba = self._rounds[:, : self._n_rounds]
        return PolicyHistory(self._contexts[0], actions.astype(np.intp), rewards, proba)

    def _proba(self, X, available):
        X = X if hasattr(X, "shape") else np.asarray(X)
        with columns_told(X):
            given, classes = self.func(own(X, self.func), self.history_), self.classes_
        proba = function_table("the output of func", given, classes, n_rows(X))
        shape = (n_rows(X), len(classes))
        if proba.shape != shape:
            raise ValueError(
                f"func gave an array of shape {proba.shape}, expected {shape} "
                "(n_rounds, n_actions): one column per action of the logs."
            )
        if available is not None:
            return restrict(proba, available)
        check_distributions("func", proba)
        return proba

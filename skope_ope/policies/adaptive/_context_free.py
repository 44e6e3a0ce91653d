# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What policies share that learn one mean reward per action and ignore the context."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import numpy as np

from skope_ope.policies._adaptive import AdaptivePolicy
from skope_ope.policies._base import first_best_of_list, greedy, n_rows

if TYPE_CHECKING:
    from typing import Any

    from skope_ope._types import Array, Contexts


class ContextFreePolicy(AdaptivePolicy):
    """Base class of policies whose scores depend on counts and mean rewards only."""

    # A subclass implements `_scores()`, a list with the score of every action; the best
    # one is taken, mixed with `_epsilon` uniform exploration. Lists of Python numbers,
    # not arrays: at some ten actions they are several times faster.

    context_free = takes_weight = True
    _epsilon = 0.0

    def reset(self, logs):
        """Forget everything; learn the actions from empty logs.

        Parameters
        ----------
        logs : BanditLogs
            `logs[:0]` of the logs that the policy will act on.
        """
        super().reset(logs)
        self._n_rounds = 0
        self._counts = [0] * logs.n_actions
        self._totals = [0.0] * logs.n_actions
        self._means = [inf] * logs.n_actions  # untried actions come first

    def update(self, X, action, reward, proba, weight=1):
        """Learn from one round of the policy's own history.

        Parameters
        ----------
        X : object
            Ignored.
        action : int
            Index of the action in `classes_`.
        reward : float
            Its reward.
        proba : float
            Ignored.
        weight : float, default=1
            How often the round counts in the count and the mean of the action.

        Returns
        -------
        changed : bool
            True.
        """
        self._n_rounds += 1
        self._counts[action] += weight
        self._totals[action] += weight * float(reward)
        self._means[action] = self._totals[action] / self._counts[action]
        return True

    @property
    def counts_(self) -> Array:
        """How often each action was taken."""
        return np.array(self._counts)

    @property
    def means_(self) -> Array:
        """Mean reward of every action, NaN where it was never taken."""
        return np.where(self.counts_ > 0, self._means, np.nan)

    def action_row(self) -> list[float]:
        """Probability of every action, for all contexts.

        Returns
        -------
        proba : list of float
            A new list every time.
        """
        epsilon, n_actions = self._epsilon, len(self._counts)
        proba = [epsilon / n_actions] * n_actions
        proba[first_best_of_list(self._scores())] += 1 - epsilon
        return proba

    def look_ahead(self, X: Contexts, available: Array | None = None) -> Any:
        """Probabilities of a block of coming rounds; see `AdaptivePolicy`.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_rounds, n_features)
            Contexts, of which only the number counts.
        available : ndarray of bool of shape (n_rounds, n_actions), default=None
            Offered actions.

        Returns
        -------
        block : object
            Its `refresh` never fails.
        """
        return _ContextFreeBlock(self, X, available)

    def _proba(self, X, available):
        if available is None:
            return np.tile(self.action_row(), (n_rows(X), 1))
        scores = np.broadcast_to(self._scores(), available.shape)
        return greedy(scores, self._epsilon, available)

    def _exploit(self, X, available):
        """Take the best mean; an untried action only where nothing else is offered."""
        scores = [-inf if mean == inf else mean for mean in self._means]
        if available is None:
            return greedy(np.tile(scores, (n_rows(X), 1)))
        lowest = min([0.0, *(score for score in scores if score > -inf)])
        # an action that is not offered must stay behind one that was never tried
        scores = [lowest - 1 if score == -inf else score for score in scores]
        return greedy(np.broadcast_to(scores, available.shape), 0.0, available)


class _ContextFreeBlock:
    def __init__(self, policy, X, available):
        self.policy, self.available = policy, available
        self.proba = policy._proba(X, available)

    def refresh(self, start, action):
        if self.available is None:
            self.proba[start:] = self.policy.action_row()
        elif start < len(self.proba):
            rest = self.available[start:]
            self.proba[start:] = self.policy._proba(None, rest)
        return True

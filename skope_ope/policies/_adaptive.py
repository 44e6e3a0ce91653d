# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Policies that learn while they act: the protocol, and how blocks are asked for."""

import numpy as np
from sklearn.base import clone
from sklearn.utils.metadata_routing import UNUSED

from skope_ope.logs import BanditLogs
from skope_ope.policies._base import BasePolicy, first_best


class AdaptivePolicy(BasePolicy):
    """Base class of policies that depend on their own history.

    A subclass implements `reset(logs)`, `predict_proba(X, available=None)` and
    `update(X, action, reward, proba)`. **It changes only inside `update`.** That rule
    lets an evaluator ask for a whole block of coming rounds at once, and throw away
    only what a change has made stale. Randomness inside a policy is seeded from its
    `random_state` at `reset`. `check_adaptive_policy` tests a policy of one's own.

    Attributes
    ----------
    context_free : bool
        Whether one row of probabilities serves all contexts. Such a policy
        implements `action_row()`, a list with the probability of every action, and
        its `update` ignores X.
    """

    context_free = False
    _parameter_constraints: dict = {}
    __metadata_request__update = {"X": UNUSED}

    def fit(self, X, y=None):
        """Start with an empty history; nothing is learned.

        Parameters
        ----------
        X : BanditLogs
            Logs that tell the actions and the features.
        y : object, default=None
            Ignored.

        Returns
        -------
        self : AdaptivePolicy
        """
        if not isinstance(X, BanditLogs):
            raise TypeError(
                f"{type(self).__name__} is fitted on logs, from which it takes the "
                f"actions only; got {type(X).__name__}."
            )
        self._validate_params()
        self.reset(X[:0])
        return self

    def reset(self, logs):
        """Forget everything; learn actions and features from empty logs.

        Parameters
        ----------
        logs : BanditLogs
            `logs[:0]` of those to come.
        """
        self.classes_ = logs.actions
        self.n_features_in_ = logs.n_features

    def update(self, X, action, reward, proba):
        """Learn from one round of the policy's own history.

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
            Whether action probabilities may have changed.
        """
        raise TypeError(f"{type(self).__name__} does not define update.")

    def look_ahead(self, X, available=None):
        """Probabilities of a block of coming rounds.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_rounds, n_features)
            Contexts.
        available : ndarray of bool of shape (n_rounds, n_actions), default=None
            Offered actions.

        Returns
        -------
        block : object
            With `proba` of shape (n_rounds, n_actions), and `refresh(start, action)`,
            called after `update` has returned True: it brings `proba[start:]` up to
            date and returns True, or returns False to be thrown away.
        """
        return Block(self.predict_proba(X, available))

    def frozen(self, explore=False):
        """Return the policy as it is now, as a stationary one.

        Parameters
        ----------
        explore : bool, default=False
            Whether it keeps exploring; otherwise it always takes the most likely
            action.

        Returns
        -------
        policy : FrozenPolicy
        """
        return FrozenPolicy(self, explore=explore)


class Block:
    """Probabilities of coming rounds that no update can bring up to date."""

    def __init__(self, proba):
        self.proba = proba

    def refresh(self, start, action):
        """Say that the rest of the block is stale."""
        return False


class FrozenPolicy(BasePolicy):
    """A learned policy that learns no more.

    Parameters
    ----------
    policy : AdaptivePolicy
        A policy with a history.
    explore : bool, default=False
        Whether it keeps exploring; otherwise it takes the most likely action.

    Attributes
    ----------
    classes_ : ndarray of shape (n_actions,)
        Action labels.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import BanditLogs, EpsilonGreedy
    >>> logs = BanditLogs(np.zeros((2, 1)), [0, 1], [0.0, 1.0], [0.5, 0.5])
    >>> policy = EpsilonGreedy(epsilon=0.2).fit(logs)
    >>> for action, reward in [(0, 0.0), (1, 1.0)]:
    ...     changed = policy.update(logs[:1].context, action, reward, 0.5)
    >>> policy.frozen().predict_proba(np.zeros((1, 1)))
    array([[0., 1.]])
    """

    def __init__(self, policy, *, explore=False):
        self.policy = policy
        self.explore = explore

    def __sklearn_clone__(self):
        return self  # a clone would forget what was learned

    def __sklearn_is_fitted__(self):
        return True

    def fit(self, X, y=None):
        """Do nothing: the policy is frozen.

        Parameters
        ----------
        X, y : object
            Ignored.

        Returns
        -------
        self : FrozenPolicy
        """
        return self

    @property
    def classes_(self):
        """Action labels."""
        return self.policy.classes_

    def _proba(self, X, available):
        proba = self.policy.predict_proba(X, available)
        if self.explore:
            return proba
        greedy = np.zeros_like(proba)
        greedy[np.arange(len(proba)), first_best(proba)] = 1.0
        return greedy


def fresh(policy, logs):
    """Return a clone of an adaptive policy with an empty history for these logs."""
    policy = clone(policy)
    if hasattr(policy, "_validate_params"):
        policy._validate_params()
    policy.reset(logs[:0])
    return policy

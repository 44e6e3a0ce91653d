# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The action whose linear estimate could be the best."""

from __future__ import annotations

from math import sqrt
from numbers import Real
from typing import TYPE_CHECKING

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from skope_ope._sklearn import HasMethods, Interval
from skope_ope.logs._row_container import own
from skope_ope.policies._adaptive import AdaptivePolicy
from skope_ope.policies._base import greedy
from skope_ope.policies._rows import dense_rows
from skope_ope.policies.adaptive._lin_ucb_blocks import AllBounds, BoundsOfGiven

if TYPE_CHECKING:
    from typing import Any

    from skope_ope._types import Array, Contexts
    from skope_ope.logs._bandit_logs import BanditLogs

# Updates of an action between two inversions from scratch, which shed the rounding
# errors of the rank-one updates.
UPDATES_PER_INVERSION = 10_000
LOSES_DIGITS = 1e6  # width x^T A^-1 x of an update, which costs as many digits
ROWS_PER_SUM = 100  # a divisor of it
# From here on it is cheaper to look for an action that beats a given one than to keep
# the bounds of all up to date.
MANY_ACTIONS = 128


class LinUCB(AdaptivePolicy):
    r"""Take the action with the largest upper bound of a ridge regression [1]_.

    Every action has its own regression (the disjoint form). With the rounds of the
    policy's own history in which a was taken,

    .. math:: A_a = \lambda I + \sum x x^\top, \quad b_a = \sum r x, \quad
        \hat\theta_a = A_a^{-1} b_a,

    .. math:: a_t = \arg\max_a x_t^\top \hat\theta_a
        + \alpha \sqrt{x_t^\top A_a^{-1} x_t}.

    There is no intercept: add a column of ones to the contexts if they have none.
    Bounds within 1e-12 (relative) of the best are tied; the lowest index wins. Read
    more in the :ref:`User Guide <adaptive_policies>`.

    Parameters
    ----------
    alpha : float, default=1.0
        Weight of the uncertainty.
    regularization : float, default=1.0
        :math:`\lambda`, the ridge penalty.
    features : transformer, default=None
        Makes features of the contexts, such as a frame with texts. Fit it to earlier
        contexts and freeze it, because policies are cloned:
        `FrozenEstimator(ContextEncoder().fit(earlier))`. `None`: the contexts
        themselves.

    Attributes
    ----------
    classes_ : ndarray of shape (n_actions,)
        Action labels.
    n_features_in_ : int
        Number of columns of the contexts.
    coef_ : ndarray of shape (n_actions, n_features)
        Coefficients :math:`\hat\theta_a`.
    counts_ : ndarray of shape (n_actions,)
        How often each action was taken.

    See Also
    --------
    UCB1 : The same without contexts.

    Notes
    -----
    :math:`A_a^{-1}` is updated by rank one (Sherman-Morrison), :math:`O(d^2)` a round.
    It is computed from scratch every 10,000 updates of an action. An update changes
    one action only: in a block of coming rounds, only the scores of that action are
    computed again.

    References
    ----------
    .. [1] Li, L., Chu, W., Langford, J., & Schapire, R. E. (2010). A
       contextual-bandit approach to personalized news article recommendation. WWW.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import BanditLogs, LinUCB
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> logs = BanditLogs(X, ["a", "b"], [0.0, 1.0], [0.5, 0.5])
    >>> policy = LinUCB(alpha=0.5).fit(logs)
    >>> changed = policy.update(X[:1], 0, 0.0, 1.0)  # action "a" gave nothing at x_0
    >>> policy.predict(X)
    array(['b', 'a'], dtype='<U1')
    """

    _parameter_constraints: dict = {
        "alpha": [Interval(Real, 0, None, closed="left")],
        "regularization": [Interval(Real, 0, None, closed="neither")],
        "features": [HasMethods(["transform", "get_feature_names_out"]), None],
    }

    takes_weight = True

    def __init__(
        self, alpha: float = 1.0, *, regularization: float = 1.0, features: Any = None
    ) -> None:
        self.alpha = alpha
        self.regularization = regularization
        self.features = features

    def reset(self, logs: BanditLogs) -> None:
        """Forget everything; learn actions and features from empty logs.

        Parameters
        ----------
        logs : BanditLogs
            `logs[:0]` of the logs that the policy will act on.
        """
        super().reset(logs)
        n_actions, n_features = logs.n_actions, logs.n_features
        if self.features is not None:
            n_features = len(self._fitted_features().get_feature_names_out())
        shape = (n_actions, n_features, n_features)
        identity = np.broadcast_to(np.eye(n_features), shape)
        self._inverse = identity / float(self.regularization)
        self._moment = np.zeros((n_actions, n_features))
        self.coef_ = np.zeros((n_actions, n_features))
        self._counts = [0] * n_actions
        self._imprecise = set()  # actions whose inverse has lost digits
        # A_a is needed at inversions only: it is summed up a hundred rows at a time
        self._gram = identity * float(self.regularization)
        self._rows_to_add = [[] for _ in range(n_actions)]

    @property
    def counts_(self) -> Array:
        """How often each action was taken."""
        return np.array(self._counts)

    def update(
        self, X: Contexts, action: int, reward: float, proba: float, weight: float = 1.0
    ) -> bool:
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
            Ignored.
        weight : float, default=1.0
            How often the round counts in the two sums.

        Returns
        -------
        changed : bool
            True.
        """
        x = self._dense(X)[0]
        if weight != 1.0:  # both sums are of products of two of these
            x, reward = sqrt(weight) * x, sqrt(weight) * reward
        inverse, moment = self._inverse[action], self._moment[action]
        if reward:
            moment += reward * x
        step = inverse.dot(x)
        width = float(x.dot(step))
        inverse -= step[:, None] * (step / (1.0 + width))
        self._rows_to_add[action].append(x)
        self._counts[action] += 1
        if not self._counts[action] % ROWS_PER_SUM:
            self._add_rows(action)
        if width > LOSES_DIGITS:
            self._imprecise.add(action)
        elif action in self._imprecise:  # all directions seen are seen well by now
            self._imprecise.remove(action)
            self._add_rows(action, invert=True)
        inverse.dot(moment, out=self.coef_[action])
        return True

    def _add_rows(self, action, invert=False):
        if self._rows_to_add[action]:
            rows = np.array(self._rows_to_add[action])
            self._gram[action] += rows.T @ rows
        self._rows_to_add[action] = []
        if invert or not self._counts[action] % UPDATES_PER_INVERSION:
            self._inverse[action] = np.linalg.inv(self._gram[action])

    def look_ahead(self, X: Contexts, available: Array | None = None) -> Any:
        """Probabilities of a block of coming rounds; see `AdaptivePolicy`.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_rounds, n_features)
            Contexts.
        available : ndarray of bool of shape (n_rounds, n_actions), default=None
            Offered actions.

        Returns
        -------
        block : object
            Its `refresh` computes the scores of one action anew and never fails.
        """
        return AllBounds(self, self._rows(X), available)

    def look_ahead_at(
        self, X: Contexts, action: Array, available: Array | None = None
    ) -> Any:
        """Probabilities of given actions in a block of rounds; see `AdaptivePolicy`.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_rounds, n_features)
            Contexts.
        action : ndarray of int of shape (n_rounds,)
            Indices of the actions.
        available : ndarray of bool of shape (n_rounds, n_actions), default=None
            Offered actions.

        Returns
        -------
        block : object or None
            `None` where there are few actions: then `look_ahead` is the faster one.
        """
        if len(self.coef_) < MANY_ACTIONS:
            return None
        return BoundsOfGiven(self, self._rows(X), action, available)

    def _fitted_features(self):
        try:
            check_is_fitted(self.features)
        except NotFittedError as error:
            raise NotFittedError(
                "features of LinUCB must be fitted to earlier contexts and frozen: "
                "FrozenEstimator(ContextEncoder().fit(earlier))."
            ) from error
        return self.features

    def _dense(self, X):
        if self.features is not None:
            X = self.features.transform(own(X, self.features))
        return dense_rows(X, "LinUCB")

    def _rows(self, X):
        X = self._dense(X)
        if not np.isfinite(X.sum()) and not np.isfinite(X).all():
            row = int(np.flatnonzero(~np.isfinite(X).all(axis=1))[0])
            raise ValueError(
                f"LinUCB needs finite contexts, but row {row} is {X[row].tolist()}. "
                "Fill missing values before you build the logs."
            )
        return X

    def _proba(self, X, available):
        return AllBounds(self, self._rows(X), available).proba

    def _exploit(self, X, available):
        """Take the best estimate, without the bonus."""
        return greedy(self._rows(X) @ self.coef_.T, 0.0, available)

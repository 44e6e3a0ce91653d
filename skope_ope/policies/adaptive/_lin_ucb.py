# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The action whose linear estimate could be the best."""

from __future__ import annotations

from math import sqrt
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from skope_ope._sklearn import HasMethods, Interval
from skope_ope._types import Array, Contexts
from skope_ope.logs import BanditLogs
from skope_ope.logs._row_container import own
from skope_ope.policies._adaptive import AdaptivePolicy
from skope_ope.policies._base import check_some_available, first_best, greedy

# Updates of an action between two inversions from scratch, which shed the rounding
# errors of the rank-one updates.
UPDATES_PER_INVERSION = 10_000
LOSES_DIGITS = 1e6  # width x^T A^-1 x of an update, which costs as many digits
ROWS_PER_SUM = 100  # a divisor of it
# From here on it is cheaper to look for an action that beats a given one than to keep
# the bounds of all up to date.
RIVALS_FROM = 128  # actions


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
        if len(self.coef_) < RIVALS_FROM:
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


# -- bounds of LinUCB for blocks of coming rounds --------------------------------------
# Of few actions all bounds are kept, and an update computes those of one action anew.
# Of many actions, where it is only asked whether given ones are taken, nearly all
# rounds are settled by a few rivals: the best actions of some rounds beat the given
# action in most of the others.

# Up to here the products x_i x_j of a block are kept: a width is then one dot product.
MOST_SQUARED_FEATURES = 16
PRODUCTS = 1 << 17  # products x_i x_j, or entries of A_a^-1, that are held at once
ROUNDS_FOR_RIVALS = 32  # of which all bounds are computed, to find rivals
# A bound may differ in its last digits by the way in which it was computed. Where the
# best one is known, 1e-12 is what counts as a tie.
BOUND_ROUNDING = 1e-14


class AllBounds:
    """Scores of a block of rounds; rounds are columns, actions and features rows."""

    def __init__(self, policy, X, available):
        self.policy, self.features = policy, np.ascontiguousarray(X.T)
        self.squares = self.hidden = None
        n_rounds, n_features = X.shape
        n_actions = len(policy.coef_)
        if n_features <= MOST_SQUARED_FEATURES:
            scaled = policy.alpha**2 * self.features
            products = scaled[:, None, :] * self.features
            self.squares = products.reshape(-1, n_rounds)
            squared_width = policy._inverse.reshape(n_actions, -1).dot(self.squares)
        else:
            squared_width = np.empty((n_actions, n_rounds))
            for action, inverse in enumerate(policy._inverse):
                squared_width[action] = self._squared_width(inverse, 0)
        self.scores = self._bound(policy.coef_.dot(self.features), squared_width)
        if available is not None:
            check_some_available(available)
            self.hidden = ~available.T
            self.scores[self.hidden] = -np.inf
        self._actions = np.arange(n_actions)[:, None]
        self._proba = np.empty((n_actions, n_rounds))
        self.proba = self._proba.T
        self._choose(0)

    def _squared_width(self, inverse, start):
        if self.squares is not None:  # a product with all columns beats one with some
            return inverse.ravel().dot(self.squares)[start:]
        features = self.features[:, start:]
        scaled = (self.policy.alpha**2 * inverse).dot(features)
        return np.einsum("ij,ij->j", scaled, features)

    @staticmethod
    def _bound(mean, squared_width, out=None):
        # rounding may leave -1e-17 where the width is nearly zero
        width = np.sqrt(np.abs(squared_width, out=squared_width), out=squared_width)
        return np.add(width, mean, out=out)

    def refresh(self, start, action):
        policy = self.policy
        mean = policy.coef_[action].dot(self.features)[start:]
        squared_width = self._squared_width(policy._inverse[action], start)
        scores = self._bound(mean, squared_width, out=self.scores[action, start:])
        if self.hidden is not None:
            scores[self.hidden[action, start:]] = -np.inf
        self._choose(start)
        return True

    def _choose(self, start):
        """Do what `first_best` does, for scores with one row per action."""
        scores = self.scores[:, start:]
        best = np.maximum.reduce(scores, axis=0)
        best -= 1e-12 * np.abs(best)
        near = scores >= best
        if np.count_nonzero(near) > len(best):  # ties: the lowest index wins
            near = near.argmax(axis=0) == self._actions
        self._proba[:, start:] = near


class BoundsOfGiven:
    """Whether a given action is taken, in a block of rounds."""

    # A round is settled by one action whose bound is greater than that of the given
    # one. It stays settled until one of the two learns.

    def __init__(self, policy, X, action, available):
        if available is not None:
            check_some_available(available)
        self.policy, self.X, self.available = policy, X, available
        self.action = action
        self.own = np.empty(len(X))
        self.proba = np.empty(len(X))
        self.beaten_by = np.empty(len(X), dtype=np.intp)  # -1: by none
        self._settle(np.arange(len(X)))

    def refresh(self, start, action):
        rest = slice(start, None)
        open_again = self.beaten_by[rest] == action
        open_again |= self.beaten_by[rest] < 0
        open_again |= self.action[rest] == action
        self._settle(start + np.flatnonzero(open_again))
        return True

    def _settle(self, rows):
        """Find out for these rounds, of which nothing is known."""
        self.own[rows] = self._own(rows)
        while len(rows) > 2 * ROUNDS_FOR_RIVALS:
            some = rows[:: len(rows) // ROUNDS_FOR_RIVALS]
            rivals = np.unique(first_best(self._of(some)))
            better = self._better(rows, rivals, self._of(rows, rivals))
            settled = better.any(axis=1)
            self.beaten_by[rows[settled]] = rivals[better[settled].argmax(axis=1)]
            self.proba[rows[settled]] = 0.0
            enough = 2 * np.count_nonzero(settled) > len(rows)
            rows = rows[~settled]
            if not enough:
                break
        step = max(1, PRODUCTS // len(self.policy.coef_))
        for begin in range(0, len(rows), step):
            part = rows[begin : begin + step]
            scores = self._of(part)
            best = first_best(scores)
            self.proba[part] = best == self.action[part]
            each = np.arange(len(part))
            better = self._better(part, best[:, None], scores[each, best][:, None])
            self.beaten_by[part] = np.where(better[:, 0], best, -1)

    def _own(self, rows):
        """Bounds of the given actions."""
        policy, X, action = self.policy, self.X[rows], self.action[rows]
        mean = np.einsum("ij,ij->i", policy.coef_[action], X)
        squared_width = np.empty(len(rows))
        step = max(1, PRODUCTS // X.shape[1] ** 2)
        for begin in range(0, len(rows), step):
            part = slice(begin, begin + step)
            side = np.einsum("ijk,ik->ij", policy._inverse[action[part]], X[part])
            squared_width[part] = np.einsum("ij,ij->i", side, X[part])
        bounds = mean + policy.alpha * np.sqrt(np.abs(squared_width))
        if self.available is not None:
            bounds[~self.available[rows, action]] = -np.inf
        return bounds

    def _better(self, rows, rivals, scores):
        """Tell which rivals are better than the given actions, whatever others are."""
        own = self.own[rows][:, None]
        better = scores - 1e-12 * np.abs(scores) > own
        # ties: the lowest index wins
        first = rivals < self.action[rows][:, None]
        return better | (first & (scores >= own - BOUND_ROUNDING * np.abs(own)))

    def _of(self, rows, actions=slice(None)):
        """Bounds of all or some actions, by round."""
        policy, X = self.policy, self.X[rows]
        scores = X @ policy.coef_[actions].T
        inverse = policy._inverse[actions].reshape(scores.shape[1], -1)
        step = max(1, PRODUCTS // inverse.shape[1])
        for begin in range(0, len(rows), step):
            part = slice(begin, begin + step)
            products = X[part, :, None] * X[part, None, :]
            squared_width = products.reshape(len(products), -1) @ inverse.T
            # rounding may leave -1e-17 where the width is nearly zero
            scores[part] += policy.alpha * np.sqrt(np.abs(squared_width))
        if self.available is not None:
            scores[~self.available[rows][:, actions]] = -np.inf
        return scores


# -- rows of contexts, whatever holds them ---------------------------------------------


def dense_rows(X, name):
    """Contexts as a float array of shape (n_rounds, n_features)."""
    if isinstance(X, np.ndarray) and X.dtype == np.float64:
        return X
    if sparse.issparse(X):
        X = X.toarray()
    try:
        return np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{name} needs contexts of numbers: {error}. Pass an encoder that is "
            "fitted to earlier contexts: "
            f"{name}(features=FrozenEstimator(ContextEncoder().fit(earlier)))."
        ) from error

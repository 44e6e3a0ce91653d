# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Bounds of LinUCB for blocks of coming rounds.

Of few actions all bounds are kept, and an update computes those of one action anew. Of
many actions, where it is only asked whether given ones are taken, nearly all rounds
are settled by a few rivals: the best actions of some rounds beat the given action in
most of the others.
"""

import numpy as np

from skope_ope.policies._base import check_some_available, first_best

# Up to here the products x_i x_j of a block are kept: a width is then one dot product.
MOST_SQUARED_FEATURES = 16
PRODUCTS = 1 << 17  # products x_i x_j, or entries of A_a^-1, that are held at once
ROUNDS_FOR_RIVALS = 32  # of which all bounds are computed, to find rivals
# A bound may differ in its last digits by the way in which it was computed. Where the
# best one is known, 1e-12 is what counts as a tie.
ROUNDING = 1e-14


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
            rivals = np.unique(first_best(self._all(some)))
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
            scores = self._all(part)
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
        return better | (first & (scores >= own - ROUNDING * np.abs(own)))

    def _all(self, rows):
        return self._of(rows, slice(None))

    def _of(self, rows, actions):
        """Bounds of some actions, by round."""
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

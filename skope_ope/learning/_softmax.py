# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""Softmax policies that are linear in features, and the slopes of what they are worth.

.. math:: \pi_\theta(a|x) \propto \exp(\theta_a^T (\phi(x), 1))

What such a policy is worth is a function of two numbers per round: the probability
:math:`p_i = \pi_\theta(a_i|x_i)` of the logged action and the model value
:math:`v_i = \sum_a \pi_\theta(a|x_i)\, \hat q(x_i, a)`. Both are gathered block by
block; so is the gradient, from the slopes :math:`\partial V / \partial p_i` and
:math:`\partial V / \partial v_i`, by

.. math:: \frac{\partial V}{\partial z_{ia}} = \pi_{ia}\, (g_{ia}
    - \sum_b \pi_{ib}\, g_{ib}), \qquad g_{ia} = \frac{\partial V}{\partial p_i}
    1[a = a_i] + \frac{\partial V}{\partial v_i} \hat q(x_i, a),

with :math:`z_{ia} = \theta_a^T (\phi(x_i), 1)`. Nothing of shape (n_rounds, n_actions)
is held but what fits into `KEPT_BYTES`.
"""

from typing import NamedTuple

import numpy as np

BLOCK_BYTES = 2**21  # of one table (rounds of a block, actions): it stays in the cache
KEPT_BYTES = 2**28  # of all tables that are kept between the passes of one step


class Measures(NamedTuple):
    """What a policy does in every round, each of shape (n_rounds,)."""

    p: np.ndarray  # probability of the logged action
    v: np.ndarray  # model value; 0 without a model
    entropy: np.ndarray  # entropy of the action, in nats


class SoftmaxRounds:
    """Rounds whose actions a softmax policy would have drawn."""

    def __init__(self, features, logged, offered, q_hat=None):
        self.features, self.logged, self.offered = features, logged, offered
        self._q_hat = q_hat
        self.n_actions, self._all_offered = offered.shape[-1], bool(offered.all())
        n_rounds, step = len(logged), max(1, BLOCK_BYTES // (8 * self.n_actions))
        self.blocks = [
            slice(start, min(start + step, n_rounds))
            for start in range(0, n_rounds, step)
        ]
        self._keeps = 8 * n_rounds * self.n_actions <= KEPT_BYTES
        self._models = {}

    @property
    def shape(self):
        """Shape of theta, (n_actions, n_features + 1)."""
        return self.n_actions, self.features.shape[1] + 1

    def q_hat(self, block):
        """Return the model values of a block, kept where all of them fit."""
        if block.start in self._models:
            return self._models[block.start]
        values = np.asarray(self._q_hat(block.start, block.stop), dtype=float)
        if self._keeps:
            self._models[block.start] = values
        return values

    def logged_q_hat(self):
        """Return the model values of the logged actions, of shape (n_rounds,)."""
        values = np.zeros(len(self.logged))
        for block in self.blocks if self._q_hat is not None else ():
            logged = self.logged[block]
            values[block] = self.q_hat(block)[np.arange(len(logged)), logged]
        return values

    def pass_over(self, theta, slopes=None, entropy=None, kept=None):
        """Measure a policy and, where slopes are given, gather its gradient."""
        measures = Measures(*np.zeros((3, len(self.logged))))
        gradient = None if slopes is None else np.zeros(self.shape)
        for block in self.blocks:
            proba = None if kept is None else kept.pop(block.start, None)
            if proba is None:
                proba = self.probabilities(theta, block)
                if kept is not None and self._keeps:
                    kept[block.start] = proba
            self._measure(proba, block, measures, entropy)
            if slopes is not None:
                in_scores = self._in_scores(proba, block, measures, slopes, entropy)
                features = self.features[block]
                gradient[:, :-1] += np.asarray(features.T @ in_scores).T
                gradient[:, -1] += in_scores.sum(axis=0)
        return measures, gradient

    def probabilities(self, theta, block):
        """Return the probabilities of all actions in the rounds of a block."""
        scores = linear_scores(self.features[block], theta)
        if not self._all_offered:
            offered = self.offered if self.offered.ndim == 1 else self.offered[block]
            scores[~np.broadcast_to(offered, scores.shape)] = -np.inf
        scores -= scores.max(axis=1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=1, keepdims=True)
        return scores

    def _measure(self, proba, block, measures, entropy):
        logged = self.logged[block]
        measures.p[block] = proba[np.arange(len(logged)), logged]
        if self._q_hat is not None:
            measures.v[block] = np.einsum("ij,ij->i", proba, self.q_hat(block))
        if entropy is not None:
            measures.entropy[block] = -np.einsum("ij,ij->i", proba, _log(proba))

    def _in_scores(self, proba, block, measures, slopes, entropy):
        """Slopes of the value in the scores of the rounds of a block."""
        p, v = measures.p[block], measures.v[block]
        dp, dv = slopes(p, v, block)
        level = dp * p  # the mean of g over the actions
        g = 0.0
        if self._q_hat is not None:
            level += dv * v
            g = self.q_hat(block) * dv[:, None]
        if entropy is not None:
            level += entropy[block] * measures.entropy[block]
            g = g - entropy[block, None] * _log(proba)
        in_scores = g - level[:, None]
        in_scores = proba * in_scores  # a column, where there is nothing but dp
        logged = self.logged[block]
        in_scores[np.arange(len(logged)), logged] += dp * p
        return in_scores


def linear_scores(features, theta):
    """Return theta_a^T (phi, 1) of every row and action."""
    return np.asarray(features @ theta[:, :-1].T) + theta[:, -1]


def _log(proba):
    """Logarithms, 0 where the probability is 0 (x ln x tends to 0)."""
    return np.log(proba, out=np.zeros_like(proba), where=proba > 0)

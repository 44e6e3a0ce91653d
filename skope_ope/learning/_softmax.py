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
            measures.entropy[block] = -np.einsum("ij,ij->i", proba, _log0(proba))

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
            g = g - entropy[block, None] * _log0(proba)
        in_scores = g - level[:, None]
        in_scores = proba * in_scores  # a column, where there is nothing but dp
        logged = self.logged[block]
        in_scores[np.arange(len(logged)), logged] += dp * p
        return in_scores


def linear_scores(features, theta):
    """Return theta_a^T (phi, 1) of every row and action."""
    return np.asarray(features @ theta[:, :-1].T) + theta[:, -1]


def _log0(proba):
    """Logarithms, 0 where the probability is 0 (x ln x tends to 0)."""
    return np.log(proba, out=np.zeros_like(proba), where=proba > 0)


# -- what a learned policy maximises, as functions of what it does in every round ------
# An objective is called with the probability `p` of the logged action and the model
# value `v` of every round. It returns its value and the slopes in `p` and in `v`; where
# the slopes of a round depend on that round alone (`separable`), `slopes` gives them.
# The values are those of `DoublyRobust`, `IPS`, `SNIPS` and `LogSmoothing`, less
# `pessimism` standard errors; tests compare them, and the slopes with differences.


class LogLikelihood:
    r"""Mean log-probability of the logged actions, :math:`\sum_i u_i \ln p_i`."""

    separable = True

    def __init__(self, weight):
        self.weight = weight / weight.sum()

    def __call__(self, p, v):
        told = self.weight > 0
        logarithm = np.log(np.maximum(p[told], np.finfo(float).tiny))
        return float(self.weight[told] @ logarithm), *self.slopes(p, v)

    def slopes(self, p, v, rows=slice(None)):
        """Return the slopes in p and v of some rounds."""
        slope = self.weight[rows] / np.maximum(p, np.finfo(float).tiny)
        return slope, np.zeros_like(p)


class _Rounds:
    """Weights of rounds, which of them belong together, and their rewards."""

    def __init__(self, logs, pessimism=0.0):
        self.reward, self.propensity = logs.reward, logs.propensity
        omega = logs.sample_weight
        omega = np.ones(len(logs)) if omega is None else omega
        self.share = omega / omega.sum()
        self.pessimism = pessimism
        self.cluster = None if logs.group is None else logs.group_index
        n = len(logs) if self.cluster is None else self.cluster.max() + 1
        self.factor = n / (n - 1) if n > 1 else np.nan

    def together(self, influence):
        """Return, for every round, the influence of all that belongs to it."""
        if self.cluster is None:
            return influence
        return np.bincount(self.cluster, influence)[self.cluster]


class MeanValue(_Rounds):
    r"""Means of terms :math:`t_i(p_i, v_i)`, less `pessimism` standard errors."""

    # A subclass implements `terms(p, v, rows)`, the terms of some rounds and their
    # slopes in p and in v. With the shares :math:`\omega_i` of the rounds, :math:`V =
    # \sum_i \omega_i t_i`, and with :math:`\psi_i = \omega_i (t_i - V)`, summed over
    # what belongs together, :math:`SE^2 = \frac{n}{n-1} \sum \psi^2`.

    @property
    def separable(self):
        """Whether the slopes of a round depend on this round alone."""
        return not self.pessimism

    def slopes(self, p, v, rows=slice(None)):
        """Return the slopes in p and v of some rounds, where they are separable."""
        _, dp, dv = self.terms(p, v, rows)
        return self.share[rows] * dp, self.share[rows] * dv

    def __call__(self, p, v):
        t, dp, dv = self.terms(p, v)
        value, slope = self.share @ t, self.share
        if self.pessimism:
            psi = self.share * (t - value)
            all_of = self.together(psi)
            error = np.sqrt(self.factor * (psi @ all_of))
            if error > 0:
                slope_of_error = self.share * (all_of - all_of @ self.share)
                slope = slope - self.pessimism * self.factor * slope_of_error / error
            value = value - self.pessimism * error
        return float(value), slope * dp, slope * dv


class DoublyRobustValue(MeanValue):
    r"""Terms :math:`v_i + \frac{p_i}{p^\mu_i} (r_i - \hat q(x_i, a_i))`."""

    def __init__(self, logs, q_logged, pessimism=0.0):
        super().__init__(logs, pessimism)
        self.slope = (self.reward - q_logged) / self.propensity

    def terms(self, p, v, rows=slice(None)):
        slope = self.slope[rows]
        return v + p * slope, slope, np.ones_like(p)


class IPSValue(DoublyRobustValue):
    r"""Terms :math:`\frac{p_i}{p^\mu_i} r_i`."""

    def __init__(self, logs, pessimism=0.0):
        super().__init__(logs, 0.0, pessimism)


class LogSmoothingValue(MeanValue):
    r"""Terms :math:`\ln(1 + \lambda w_i r_i) / \lambda`, :math:`\lambda = n^{-1/2}`."""

    def __init__(self, logs, pessimism=0.0):
        super().__init__(logs, pessimism)
        self.lam = len(logs) ** -0.5
        if logs.reward_range is not None:
            low = logs.reward_range[0]
        elif (low := logs.reward.min()) < 0:
            raise ValueError(
                f"log smoothing needs non-negative rewards, got {low:.6g} at row "
                f"{int(np.argmin(logs.reward))}. Pass reward_range=(low, high) to the "
                "logs: the lower bound is then subtracted and added back."
            )
        self.shift = min(low, 0.0)
        self.slope = (self.reward - self.shift) / self.propensity

    def terms(self, p, v, rows=slice(None)):
        slope = self.slope[rows]
        grown = self.lam * p * slope
        smooth = np.log1p(grown) / self.lam + self.shift
        return smooth, slope / (1 + grown), np.zeros_like(p)


class SNIPSValue(_Rounds):
    r"""The ratio :math:`\sum_i u_i r_i / \sum_i u_i`, :math:`u_i = \omega_i w_i`."""

    # With :math:`\psi_i = u_i (r_i - V) / U`, summed over what belongs together, and
    # :math:`\Psi_i` that sum for round i, the slope of :math:`\frac12 \sum \psi^2` in
    # :math:`u_i` is :math:`[(\Psi_i - \sum_j \Psi_j u_j / U) (r_i - V) - \sum_j \Psi_j
    # \psi_j] / U`.

    separable = False

    def __init__(self, logs, pessimism=0.0):
        super().__init__(logs, pessimism)
        self.slope = self.share / self.propensity

    def __call__(self, p, v):
        u = p * self.slope
        total = u.sum()
        value = u @ self.reward / total
        above = self.reward - value
        slope = above / total
        if self.pessimism:
            psi = u * above / total
            all_of = self.together(psi)
            square = psi @ all_of
            error = np.sqrt(self.factor * square)
            if error > 0:
                change = ((all_of - all_of @ u / total) * above - square) / total
                slope = slope - self.pessimism * self.factor * change / error
            value = value - self.pessimism * error
        return float(value), slope * self.slope, np.zeros_like(p)

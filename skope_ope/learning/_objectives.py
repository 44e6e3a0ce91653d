# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""What a learned policy maximises, as functions of what it does in every round.

An objective is called with the probability `p` of the logged action and the model
value `v` of every round. It returns its value and the slopes in `p` and in `v`; where
the slopes of a round depend on that round alone (`separable`), `slopes` gives them. The
values are those of `DoublyRobust`, `IPS`, `SNIPS` and `LogSmoothing`, less
`pessimism` standard errors; tests compare them, and the slopes with differences.
"""

import numpy as np


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

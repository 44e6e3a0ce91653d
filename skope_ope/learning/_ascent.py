# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The ascent of a linear softmax policy: L-BFGS on minus the value."""

import warnings
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning


class Top(NamedTuple):
    """Where an ascent ended: theta, its objective, the number of steps."""

    theta: np.ndarray
    objective: float
    n_iter: int
    converged: bool


class Penalised:
    r"""Objective + entropy * mean entropy - penalty * \|theta - anchor\|^2 / 2."""

    def __init__(
        self,
        rounds,
        objective,
        share,
        *,
        entropy=0.0,
        penalty=0.0,
        anchor=0.0,
        unit=1.0,
    ):
        self.rounds, self.objective, self.unit = rounds, objective, unit
        self.entropy = entropy * share if entropy else None
        self.penalty = penalty
        self.anchor = np.broadcast_to(anchor, rounds.shape)

    def __call__(self, theta):
        """Return the value and its gradient."""
        objective, entropy = self.objective, self.entropy
        if objective.separable:
            measures, gradient = self.rounds.pass_over(theta, objective.slopes, entropy)
            value, _, _ = objective(measures.p, measures.v)
        else:  # all rounds are measured before the slopes of any of them are known
            kept = {}
            measures, _ = self.rounds.pass_over(theta, kept=kept)
            value, dp, dv = objective(measures.p, measures.v)
            measures, gradient = self.rounds.pass_over(
                theta, lambda p, v, block: (dp[block], dv[block]), entropy, kept
            )
        away = theta - self.anchor
        away[:, -1] = 0.0
        value -= self.penalty * (away**2).sum() / 2
        if entropy is not None:
            value += entropy @ measures.entropy
        return float(value), gradient - self.penalty * away

    def ascend(self, start, max_iter, tol, told=None):
        """Return the top that is reached from a start; `told` hears of every step."""
        from scipy.optimize import minimize

        start = np.array(start, dtype=float).reshape(self.rounds.shape)
        level, _ = self(start)  # else `ftol` would be relative to where rewards begin

        def descent(flat):
            value, gradient = self(flat.reshape(self.rounds.shape))
            return (level - value) / self.unit, -gradient.ravel() / self.unit

        found = minimize(
            descent,
            start.ravel(),
            jac=True,
            method="L-BFGS-B",
            callback=told,
            options={"maxiter": max_iter, "gtol": tol, "ftol": 1e-3 * tol},
        )
        theta = found.x.reshape(self.rounds.shape)
        top = level - float(found.fun) * self.unit
        return Top(theta, top, int(found.nit), found.status == 0)


def warn_of_no_end(name, n_iter, max_iter):
    """Warn that an ascent was stopped."""
    if n_iter < max_iter:
        text = (
            f"{name} stopped after {n_iter} steps: its slopes exceed tol, but no step "
            "increases its value. Increase tol or alpha, or scale the features."
        )
    else:
        text = (
            f"{name} stopped after max_iter={max_iter} steps while its value still "
            "increased. Increase max_iter or alpha, or scale the features."
        )
    warnings.warn(text, ConvergenceWarning, stacklevel=4)

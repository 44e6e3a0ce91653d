# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""Parameters that trade bias for variance, chosen for each policy.

With :math:`\hat V_\theta` the estimate at a parameter :math:`\theta`,
:math:`\hat V_0` that with unmodified weights, and :math:`s_\theta` a standard error,
the choice minimises an estimate of the mean squared error,

.. math:: s_\theta^2 + B_\theta^2, \qquad
    B_\theta = |\hat V_0 - \hat V_\theta| + \Delta,

where :math:`\Delta` is zero below a thousand rounds and otherwise what
:math:`\hat V_0` may be wrong by (Bernstein's inequality) [1]_. For a threshold
:math:`\tau` the bias is bounded by the policy's mass above it,

.. math:: B_\tau = R\, \frac1n \sum_i \sum_a \pi(a|x_i)\, 1[w(x_i, a) > \tau],

with R the range of the rewards [2]_.

.. [1] Su, Y., Dimakopoulou, M., Krishnamurthy, A., & Dudik, M. (2020). Doubly robust
   off-policy evaluation with shrinkage. ICML.
.. [2] Wang, Y.-X., Agarwal, A., & Dudik, M. (2017). Optimal and adaptive off-policy
   evaluation in contextual bandits. ICML.
"""

from copy import copy
from functools import partial

import numpy as np
from scipy.special import expit

from skope_ope.evaluators.core._engine import (
    BLOCK_ENTRIES,
    Extract,
    offset_of,
    terms_of,
)
from skope_ope.evaluators.core._estimate import Estimate
from skope_ope.evaluators.core._rounds import StoredRounds
from skope_ope.evaluators.core._sums import sums_of_rounds

AUTO = "auto"
N_POINTS = 30
FEW = 1000  # rounds, below which Bernstein's term would decide alone
DELTA = 0.05  # its probability of failure
PARTS = Extract(lambda r: [x for x in (r.w, r.pi, r.q, r.v) if x is not None])


class AutoParameter:
    """How the value "auto" of a parameter is chosen."""

    def __init__(self, name, neutral, grid, bounds_bias=False):
        self.name, self.neutral, self.grid = name, neutral, grid
        self.bounds_bias = bounds_bias  # by the policy's mass above a threshold

    def choose_in_memory(self, evaluator, target, positive, source):
        """Return the same, of rounds in memory."""
        logs, omega = positive.all_logs, positive.sample_weight
        found = terms_of(PARTS, logs, target, source, positive)
        numbers = [*found, *[None] * (4 - len(found))]
        above = partial(mass_above, target, logs, omega)
        above = None if logs.logging_proba is None else above
        return self.choose(evaluator, numbers, positive, above)

    def choose(self, evaluator, numbers, positive, above=None):
        """Return the value of the parameter for a policy on some rounds.

        Parameters
        ----------
        evaluator : StaticEvaluator
            Whose parameter it is.
        numbers : sequence of four
            Arrays w, pi, q and v of all rounds; None for what there is not.
        positive : PositiveRounds
            The rounds.
        above : callable, default=None
            Takes sorted thresholds and returns the policy's mass above each of them;
            None: the logged actions tell it.
        """
        logs, design, w = positive.all_logs, positive.design, numbers[0]
        offset = 0.0 if evaluator.shift_with is None else offset_of(logs.reward)
        rounds = StoredRounds.of(numbers, logs.reward, offset, logs)
        above_zero = w[w > 0]
        if not above_zero.size:  # nothing to trade: the weights are all zero
            return self.neutral
        grid = self.grid(above_zero, len(logs))
        values, errors = self._estimates(evaluator, grid, rounds, design)
        if self.bounds_bias:
            if above is None:
                above = partial(_mass_above, w, w, positive.sample_weight)
            thresholds = np.sort(grid)
            mass = above(thresholds)[np.searchsorted(thresholds, grid)]
            bias = reward_width(logs) * mass / len(logs)
        else:
            neutral, _ = self._estimates(evaluator, [self.neutral], rounds, design)
            bias = np.abs(neutral - values) + _deviation(rounds, logs)
        loss = np.nan_to_num(errors) ** 2 + bias**2
        if np.isnan(loss).all():  # weights that floats do not hold
            return self.neutral
        return float(grid[int(np.nanargmin(loss))])

    def _estimates(self, evaluator, grid, rounds, design):
        values = []
        for number in grid:
            terms = self.fixed(evaluator, number).terms(rounds)
            found = Estimate(sums_of_rounds(design, terms), evaluator.combine)
            values.append((found.value, found.standard_error))
        return np.array(values).T

    def fixed(self, evaluator, number):
        """Return the evaluator with a number in the place of the parameter."""
        out = copy(evaluator)
        setattr(out, self.name, number)
        out._was_auto = True
        return out


def _deviation(rounds, logs):
    """Bernstein's bound on the error of the unmodified estimate, for many rounds."""
    n, w = len(logs), rounds.w
    if n < FEW:
        return 0.0
    log = np.log(2 / DELTA)
    width = np.sqrt(2 * (w * w).mean() * log / n) + 2 * w.max() * log / (3 * n)
    return reward_width(logs) * width


def reward_width(logs):
    """Range of the rewards: the known one, otherwise that of the logged ones."""
    low, high = logs.reward_range or (logs.reward.min(), logs.reward.max())
    return float(high - low)


def mass_above(target, logs, omega, thresholds):
    """Sum a policy's probability of what it weighs above each of sorted thresholds."""
    mass = np.zeros(len(thresholds))
    chunk = max(BLOCK_ENTRIES // logs.n_actions, 1)
    for start in range(0, len(logs), chunk):
        rows = slice(start, min(start + chunk, len(logs)))
        pi = target.chunk(logs[rows], rows.start)
        mu = logs.logging_proba[rows]
        w = np.divide(pi, mu, out=np.full(pi.shape, np.inf), where=mu > 0)
        w[pi == 0] = 0
        share = None if omega is None else np.repeat(omega[rows], pi.shape[1])
        mass += _mass_above(w.ravel(), pi.ravel(), share, thresholds)
    return mass


def _mass_above(w, mass, omega, thresholds):
    """Sum of the mass of entries whose weight exceeds each of sorted thresholds."""
    if omega is not None:
        mass = mass * omega
    passed = np.searchsorted(thresholds, w, side="left")  # thresholds below w
    sums = np.bincount(passed, mass, minlength=len(thresholds) + 1)
    return sums[::-1].cumsum()[::-1][1:]


def _quantiles(values):
    return np.quantile(values, [0.05, 0.95])


def _geometric(low, high):
    return np.geomspace(high, low, N_POINTS)


def threshold_grid(w, n_rounds):
    """Geometric points between the 5% and the 95% quantile of the weights."""
    return _geometric(*_quantiles(w))


def clip_grid(w, n_rounds):
    """Return these points and the root of the number of rounds."""
    return np.sort(np.append(threshold_grid(w, n_rounds), np.sqrt(n_rounds)))[::-1]


def shrink_grid(w, n_rounds):
    """Geometric points around the quantiles of the squared weights."""
    low, high = _quantiles(w * w)
    return _geometric(0.01 * low, 100 * high)


def harmonic_grid(w, n_rounds):
    """Points on the logistic curve, from IPS to the mean reward."""
    return expit(np.linspace(-10, 10, N_POINTS))

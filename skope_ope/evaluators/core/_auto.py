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

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from scipy.special import expit

from skope_ope._sklearn import StrOptions
from skope_ope.evaluators.core._engine import (
    BLOCK_ENTRIES,
    Extract,
    offset_of,
    terms_of,
)
from skope_ope.evaluators.core._estimate import Estimate
from skope_ope.evaluators.core._rounds import PositiveRounds, Rounds
from skope_ope.evaluators.core._sums import sums_of_rounds
from skope_ope.evaluators.core._target import Target

AUTO = "auto"
N_POINTS = 30
FEW_FOR_BERNSTEIN = 1000  # rounds, below which Bernstein's term would decide alone
DELTA = 0.05  # its probability of failure
PARTS = Extract(lambda r: [x for x in (r.w, r.pi, r.q, r.v) if x is not None])


@dataclass(eq=False)
class RowsInMemory:
    """The rounds of a policy, and what a model says of them, read when asked for."""

    target: Target  # the policy
    source: object  # of the model, or None
    positive: PositiveRounds
    observers: tuple = ()  # that look at the rounds beside

    @cached_property
    def numbers(self):
        """Arrays w, pi, q and v of all rounds; None for what there is not."""
        about = self.positive.all_logs, self.target, self.source, self.positive
        found = terms_of(PARTS, *about, self.observers)
        return [*found, *[None] * (4 - len(found))]

    @property
    def mass_above(self):
        """Function that gives the policy's mass above thresholds; None: not known."""
        logs, omega = self.positive.all_logs, self.positive.sample_weight
        if logs.logging_proba is None:
            return None
        return partial(mass_above, self.target, logs, omega)


class AutoParameter(StrOptions):
    """Constraint of a parameter that may be "auto": a number chosen for each policy.

    Parameters
    ----------
    neutral : float or None
        The number that leaves the weights as they are.
    grid : callable
        Takes the positive weights and the number of rounds, and returns the numbers
        that are tried.
    bounds_bias : bool, default=False
        Whether the bias is bounded by the policy's mass above the number, a threshold.
    """

    def __init__(self, neutral, grid, bounds_bias=False):
        super().__init__({AUTO})
        self.neutral, self.grid, self.bounds_bias = neutral, grid, bounds_bias

    def choose(self, evaluator, name, rows):
        """Return the number of an evaluator's parameter on some rows."""
        positive, numbers = rows.positive, rows.numbers
        logs, design, w = positive.all_logs, positive.design, numbers[0]
        offset = 0.0 if evaluator.shift_with is None else offset_of(logs.reward)
        rounds = Rounds.of(numbers, logs.reward, offset, logs)
        above_zero = w[w > 0]
        if not above_zero.size:  # nothing to trade: the weights are all zero
            return self.neutral
        grid = self.grid(above_zero, len(logs))
        about = evaluator, name, rounds, design
        values, errors = _estimates(grid, *about)
        if self.bounds_bias:
            above = rows.mass_above  # otherwise the logged actions tell it
            above = above or partial(_mass_above, w, w, positive.sample_weight)
            thresholds = np.sort(grid)
            mass = above(thresholds)[np.searchsorted(thresholds, grid)]
            bias = reward_width(logs) * mass / len(logs)
        else:
            neutral, _ = _estimates([self.neutral], *about)
            bias = np.abs(neutral - values) + _error_bound(rounds, logs)
        loss = np.nan_to_num(errors) ** 2 + bias**2
        if np.isnan(loss).all():  # weights that floats do not hold
            return self.neutral
        return float(grid[int(np.nanargmin(loss))])


def auto_parameters(evaluator):
    """Return the parameters of an evaluator that are "auto", with their constraints."""
    given = vars(evaluator).items()
    names = [name for name, one in given if isinstance(one, str) and one == AUTO]
    return {
        name: one
        for name in names
        for cls in reversed(type(evaluator).__mro__)  # one may replace those of others
        for one in vars(cls).get("_parameter_constraints", {}).get(name, ())
        if isinstance(one, AutoParameter)
    }


def with_numbers(evaluator, rows):
    """Return an evaluator with the numbers that "auto" is for a policy."""
    chosen = {}
    for name, one in auto_parameters(evaluator).items():
        if rows is None:
            raise ValueError(
                f"{name}={AUTO!r} is chosen from all rounds. Pass a number."
            )
        chosen[name] = one.choose(evaluator, name, rows)
    return evaluator.with_parameters(_chosen=chosen, **chosen) if chosen else evaluator


def _estimates(grid, evaluator, name, rounds, design):
    """Return estimates with every number of a grid, and their errors."""
    values = []
    for number in grid:
        terms = evaluator.with_parameters(**{name: number}).terms(rounds)
        found = Estimate(sums_of_rounds(design, terms), evaluator.combine)
        values.append((found.value, found.standard_error))
    return np.array(values).T


def _error_bound(rounds, logs):
    """Bernstein's bound on the error of the unmodified estimate, for many rounds."""
    n, w = len(logs), rounds.w
    if n < FEW_FOR_BERNSTEIN:
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

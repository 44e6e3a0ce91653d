# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""How strata enter an estimate: what a round of each of them counts.

A pooling takes the masses and the numbers of units of the strata and returns `Shares`.
The means of the terms are :math:`m = \sum_s \lambda_s \sum_{i \in s} \omega_i t_i`.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np


@dataclass
class Shares:
    r"""What the strata count.

    Attributes
    ----------
    weight : number per stratum
        :math:`\lambda_s`, what a round of weight one counts.
    centre : ndarray of int of shape (n_strata,)
        Strata with the same number share the mean from which their terms are
        measured; they are one sample.
    needed : ndarray of bool of shape (n_strata,)
        Strata that must have two units for the estimate to have an error.
    """

    weight: object
    centre: np.ndarray
    needed: np.ndarray

    @property
    def used(self):
        """Strata that have a weight."""
        return np.atleast_1d(self.weight) != 0


ONE = np.zeros(1, dtype=np.intp)
ALWAYS = np.ones(1, dtype=bool)


def pooled(mass, units):
    """Weigh all rounds alike: they are one sample, whatever their stratum."""
    if units.size == 1:
        return Shares(1 / mass if mass else np.nan, ONE, ALWAYS)
    total = mass.sum()
    weight = np.full(len(units), 1 / total if total else np.nan)
    same = np.zeros(len(units), dtype=np.intp)
    return Shares(weight, same, units > 0)


def stratified(weights):
    """Return the pooling in which a round of every stratum has a given weight.

    Their numbers of rounds are fixed, so that differences between the means of strata
    are no noise. A stratum of one unit has no spread: such strata share a centre, or
    join the smallest other, which overstates the variance.

    Parameters
    ----------
    weights : ndarray of shape (n_strata,)
        Weights up to a factor.
    """
    return partial(_stratified, np.asarray(weights, dtype=float))


def _stratified(weights, mass, units):
    total = float(np.sum(weights * mass))
    weight = weights / total if total > 0 else np.full(len(weights), np.nan)
    centre = np.arange(len(units))
    single = np.flatnonzero((units == 1) & (weight > 0))
    others = np.flatnonzero((units > 1) & (weight > 0))
    if single.size == 1 and others.size:
        centre[single] = others[np.argmin(units[others])]
    elif single.size:
        centre[single] = single[0]
    needed = (weight > 0) & (units > 0)
    return Shares(weight if units.size > 1 else weight[0], centre, needed)

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
    r"""What the strata count."""

    weight: object  # :math:`\lambda_s`, what a round of weight one counts
    # Strata with the same number share the mean from which their terms are measured;
    # they are one sample
    centre: np.ndarray
    # Strata that must have two units for the estimate to have an error
    needed: np.ndarray
    # What the variances of strata of one unit, and of those that lend them a spread,
    # are multiplied by: they overstate what they stand for. `None`: nothing
    inflation: object = None
    # Strata of one unit that nothing tells the spread of: there is no error
    alone: tuple = ()

    @property
    def used(self):
        """Strata that have a weight."""
        return np.atleast_1d(self.weight) != 0


ONE = np.zeros(1, dtype=np.intp)
ALWAYS = np.ones(1, dtype=bool)
SAME = 1e-9  # relative: weights that differ by less do so by rounding


def pooled(mass, units):
    """Weigh all rounds alike: they are one sample, whatever their stratum."""
    if units.size == 1:
        return Shares(1 / mass if mass else np.nan, ONE, ALWAYS)
    total = mass.sum()
    weight = np.full(len(units), 1 / total if total else np.nan)
    same = np.zeros(len(units), dtype=np.intp)
    return Shares(weight, same, units > 0)


def stratified(weights):
    """Return the pooling in which a round of every stratum has a given weight."""
    # Their numbers of rounds are fixed, so that differences between the means of strata
    # are no noise. A stratum of one unit has no spread: such strata share a centre with
    # each other, or join the smallest other that may lend them one, see `_joined`. That
    # overstates the variance, by the distance of the means at least.
    return partial(_stratified, np.asarray(weights, dtype=float))


def _stratified(weights, mass, units):
    total = float(np.sum(weights * mass))
    weight = weights / total if total > 0 else np.full(len(weights), np.nan)
    needed = (weight > 0) & (units > 0)
    shares = Shares(weight, np.arange(len(units)), needed)
    single = np.flatnonzero((units == 1) & needed)
    if single.size:
        _join(single, shares, units)
    if units.size == 1:
        shares.weight = weight[0]
    return shares


def _join(single, shares, units):
    """Give strata of one unit a centre in common with others."""
    weight = shares.weight
    if len(single) > 1 and _may_share(weight[single], units[single]):
        _share(single, shares, units)
        return
    others = np.flatnonzero((units > 1) & shares.needed)
    others, alone = others[np.argsort(units[others], kind="stable")], []
    joined = {}
    for stratum in single.tolist():
        for other in others.tolist():
            group = [other, *joined.get(other, ()), stratum]
            if _may_share(weight[group], units[group]):
                joined.setdefault(other, []).append(stratum)
                break
        else:
            alone.append(stratum)
    for other, some in joined.items():
        _share([other, *some], shares, units)
    shares.alone = tuple(alone)


def _may_share(weight, units):
    """Whether no unit weighs more than all others together."""
    # Beside one that does, the common centre would lie so near that it seems to have
    # hardly any variance.
    return 2 * weight.max() <= (1 + SAME) * (weight * units).sum()


def _share(strata, shares, units):
    r"""Give strata one centre, and the inflation that makes up for unequal weights."""
    # With :math:`p_i = \lambda_i / \sum_j \lambda_j` for the units i of the strata, and
    # the variances :math:`\sigma_i^2` of their terms, residuals from the common centre
    # have
    #
    # .. math:: E \sum_i \lambda_i^2 (x_i - c)^2 \ge
    #     \sum_i \lambda_i^2 \sigma_i^2 \Big(1 - 2 p_i + \sum_j p_j^2\Big),
    #
    # so that they are divided by the smallest of these factors, :math:`1 - 1 / N` where
    # all N units weigh the same.
    n, weight = units[strata], shares.weight[strata]
    p = weight / (weight * n).sum()
    smallest = 1 - 2 * p.max() + (n * p * p).sum()
    shares.centre[strata] = strata[0]
    if shares.inflation is None:
        shares.inflation = np.ones(len(units))
    shares.inflation[strata] = (1 - 1 / n.sum()) / smallest

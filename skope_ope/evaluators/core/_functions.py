# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""What makes an estimate of means: functions with their gradients, and poolings.

A function takes the means of the per-round terms as a list of floats and returns the
value and one slope per term. Where the value cannot be formed they divide by zero, and
the estimate is NaN. `divisor` is the number of the mean of weights that a ratio is
divided by: a round that has all of it is the ratio, whatever the others bring. `along`
names the mean of a numerator and its divisor: the value is s less where s times the
divisor is taken from the numerator, so sums may be about what lies near the ratio.
`n_means` is the number of means that enter, where there may be others.

A pooling says how strata enter: it takes the masses and the numbers of units of the
strata and returns `Shares`. The means of the terms are
:math:`m = \sum_s \lambda_s \sum_{i \in s} \omega_i t_i`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

Estimated = tuple[float, tuple[float, ...]]


def mean(m: Sequence[float]) -> Estimated:
    """Return f = m_0, whatever the other means are, and its gradient.

    Parameters
    ----------
    m : sequence of float
        The means of the terms.

    Returns
    -------
    value : float
        The estimate.
    gradient : tuple of float
        Its slope in each mean.
    """
    return m[0], (1.0, *[0.0] * (len(m) - 1))


mean.n_means = 1


def sum_of_two(m: Sequence[float]) -> Estimated:
    """Return f = m_0 + m_1, whatever the other means are, and its gradient.

    Parameters
    ----------
    m : sequence of float
        The means of the terms.

    Returns
    -------
    value : float
        The estimate.
    gradient : tuple of float
        Its slope in each mean.
    """
    return m[0] + m[1], (1.0, 1.0, *[0.0] * (len(m) - 2))


sum_of_two.n_means = 2


def third_less_second(m):
    """Return f = m_2 - m_1 and its gradient."""
    return m[2] - m[1], (0.0, -1.0, 1.0)


def ratio(m: Sequence[float]) -> Estimated:
    """Return f = m_0 / m_1 and its gradient.

    Parameters
    ----------
    m : sequence of float
        The means of the terms.

    Returns
    -------
    value : float
        The estimate.
    gradient : tuple of float
        Its slope in each mean.
    """
    value = m[0] / m[1]
    return value, (1 / m[1], -value / m[1])


ratio.divisor = 1


def mean_plus_ratio(m: Sequence[float]) -> Estimated:
    """Return f = m_0 + m_1 / m_2 and its gradient.

    Parameters
    ----------
    m : sequence of float
        The means of the terms.

    Returns
    -------
    value : float
        The estimate.
    gradient : tuple of float
        Its slope in each mean.
    """
    correction = m[1] / m[2]
    return m[0] + correction, (1.0, 1 / m[2], -correction / m[2])


mean_plus_ratio.divisor = 2
mean_plus_ratio.along = ((1, 2),)


def along_of(formula):
    """Return the pairs of a numerator and its divisor of an evaluator's function."""
    return getattr(formula.combine, "along", ())


# -- control variates -----------------------------------------------------------------
# Slots of the pseudoinverse's weights have known means under the logger. With
# :math:`C_j`, the part of slot j less its mean, and :math:`G` the weight,
#
# .. math:: \hat V = \overline{G r} - \beta^T \bar C, \qquad
#     \beta = \overline{C C^T}^{-1} \overline{C G r}
#
# leaves the limit of the estimate alone and takes off what the parts explain. Where
# slots are filled independently, the matrix is diagonal. One coefficient for all slots
# is the same with the sum of the parts.
LEAST_SQUARE = 1e-20  # mean square of parts that are zero: weights are about one


def regression_terms(gain, parts, *, single, independent):
    """Terms of an estimate with control variates, and the function of their means."""
    columns = [parts.sum(axis=1)] if single else list(parts.T)
    k = len(columns)
    if independent:
        rows = cols = np.arange(k)
        squares = [(parts**2).sum(axis=1)] if single else [c * c for c in columns]
    else:
        rows, cols = np.triu_indices(k)
        squares = [columns[i] * columns[j] for i, j in zip(rows, cols, strict=True)]
    moved = [column * gain for column in columns]
    return (gain, *columns, *moved, *squares), Regression(k, rows, cols)


class Regression:
    """The function f = m_0 - b^T A^+ c of means, and its gradient."""

    def __init__(self, k, rows, cols):
        self.k, self.rows, self.cols = k, rows, cols

    def __call__(self, m):
        k, m = self.k, np.asarray(m)
        c, b = m[1 : k + 1], m[k + 1 : 2 * k + 1]
        square = np.zeros((k, k))
        square[self.rows, self.cols] = square[self.cols, self.rows] = m[2 * k + 1 :]
        if not np.isfinite(square).all():
            return np.nan, (np.nan,) * len(m)
        inverse = np.zeros((k, k))
        if square.max() > LEAST_SQUARE:
            inverse = np.linalg.pinv(square, rcond=1e-10, hermitian=True)
        beta, gamma = inverse @ b, inverse @ c
        slopes = beta[self.rows] * gamma[self.cols]
        crossed = self.rows != self.cols
        slopes += crossed * (beta[self.cols] * gamma[self.rows])
        return m[0] - beta @ c, (1.0, *-beta, *-gamma, *slopes)


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


ONLY = np.zeros(1, dtype=np.intp)
ALWAYS = np.ones(1, dtype=bool)
SAME = 1e-9  # relative: weights that differ by less do so by rounding


def pooled(mass, units):
    """Weigh all rounds alike: they are one sample, whatever their stratum."""
    if units.size == 1:
        return Shares(1 / mass if mass else np.nan, ONLY, ALWAYS)
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

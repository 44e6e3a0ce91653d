# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""Whether importance weights average to one, as they do in expectation.

Weights are skewed: their mean lies below one in most logs of a heavy tail, and by many
of its own standard errors, so that no normal quantile serves. For independent
:math:`\xi_i \ge -1` of mean at most zero (and for those of a history, given what went
before), every :math:`\lambda` in [0, 1) makes

.. math:: E(\lambda) = \exp\Big(\lambda \sum_i \xi_i - \psi(\lambda) \sum_i
    \xi_i^2\Big), \qquad \psi(\lambda) = -\ln(1 - \lambda) - \lambda,

an e-value (Fan, Grama and Liu 2015): its expectation is at most one at any number of
rounds and any skewness, and so is that of the mean of several. It exceeds 1,000 in at
most one of 1,000 right logs. Upwards :math:`\xi = \min(w, \sqrt n) - 1`, so that a
single weight hides nothing; downwards :math:`\xi = (1 - w) / W`, where no weight is
larger than W.
"""

from math import log

import numpy as np

from skope_ope._dot import dot
from skope_ope.evaluators.core._products import total

LAMBDAS = 0.9 * 2.0 ** -np.arange(20)
PSI = -np.log1p(-LAMBDAS) - LAMBDAS
SURE = log(1000)  # of the logarithm of an e-value
EFFECT = 0.05  # of the mean weight: a smaller deviation changes no decision
UNSEEN = 3  # weights may be this many times as large as those that were possible so far
USUAL = 30  # weights up to here are possible in any log


def log_evidence(total, square):
    """Return ln E from the sum and the sum of squares of terms that are at least -1."""
    exponents = LAMBDAS * total - PSI * square
    return float(np.logaddexp.reduce(exponents)) - log(len(exponents))


def bounded(w, n_rounds, largest):
    """Return min(w, sqrt(n)); the same array where no weight is larger."""
    limit = n_rounds**0.5
    return w if largest <= limit else np.minimum(w, limit)


def deviations(sums, factor=1.0, expected=1.0):
    """Get sum and sum of squares of weights less their mean, over independent units."""
    frame, near = sums.frame, sums.origin[0] - expected
    if frame.clustered:
        units = len(frame.clusters)
        factor = np.broadcast_to(factor, frame.n_strata)[frame.cell_stratum]
        above, mass = sums.totals
        sizes = np.bincount(frame.cell_cluster, factor * mass, units)
        change = factor * (above + near * mass)
        change = np.bincount(frame.cell_cluster, change, units)
        return float(change.sum()), dot(change, change), float(sizes.max())
    above = total(factor * (sums.first[0] + near * sums.mass))
    square = total(factor * factor * squares_about(sums, expected))
    largest = factor if isinstance(factor, float) else float(factor.max())
    return above, square, largest * frame.heaviest


def squares_about(sums, value):
    """Return the sum of squares of weighted terms about a value, of every stratum."""
    near = sums.origin[0] - value
    cross, square = sums.product(1, 0), sums.product(1, 1)
    return sums.product(0, 0) + 2 * near * cross + near * near * square


def evidence_above(sums, factor=1.0, lowest=0.0):
    """Return ln E of a mean above one."""
    above, square, unit = deviations(sums, factor)
    unit *= 1 - lowest
    return log_evidence(above / unit, square / unit / unit)


def evidence_below(sums, largest, factor=1.0, expected=1.0):
    """Return ln E of a mean below `expected`, where no weight exceeds `largest`."""
    above, square, unit = deviations(sums, factor, expected)
    unit *= largest
    return log_evidence(-above / unit, square / unit / unit)


def surprise(weight, n_units):
    """Return -ln of the largest chance that n weights are all alike, and above one."""
    # By Markov's inequality it is :math:`w^{-n}`, for the product of the weights has
    # expectation one.
    return n_units * log(weight) if weight > 0 else 0.0

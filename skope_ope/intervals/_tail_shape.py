# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""How heavy a tail is: the shape of a generalised Pareto law.

What is standard for importance weights is Pareto smoothed importance sampling's
:math:`\hat k` (Vehtari, Simpson, Gelman, Yao and Gabry 2024): the shape of the
exceedances of the M = min(n / 5, 3 sqrt(n)) largest terms, estimated as by Zhang and
Stephens (2009), with a prior of the weight of ten terms at 1/2. The tail index (that of
Hill) is 1 / k. From k = 1/2 on the variance is infinite, and no effective sample size,
which is a ratio of sums that have been seen, can tell; from .7 on no practical number
of rounds makes the mean reliable.
"""

from math import nan, sqrt

import numpy as np

FEWEST = 20  # terms of a tail
UNRELIABLE = 0.7
PRIOR, PRIOR_SIZE = 0.5, 10


def tail_shape(values):
    """Return k of the largest positive values, and its standard error.

    Parameters
    ----------
    values : ndarray of shape (n,)
        Non-negative terms.

    Returns
    -------
    shape, error : float
        NaN where there are too few, or too many are alike.
    """
    positive = values[values > 0]
    size = int(min(len(positive) / 5, 3 * sqrt(len(positive))))
    if size < FEWEST:
        return nan, nan
    top = np.sort(np.partition(positive, -size - 1)[-size - 1 :])
    excess = top[1:] - top[0]
    if not excess[len(excess) // 4] > 1e-9 * top[-1]:  # many terms of one size
        return nan, nan
    shape = _pareto_shape(excess[excess > 0])
    return shape, (1 + shape) / sqrt(size)


def _pareto_shape(x):
    """Return the shape of a generalised Pareto law from its ascending draws."""
    n = len(x)
    grid = np.arange(1, 30 + int(sqrt(n)) + 1)
    b = (1 - np.sqrt(len(grid) / (grid - 0.5))) / (3 * x[int(n / 4 + 0.5) - 1])
    b = b + 1 / x[-1]
    k = np.log1p(-b[:, None] * x).mean(axis=1)
    likelihood = n * (np.log(-b / k) - k - 1)
    weight = np.exp(likelihood - likelihood.max())
    found = float(np.log1p(-(b @ weight / weight.sum()) * x).mean())
    return (n * found + PRIOR_SIZE * PRIOR) / (n + PRIOR_SIZE)

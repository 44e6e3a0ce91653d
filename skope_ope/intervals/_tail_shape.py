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

A fit alone does not tell that terms have a tail of that law: weights of few sizes come
in lumps, and the gap between two lumps looks like a heavy tail. What a shape above .7
implies is checked, too. Two things that are rare in such tails, and usual in bounded
terms, contradict it:

- the largest term carries little of the sum of squares. These squares have a tail of
  index below .72, so their sum is a few times the largest of them at any number XX
- the five largest terms are alike. With independent exponential E the logarithm of the
  largest over the fifth is :math:`k \max(E_1, \dots, E_4)`: five terms within 10% have
  probability :math:`(1 - .9^{1/k})^4`, which is .0004 at k = .7 and falls with k.
"""

from math import nan, sqrt

import numpy as np

FEWEST_TAIL_TERMS = 20  # terms of a tail
UNRELIABLE = 0.7
PRIOR_SHAPE, PRIOR_SIZE = 0.5, 10
LEAST_TAIL_SHARE = 0.1  # of the largest term in the sum of squares of a heavy tail
ALIKE_TERMS = 0.9  # of the largest
N_ALIKE = 5  # terms of a bounded law that reach it


def tail_shape(values):
    """Return k of the largest positive values, and its standard error."""
    positive = values[values > 0]
    size = int(min(len(positive) / 5, 3 * sqrt(len(positive))))
    if size < FEWEST_TAIL_TERMS:
        return nan, nan
    top = np.sort(np.partition(positive, -size - 1)[-size - 1 :])
    excess = top[1:] - top[0]
    quarter = len(excess) // 4
    if not excess[quarter] > 1e-9 * top[quarter + 1]:  # many terms of one size
        return nan, nan
    shape = _pareto_shape(excess[excess > 0])
    if shape > UNRELIABLE and (_carries_little(positive) or is_bounded(positive)):
        return nan, nan
    return shape, (1 + shape) / sqrt(size)


def is_bounded(values):
    """Return whether the largest positive values are alike: they reach a bound."""
    largest = values.max(initial=0)
    return largest > 0 and np.count_nonzero(values >= ALIKE_TERMS * largest) >= N_ALIKE


def _carries_little(positive):
    share = positive / positive.max()
    return LEAST_TAIL_SHARE * float(share @ share) > 1


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
    return (n * found + PRIOR_SIZE * PRIOR_SHAPE) / (n + PRIOR_SIZE)

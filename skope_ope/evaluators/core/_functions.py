# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The functions of means that are estimates, with their gradients.

Each takes the means of the per-round terms as a list of floats and returns the value
and one slope per term. Where the value cannot be formed they divide by zero, and the
estimate is NaN. `divisor` is the number of the mean of weights that a ratio is divided
by: a round that has all of it is the ratio, whatever the others bring. `along` names
the mean of a numerator and its divisor: the value is s less where s times the divisor
is taken from the numerator, so sums may be about what lies near the ratio. `n_means` is
the number of means that enter, where there may be others.
"""

from collections.abc import Sequence

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

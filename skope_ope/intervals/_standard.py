# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Intervals from a standard error: normal and Student."""

from __future__ import annotations

from scipy.special import ndtri, stdtrit


def normal_interval(value: float, standard_error: float, level: float = 0.95) -> float:
    r"""Return the normal interval :math:`\hat V \pm z_{(1+level)/2}\, se`.

    Parameters
    ----------
    value, standard_error : float
        The estimate and its standard error.
    level : float, default=0.95
        Coverage, two-sided.

    Returns
    -------
    low, high : float

    Examples
    --------
    >>> from skope_ope.intervals import normal_interval
    >>> low, high = normal_interval(0.5, 0.1)
    >>> round(low, 3), round(high, 3)
    (0.304, 0.696)
    """
    half = ndtri((1 + level) / 2) * standard_error
    return float(value - half), float(value + half)


def student_interval(
    value: float, standard_error: float, degrees_of_freedom: float, level: float = 0.95
) -> float:
    r"""Return the interval :math:`\hat V \pm t_{(1+level)/2, df}\, se`.

    Parameters
    ----------
    value, standard_error : float
        The estimate and its standard error.
    degrees_of_freedom : float
        One less than the number of independent terms.
    level : float, default=0.95
        Coverage, two-sided.

    Returns
    -------
    low, high : float

    Examples
    --------
    >>> from skope_ope.intervals import student_interval
    >>> low, high = student_interval(0.5, 0.1, 9)
    >>> round(low, 3), round(high, 3)
    (0.274, 0.726)
    """
    half = stdtrit(degrees_of_freedom, (1 + level) / 2) * standard_error
    return float(value - half), float(value + half)

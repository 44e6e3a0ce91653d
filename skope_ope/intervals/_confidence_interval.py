# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Two limits, and how they were found."""

from __future__ import annotations

from math import nan

from scipy.special import ndtri, stdtrit

from skope_ope.logs._html import card, doubts, interval_picture, main_number, pairs
from skope_ope.logs._shown_numbers import (
    called,
    figure,
    level_text,
    places_of_interval,
    span,
)


class ConfidenceInterval(tuple[float, float]):
    """Lower and upper limit of a value, with the method and its assumptions.

    It is a tuple: `low, high = value.confidence_interval()`. pickle keeps all
    attributes; skops keeps only a plain tuple of the two limits.

    Parameters
    ----------
    low, high : float
        The limits.
    level : float
        Coverage, two-sided.
    method : str
        The method that computed the interval.
    max_weight : float, default=None
        The bound on the importance weights, if the method used one.
    max_weight_from : str, default=None
        The source of this bound.
    reward_range : tuple (float, float), default=None
        The range of the rewards, if the method used one.
    warnings : tuple of OPEWarning, default=()
        The warnings about this interval.

    Attributes
    ----------
    low, high : float
        The limits.

    Examples
    --------
    >>> from skope_ope import IPS, UniformPolicy
    >>> from skope_ope.datasets import make_bandit_logs
    >>> value = IPS().fit(make_bandit_logs(random_state=0)).evaluate(UniformPolicy())
    >>> interval = value.confidence_interval(0.9)
    >>> low, high = interval
    >>> low == interval.low, interval.level
    (True, 0.9)
    """

    def __new__(
        cls,
        low,
        high,
        level,
        method,
        max_weight=None,
        max_weight_from=None,
        reward_range=None,
        warnings=(),
    ):
        """Make the tuple of the limits."""
        self = super().__new__(cls, (float(low), float(high)))
        self.level, self.method, self.warnings = level, method, tuple(warnings)
        self.max_weight, self.max_weight_from = max_weight, max_weight_from
        self.reward_range = reward_range
        return self

    def __getnewargs__(self):
        return (*self, self.level, self.method)

    @property
    def low(self) -> float:
        """The lower limit."""
        return self[0]

    @property
    def high(self) -> float:
        """The upper limit."""
        return self[1]

    @property
    def width(self) -> float:
        """The upper limit minus the lower limit."""
        return self[1] - self[0]

    def __repr__(self):
        places = places_of_interval(*self)
        return (
            f"ConfidenceInterval(low={called(self.low, places)}, "
            f"high={called(self.high, places)}, level={self.level!r}, "
            f"method={self.method!r})"
        )

    def _repr_html_(self):
        level = level_text(self.level)
        limits = span(*self, places_of_interval(*self))
        facts = {"method": self.method}
        if self.max_weight is not None:
            by = f" ({self.max_weight_from})" if self.max_weight_from else ""
            facts["largest weight"] = figure(self.max_weight) + by
        if self.reward_range is not None:
            facts["range of rewards"] = " to ".join(map(figure, self.reward_range))
        picture = interval_picture(nan, *self, f"{level} interval {limits}")
        return card(
            f"{level} interval",
            main_number(limits, "", picture),
            pairs(facts),
            details=doubts(self.warnings),
        )


# -- intervals from a standard error: normal and Student -------------------------------


def normal_interval(
    value: float, standard_error: float, level: float = 0.95
) -> tuple[float, float]:
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
) -> tuple[float, float]:
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

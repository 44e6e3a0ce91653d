# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Two limits and how they were found; intervals from standard errors, and of ratios."""

from __future__ import annotations

from math import nan, sqrt
from numbers import Real

from scipy.special import ndtri, stdtrit

from skope_ope.logs._html import card, doubts, interval_picture, main_number, pairs
from skope_ope.logs._shown_numbers import (
    called,
    figure,
    level_text,
    places_of_interval,
    span,
)


def check_level(level):
    """Raise if `level` is not in (0, 1)."""
    if not isinstance(level, Real) or not 0 < level < 1:
        raise ValueError(f"level must lie in (0, 1), got {level!r}.")


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


# -- intervals for a ratio of two estimates that depend on each other ------------------


def delta_ratio_interval(
    numerator: float,
    denominator: float,
    numerator_error: float,
    denominator_error: float,
    covariance: float,
    degrees_of_freedom: float,
    level: float = 0.95,
) -> tuple[float, float]:
    r"""Return the delta-method interval for a ratio of two estimates.

    .. math:: \frac{a}{b} \pm t_{(1+level)/2, df}\, \frac{1}{|b|} \sqrt{s_a^2
        - 2 \tfrac{a}{b} s_{ab} + (\tfrac{a}{b})^2 s_b^2}

    It is always bounded and centred on the ratio. It covers too rarely if the
    denominator is noisy: see `fieller_interval`.

    Parameters
    ----------
    numerator, denominator : float
        The estimates a and b.
    numerator_error, denominator_error : float
        Their standard errors.
    covariance : float
        Of the two estimates.
    degrees_of_freedom : float
        Of the standard errors.
    level : float, default=0.95
        Coverage, two-sided.

    Returns
    -------
    low, high : float
        NaN for a denominator of zero.

    Examples
    --------
    >>> from skope_ope.intervals import delta_ratio_interval
    >>> low, high = delta_ratio_interval(0.02, 0.1, 0.01, 0.02, 0.0, 99)
    >>> round(low, 3), round(high, 3)
    (-0.014, 0.414)
    """
    check_level(level)
    error = ratio_error(
        numerator, denominator, numerator_error, denominator_error, covariance
    )
    if not denominator:
        return nan, nan
    ratio, half = numerator / denominator, _quantile(degrees_of_freedom, level) * error
    return float(ratio - half), float(ratio + half)


def ratio_error(a, b, a_error, b_error, covariance):
    """Return the standard error of a / b by the delta method, NaN for b = 0."""
    if not b:
        return nan
    ratio = a / b
    b_error = ratio * b_error
    variance = a_error * a_error - 2 * ratio * covariance + b_error * b_error
    return nan if variance != variance else sqrt(max(variance, 0.0)) / abs(b)


def fieller_interval(
    numerator: float,
    denominator: float,
    numerator_error: float,
    denominator_error: float,
    covariance: float,
    degrees_of_freedom: float,
    level: float = 0.95,
) -> tuple[float, float]:
    r"""Return Fieller's interval for a ratio of two estimates [1]_.

    It is the set of ratios :math:`\rho` that the test of :math:`a - \rho b = 0` does
    not reject,

    .. math:: (a - \rho b)^2 \le t_{(1+level)/2, df}^2\,
        (s_a^2 - 2 \rho s_{ab} + \rho^2 s_b^2),

    so that it holds zero exactly if Student's interval of the numerator does. It is an
    interval if Student's interval of the denominator is on one side of zero. Otherwise
    the set is unbounded, and the limits are NaN.

    Parameters
    ----------
    numerator, denominator : float
        The estimates a and b.
    numerator_error, denominator_error : float
        Their standard errors.
    covariance : float
        Of the two estimates.
    degrees_of_freedom : float
        Of the standard errors.
    level : float, default=0.95
        Coverage, two-sided.

    Returns
    -------
    low, high : float
        NaN if the denominator may be zero.

    References
    ----------
    .. [1] Fieller, E. C. (1954). Some problems in interval estimation. Journal of the
       Royal Statistical Society, Series B 16(2).

    Examples
    --------
    >>> from skope_ope.intervals import fieller_interval
    >>> low, high = fieller_interval(0.02, 0.1, 0.01, 0.02, 0.0, 99)
    >>> round(low, 3), round(high, 3)
    (0.002, 0.473)
    >>> fieller_interval(0.02, 0.1, 0.01, 0.06, 0.0, 99)
    (nan, nan)
    """
    check_level(level)
    t = _quantile(degrees_of_freedom, level)
    a, b = t * numerator_error, t * denominator_error
    both = numerator_error * denominator_error
    return ratio_limits(
        numerator,
        denominator,
        (numerator - a, numerator + a),
        (denominator - b, denominator + b),
        covariance / both if both else 0.0,
    )


def ratio_limits(a, b, a_limits, b_limits, correlation):
    r"""Return the limits of a / b that follow from those of a and of b [1]_."""
    # Fieller's equation, in which each limit of the ratio takes the half widths that it
    # depends on: the lower limit of a, and the upper limit of b where the ratio is
    # positive there, or its lower limit. The limits hold zero where those of a do.
    if b < 0:
        a, a_limits = -a, (-a_limits[1], -a_limits[0])
        b, b_limits = -b, (-b_limits[1], -b_limits[0])
    if not 0 < b_limits[0] <= b:
        return nan, nan
    correlation = min(max(correlation, -1.0), 1.0)
    down, up = b - b_limits[0], max(b_limits[1] - b, 0.0)
    low = _lower_limit(a, b, a - a_limits[0], down, up, correlation)
    high = 0.0 - _lower_limit(-a, b, a_limits[1] - a, down, up, -correlation)
    return low, high


def _lower_limit(a, b, a_half, b_down, b_up, correlation):
    """Return the least rho at which (a - rho b)^2 is no more than its error allows."""
    a_half = max(a_half, 0.0)
    b_half = b_up if a > a_half else b_down
    # A rho^2 - 2 B rho + C = 0; C has the sign of the lower limit of a
    A = (b - b_half) * (b + b_half)
    B = a * b - correlation * a_half * b_half
    C = (a - a_half) * (a + a_half)
    root = sqrt(max(B * B - A * C, 0.0))
    if B > 0 or C > 0:  # the root that does not cancel
        return float(C / (B + root))
    return float((B - root) / A)


def _quantile(degrees_of_freedom, level):
    return float(stdtrit(degrees_of_freedom, (1 + level) / 2))

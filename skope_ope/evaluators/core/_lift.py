# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Relative gains: a paired difference over the size of the baseline."""

from __future__ import annotations

import warnings as python_warnings
from math import copysign, isfinite, isnan, nan
from numbers import Real
from typing import TYPE_CHECKING, Literal

from skope_ope._texts import meant
from skope_ope.exceptions import ZeroBaselineWarning
from skope_ope.intervals import (
    ConfidenceInterval,
    delta_ratio_interval,
    fieller_interval,
)
from skope_ope.intervals._confidence_interval import ratio_error, ratio_limits
from skope_ope.logs._html import card, doubts, interval_picture, main_number, pairs
from skope_ope.logs._shown_numbers import (
    called,
    decimals,
    fixed,
    level_text,
    places_of_interval,
    span,
)

if TYPE_CHECKING:
    from skope_ope.evaluators.core._policy_value import PolicyValue
    from skope_ope.exceptions import OPEWarning

RATIO_METHODS = ("auto", "fieller", "delta")
LEVEL = 0.95  # at which the baseline must be told from zero


class Lift:
    r"""The relative gain of a policy over a baseline.

    .. math:: \frac{\hat V - \hat V_0}{|\hat V_0|}

    `PolicyValue.lift` makes it. It has the sign of the gain: over a baseline of -2, a
    value of -1 is a lift of one half. Read more in the :ref:`User Guide <lift>`.

    Parameters
    ----------
    value : PolicyValue
        That of the policy.
    baseline : PolicyValue or float
        That of the baseline, on the same rounds.
    difference : PolicyValue, default=None
        Their paired difference; `None`: the baseline is a number.
    warnings : tuple of OPEWarning, default=()
        Warnings of the computation.

    Attributes
    ----------
    value : float
        The relative gain; .1 is ten percent. NaN if the baseline may be zero: its
        default 95% interval contains zero, or does not exist.
    standard_error : float
        By the delta method. NaN if the value is NaN, or if the gain or the baseline has
        no standard error.
    gain : float
        The value minus that of the baseline.
    baseline : float
        The value of the baseline.
    degrees_of_freedom : float
        Of the standard error.
    n_rounds : int
        Rounds that both values know.
    leaves_bias_out : str or False
        What the interval leaves out, see `PolicyValue`.
    warnings : tuple of OPEWarning
        Warnings of the computation.

    Examples
    --------
    >>> from skope_ope import SNIPS, UniformPolicy
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs, policy, truth = make_bandit_logs(random_state=0, return_truth=True)
    >>> evaluator = SNIPS().fit(logs)
    >>> baseline = evaluator.evaluate(UniformPolicy())
    >>> lift = evaluator.evaluate(policy).lift(baseline)
    >>> low, high = lift.confidence_interval()
    >>> f"{lift:+.1%}, {low:+.1%} to {high:+.1%}"
    '+45.0%, +22.3% to +69.9%'
    """

    def __init__(
        self,
        value: PolicyValue,
        baseline: PolicyValue | float,
        difference: PolicyValue | None = None,
        warnings: tuple[OPEWarning, ...] = (),
    ) -> None:
        # without a difference the baseline is a number
        self._value, self._baseline, self._difference = value, baseline, difference
        self.baseline = float(baseline)
        self.gain = value.value - baseline if difference is None else difference.value
        spread = value if difference is None else difference
        self.degrees_of_freedom = spread.degrees_of_freedom
        self.leaves_bias_out = spread.leaves_bias_out
        self.n_rounds = int(spread.diagnostics.get("n_common_rounds", value.n_rounds))
        self._moments = self._errors()
        found = _zero_warnings(self._baseline_limits(LEVEL), LEVEL)
        self.warnings = (*warnings, *found)
        sign = copysign(1.0, self.baseline)
        numbers = sign * self.gain, self.baseline, *self._moments
        self.value = nan if found else self.gain / abs(self.baseline)
        self.standard_error = nan if found else ratio_error(*numbers)

    def confidence_interval(
        self, level: float = LEVEL, method: Literal["auto", "fieller", "delta"] = "auto"
    ) -> ConfidenceInterval:
        """Two-sided interval for the relative gain.

        Parameters
        ----------
        level : float, default=0.95
            Coverage, in (0, 1). For m policies against one baseline, ``1 - alpha / m``
            makes all m intervals hold together with probability 1 - alpha.
        method : {"auto", "fieller", "delta"}, default="auto"
            "auto" : Fieller's equation with the default intervals of the gain and of
            the baseline, which are valid for few events. It contains zero if the
            default interval of the gain does.

            "fieller" : Fieller's interval, from standard errors. It contains zero if
            Student's interval of the gain does. "auto" gives the same if both default
            intervals are Student's.

            "delta" : symmetric, by the delta method. It covers too little if the
            baseline is noisy.

        Returns
        -------
        interval : ConfidenceInterval
            The tuple (low, high). NaN if the lift is NaN, or if the gain has no
            interval. Except for "delta", also NaN if the baseline's interval at this
            level contains zero. For "fieller" that interval is Student's, for "auto"
            the default one.

        Warns
        -----
        ZeroBaselineWarning
            Where the baseline may be zero.
        """
        found = self._interval(level, method)
        for warning in found.warnings:
            python_warnings.warn(warning, stacklevel=2)
        return found

    def _interval(self, level=LEVEL, method="auto"):
        """Return the interval without a word; its warnings are in it."""
        if not isinstance(method, str) or method not in RATIO_METHODS:
            known, hint = (
                ", ".join(map(repr, RATIO_METHODS)),
                meant(method, RATIO_METHODS),
            )
            raise ValueError(f"method must be one of {known}, got {method!r}.{hint}")
        default = method == "auto"
        gain = self._gain_interval(level, method if default else "student")
        below = self._baseline_limits(level, method if default else "student")
        known = [w for w in self.warnings if isinstance(w, ZeroBaselineWarning)]
        if not known and method != "delta":
            known = _zero_warnings(below, level)
        warned = [*gain.warnings, *getattr(below, "warnings", ())] if default else []
        answered = "fieller" if default else method
        if default:  # by name, where one of them is not Student's
            others = [getattr(one, "method", "student") for one in (gain, below)]
            answered = next((o for o in others if o != "student"), answered)
        limits = (nan, nan) if known else self._limits(method, gain, below, level)
        return ConfidenceInterval(
            *limits, level, answered, warnings=dict.fromkeys([*known, *warned])
        )

    def _limits(self, method, gain, baseline, level):
        if self._difference is None:  # a number has no error
            return tuple(limit / abs(self.baseline) for limit in gain)
        sign = copysign(1.0, self.baseline)  # over the size of the baseline
        gain = sorted(sign * limit for limit in gain)
        errors = self._moments
        numbers = sign * self.gain, self.baseline, *errors
        about = self.degrees_of_freedom, level
        if method == "delta":
            return delta_ratio_interval(*numbers, *about)
        if method == "fieller":
            return fieller_interval(*numbers, *about)
        both = errors[0] * errors[1]
        correlation = errors[2] / both if both else 0.0
        return ratio_limits(*numbers[:2], gain, baseline, correlation)

    def _errors(self):
        """Return the errors of the gain and of the baseline, and their covariance."""
        # The gain is that over the size of the baseline, which turns its sign and that
        # of the covariance where the baseline is negative.
        if self._difference is None:
            return self._value.standard_error, 0.0, 0.0
        one, other, gain = (
            v.standard_error for v in (self._value, self._baseline, self._difference)
        )
        covariance = (one**2 - other**2 - gain**2) / 2
        largest = gain * other
        covariance = min(max(covariance, -largest), largest)
        return gain, other, copysign(1.0, self.baseline) * covariance

    def _gain_interval(self, level, method="auto"):
        if self._difference is not None:
            return self._difference._interval(level, method)
        found = self._value._interval(level, method)
        low, high = (limit - self.baseline for limit in found)
        return ConfidenceInterval(
            low, high, level, found.method, warnings=found.warnings
        )

    def _baseline_limits(self, level, method="auto"):
        if self._difference is None:
            return self.baseline, self.baseline
        return self._baseline._interval(level, method)

    @property
    def _gain_error(self):
        """Standard error of the gain."""
        known = self._value if self._difference is None else self._difference
        return known.standard_error

    def __float__(self):
        return float(self.value)

    def __format__(self, spec):
        return format(float(self), spec) if spec else str(self)

    def __repr__(self):
        left_out, error = self.leaves_bias_out, self.standard_error
        places, own = decimals([error]), decimals([self._gain_error])
        return (
            f"Lift({called(self.value, places)}, standard_error={called(error, places)}"
            f", gain={called(self.gain, own)}, baseline={called(self.baseline, own)}"
            + (f", leaves_bias_out={left_out!r})" if left_out else ")")
        )

    def _repr_html_(self):
        interval, error = self._interval(), 100 * self.standard_error
        low, high = (100 * limit for limit in interval)
        places, own = decimals([error]), decimals([self._gain_error])
        value, limits = 100 * self.value, span(low, high, places, "+", "%")
        told = fixed(value, places, "+", "%")
        about = (value, low, high, f"relative gain {told}, {limits}")
        facts = {
            "standard error": fixed(error, places, unit="%"),
            "gain": fixed(self.gain, own, "+"),
            "baseline": fixed(self.baseline, own),
            "rounds": fixed(self.n_rounds, 0),
        }
        if self.leaves_bias_out:
            facts["it leaves out"] = self.leaves_bias_out
        return card(
            "Lift",
            main_number(
                told,
                f"95% interval {limits} ({interval.method})",
                interval_picture(*about, zero=True, unit="%"),
            ),
            pairs(facts),
            lead="relative gain over the baseline",
            details=doubts((*self.warnings, *interval.warnings)),
        )


class RelativeGains:
    """How one `PolicyValue` is compared with another by their ratio."""

    def lift(self, baseline: PolicyValue | float) -> Lift:
        r"""Relative gain over a baseline, :math:`(\hat V - \hat V_0) / |\hat V_0|`.

        Both are estimated from the same rounds, so that their errors depend on each
        other; the interval of the ratio knows. Read more in the
        :ref:`User Guide <lift>`.

        Parameters
        ----------
        baseline : PolicyValue or float
            From the same rounds (equal `row_id`); or a number that is known exactly and
            is not zero.

        Returns
        -------
        lift : Lift
            `value`, `standard_error` and `confidence_interval(level, method)`.

        Raises
        ------
        TypeError
            If the baseline is neither a `PolicyValue` nor a number.
        ValueError
            If it comes from other rounds, or is the number zero or not finite.

        Warns
        -----
        ZeroBaselineWarning
            Where the baseline may be zero: the lift is NaN.

        Examples
        --------
        >>> import numpy as np
        >>> from skope_ope import IPS, BanditLogs
        >>> logs = BanditLogs(np.zeros((4, 1)), [0, 1, 1, 0], [1, 0, 1, 0], [0.5] * 4)
        >>> lift = IPS().fit(logs).evaluate(np.tile([0.5, 0.5], (4, 1))).lift(0.4)
        >>> round(lift.value, 3)
        0.25
        """
        found = lift_of(self, baseline)
        for warning in found.warnings:
            python_warnings.warn(warning, stacklevel=2)
        return found


def lift_of(value, baseline):
    """Return the `Lift` of a `PolicyValue`, without a word."""
    if isinstance(baseline, RelativeGains):
        return Lift(*value._paired(baseline))
    if not isinstance(baseline, Real) or isinstance(baseline, bool):
        raise TypeError(
            "baseline must be a PolicyValue from the same rounds, or a number that is "
            f"known exactly, got {type(baseline).__name__}."
        )
    if not isfinite(baseline) or not baseline:
        raise ValueError(
            f"a relative gain needs a baseline that is not zero, got {baseline!r}. "
            "Give the gain itself: the value minus the baseline."
        )
    return Lift(value, float(baseline))


def _zero_warnings(limits, level):
    """Return the warning that a baseline may be zero, in a list, or none."""
    low, high = limits
    if low > 0 or high < 0:
        return []
    known = (
        "has no interval"
        if isnan(low)
        else f"lies in {span(low, high, places_of_interval(low, high))}"
    )
    text = (
        f"the baseline may be zero: it {known} ({level_text(level)} interval). The "
        "relative gain and its interval are NaN. Give the gain itself, the value "
        "minus the baseline, or collect more rounds."
    )
    return [ZeroBaselineWarning(text, low)]

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""How many rounds a decision takes."""

from __future__ import annotations

from math import ceil, inf, isfinite, nan, sqrt
from numbers import Integral, Real

from scipy.special import ndtri

from skope_ope.evaluators.core._policy_value import PolicyValue


def rounds_needed(
    gain: float | PolicyValue,
    standard_deviation: float | None = None,
    *,
    level: float = 0.95,
    n_comparisons: int = 1,
    power: float = 0.8,
) -> float:
    r"""Return how many rounds separate a gain from zero.

    With this many rounds the interval of the gain excludes zero with probability
    `power`:

    .. math:: n^* = \left(
        \frac{(z_{1 - \alpha / (2 m)} + z_{power})\, \sigma}{gain} \right)^2

    with :math:`\alpha` = 1 - `level`, m comparisons (Bonferroni), and the standard
    deviation :math:`\sigma` of the paired difference of a round. Read more in the
    :ref:`User Guide <comparison>`.

    Parameters
    ----------
    gain : float or PolicyValue
        The gain per round. A difference of two values includes its standard deviation.
        The answer is then about the estimated gain, which is uncertain. To plan an
        experiment, pass the smallest gain that matters to you:
        ``rounds_needed(0.001, sd)``.
    standard_deviation : float, default=None
        Standard deviation of the paired differences of the rounds:
        ``difference.standard_error * difference.n_rounds ** 0.5`` of an estimated
        difference. `None`: `gain` is such a difference. If you pass both, this number
        is used.
    level : float, default=0.95
        Coverage of all intervals together.
    n_comparisons : int, default=1
        Number of policies that are compared with the baseline.
    power : float, default=0.8
        Probability of an answer, in (0, 1).

    Returns
    -------
    n_rounds : float
        Number of rounds in total, including those that you have. `inf` for a gain of
        zero, NaN if the gain or the standard deviation is NaN.

    Raises
    ------
    ValueError
        If `standard_deviation` is missing or negative, or `level`, `power` or
        `n_comparisons` is out of range.

    Notes
    -----
    It has three assumptions. Later rounds are like those of the log: the same logger,
    the same mix of contexts, groups of the same sizes. The gain is the true one. The
    estimated gain is about normal, which needs more than ten effective events.

    Examples
    --------
    A gain of .002 clicks per round, where the difference of a round has the standard
    deviation .1:

    >>> from skope_ope.selection import rounds_needed
    >>> rounds_needed(0.002, 0.1)
    19623.0
    >>> rounds_needed(0.002, 0.1, n_comparisons=20)
    37345.0
    """
    if isinstance(gain, PolicyValue):
        if standard_deviation is None:
            standard_deviation = gain.standard_error * sqrt(gain.n_rounds)
        gain = gain.value
    _check_plan(gain, standard_deviation, level, n_comparisons, power)
    if not (isfinite(gain) and isfinite(standard_deviation)):
        return nan
    if gain == 0:
        return inf
    quantiles = ndtri(1 - (1 - level) / (2 * n_comparisons)) + ndtri(power)
    # a power below alpha / (2 m) takes no rounds at all
    return float(max(ceil((max(quantiles, 0) * standard_deviation / gain) ** 2), 1))


def _check_plan(gain, standard_deviation, level, n_comparisons, power):
    if not isinstance(gain, Real):
        raise TypeError(
            "gain must be a number or a difference of two values, got "
            f"{type(gain).__name__}."
        )
    if not isinstance(standard_deviation, Real) or standard_deviation < 0:
        raise ValueError(
            "standard_deviation must be a number of at least 0, the one of the "
            f"paired differences of the rounds, got {standard_deviation!r}. If you "
            "pass a difference of two values, leave it out: "
            "rounds_needed(comparison.differences['new'])."
        )
    for name, value in (("level", level), ("power", power)):
        if not isinstance(value, Real) or not 0 < value < 1:
            raise ValueError(f"{name} must be a number in (0, 1), got {value!r}.")
    if not isinstance(n_comparisons, Integral) or n_comparisons < 1:
        raise ValueError(
            f"n_comparisons must be a whole number of at least 1, got "
            f"{n_comparisons!r}."
        )

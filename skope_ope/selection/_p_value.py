# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""p-values that agree with intervals."""

from math import isnan, nan

from scipy.optimize import brentq

LEAST_P = 1e-12  # smaller ones are not told apart


def p_value(gain, n_comparisons, level):
    """Return the p-value of no gain, corrected for the number of comparisons."""
    # It is the least alpha at which zero is outside of the interval of level 1 - alpha
    # / m of the gain: one interval, whatever its method, gives limits and p-value.
    if not gain.standard_error > 0:  # NaN too
        return nan if isnan(gain.standard_error) else 1.0
    m = n_comparisons

    def outside(alpha):
        low, high = gain._interval(1 - alpha)
        return max(low, -high)  # how far 0 is outside, where it is

    # on one side of the own level: rounding never contradicts the decision
    own = (1 - level) / m
    ends = (LEAST_P, own) if outside(own) > 0 else (own, 1 - LEAST_P)
    if outside(ends[0]) > 0:
        return min(m * ends[0], 1.0)
    if not outside(ends[1]) > 0:
        return 1.0
    return min(m * brentq(outside, *ends, rtol=1e-10), 1.0)

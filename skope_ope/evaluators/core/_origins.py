# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""From where terms are measured, so that squares keep the digits they differ in."""

import numpy as np

from skope_ope._dot import dot

FAR = 0.9  # share of the squared mean in the mean square of terms far from zero


def total(values):
    """Return the sum over the strata of a number of every stratum."""
    return values if isinstance(values, float) else float(np.sum(values))


def straight(terms, slants):
    """Return the terms, numerators less their slants times their divisors."""
    out = list(terms)
    for top, (end, slant) in slants.items():
        if slant:
            out[top] = out[top] - slant * out[end]
    return out


def slant_of(term, divisor):
    """Return the ratio of a numerator that follows its divisor, or 0."""
    cross, square = dot(term, divisor), dot(divisor, divisor)
    if not cross * cross > FAR * square * dot(term, term):
        return 0.0
    return cross / square


def middle_of(term):
    """Return the mean of terms far from zero for their spread, or 0."""
    whole, n = float(np.add.reduce(term)), len(term)
    if not whole * whole > FAR * n * dot(term, term):
        return 0.0
    # the mean of equal terms may differ from them by rounding
    return float(term[0]) if (term == term[0]).all() else whole / n

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""From where terms are measured, so that squares keep the digits they differ in."""

import numpy as np

from skope_ope._dot import dot

FAR = 0.9  # share of the squared mean in the mean square of terms far from zero


def common_origin(*parts):
    """Return the mean of all terms as their origin, the smallest offset, and slants."""
    # Sums about what lies near the terms lose no digits. Of rewards that are all far
    # from zero every part has an offset near them; others may be one round that is.
    offset = min((part.offset for part in parts), key=abs)
    mass = sum(total(part.mass) for part in parts)
    slants = dict(parts[0].slants)
    if not mass:
        return parts[0].origin, offset, slants
    origin = sum(part._plain(offset) for part in parts) / mass
    for top, (end, _) in slants.items():
        far = any(part.slants[top][1] for part in parts)
        slant = float(origin[top] / origin[end]) if far else 0.0
        slants[top] = end, slant
        origin[top] -= slant * origin[end]
    return origin.tolist(), offset, slants


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
    """Return the mean of terms far from zero for their spread, or 0, and their sum."""
    whole, n = float(np.add.reduce(term)), len(term)
    if not whole * whole > FAR * n * dot(term, term):
        return 0.0, whole
    # the mean of equal terms may differ from them by rounding
    return float(term[0]) if (term == term[0]).all() else whole / n, whole

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Numbers of moderate size, for sums of squares."""

import numpy as np

HUGE = 1e100  # squares of more, and sums of them, may be infinite


def moderate(values):
    """Get numbers whose squares are neither infinite nor zero by their size alone."""
    # They are divided by a power of two, which changes no digit, where the largest is
    # above `HUGE` or below its inverse.
    finite = np.isfinite(values)
    if not finite.all():
        values = np.where(finite, values, np.nan)
    largest = np.abs(values).max(where=finite, initial=0.0)
    if largest == 0 or 1 / HUGE < largest < HUGE:
        return values
    return np.ldexp(values, -int(np.frexp(largest)[1]))

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Lepski's principle over a path of estimates: SLOPE and SLOPE++."""

import numpy as np

PLUS_PLUS = 6**0.5 - 1


def slope_index(values, widths):
    r"""Return the last estimate whose interval shares a point with all earlier ones."""
    # The path goes from the least to the most biased estimate. With widths made
    # non-increasing from the right, :math:`I_i = [\hat V_i \pm 2 w_i]`, and the choice
    # is the last i for which :math:`I_1, \ldots, I_i` have a common point.
    widths = non_increasing(widths)
    low = np.maximum.accumulate(values - 2 * widths)
    high = np.minimum.accumulate(values + 2 * widths)
    return _last_of_prefix(low <= high)


def slope_plus_plus_index(values, widths):
    r"""Return the last estimate that is close to every earlier one."""
    # The choice is the last i such that every :math:`j \le i` satisfies :math:`|\hat
    # V_j - \hat V_k| \le w_j + (\sqrt 6 - 1) w_k` for all :math:`k < j`.
    gaps = np.abs(values[:, None] - values)
    close = gaps <= widths[:, None] + PLUS_PLUS * widths
    later = np.triu(np.ones_like(close))  # only earlier ones count
    return _last_of_prefix((close | later).all(axis=1))


def non_increasing(widths):
    """Raise every width to the largest one that comes after it."""
    return np.maximum.accumulate(widths[::-1])[::-1]


def _last_of_prefix(agrees):
    """Index of the last True before the first False."""
    disagree = np.flatnonzero(~agrees)
    return int(disagree[0]) - 1 if disagree.size else len(agrees) - 1

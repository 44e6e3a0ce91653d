# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Probabilities that a file holds with few digits, whose sums are not quite one."""

import numpy as np

FEWEST, MOST = 2, 6  # digits behind the point
WIDEST = 0.05  # sums further off say more than that digits were dropped


def rounding(proba):
    """Return how many digits probabilities have, and how far that moves a sum."""
    for digits in range(FEWEST, MOST + 1):
        if (np.abs(proba - np.round(proba, digits)) < 1e-12).all():
            half_a_digit = 0.5 * 10.0**-digits
            # the sum itself has an error in its last bits
            return digits, min(proba.shape[1] * half_a_digit, WIDEST) + 1e-12
    return None, 0.0

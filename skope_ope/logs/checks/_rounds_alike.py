# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What chance does where rounds that follow each other are alike."""

from math import sqrt

import numpy as np

N_BLOCKS = 40, 20
FEWEST_IN_BLOCK = 5
BY_CHANCE = 2.0  # standard errors that blocks of independent rounds often reach


def long_run_spread(steps):
    r"""Return the standard deviation of the sum of steps that may resemble the next.

    For centred steps u and their sums B over m = 40, then 20 blocks of consecutive
    ones it is the root of the largest of :math:`\sum_i u_i^2` and those

    .. math:: V_m = \frac{m}{2 (m - 1)} \sum_{j=2}^{m} (B_j - B_{j-1})^2

    that exceed it by two standard errors, :math:`2 \sqrt{3 / m}` of it. Where the
    steps of a block are alike its sum varies more; a slow drift, which changes the
    variance of the sums, hardly changes their differences (von Neumann, 1941).

    Parameters
    ----------
    steps : ndarray of shape (n,)
        Centred numbers in the order of time.

    Returns
    -------
    spread : float
    """
    plain = spread = float(np.linalg.norm(steps))
    for n_blocks in N_BLOCKS:
        if len(steps) < FEWEST_IN_BLOCK * n_blocks:
            continue
        starts = np.arange(n_blocks) * len(steps) // n_blocks
        change = np.diff(np.add.reduceat(steps, starts))
        alike = float(np.linalg.norm(change)) * sqrt(n_blocks / (2 * (n_blocks - 1)))
        if alike > plain * sqrt(1 + BY_CHANCE * sqrt(3 / n_blocks)):
            spread = max(spread, alike)
    return spread

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What chance does where rounds that follow each other are alike."""

from math import exp, sqrt

import numpy as np

N_BLOCKS = 40, 20
FEWEST_IN_BLOCK = 5
TAIL = 0.1  # of the gaps between rewards
FEWEST_IN_TAIL = 10
CLEARLY = 3.0  # standard errors by which a tail is heavier than chance makes it
BY_CHANCE = 2.0  # standard errors that blocks of independent rounds often reach


def long_run_spread(steps):
    r"""Return the standard deviation of the sum of steps that may resemble the next."""
    # For centred steps u and their sums B over m = 40, then 20 blocks of consecutive
    # ones it is the root of the largest of :math:`\sum_i u_i^2` and those
    #
    # .. math:: V_m = \frac{m}{2 (m - 1)} \sum_{j=2}^{m} (B_j - B_{j-1})^2
    #
    # that exceed it by two standard errors, :math:`2 \sqrt{3 / m}` of it. Where the
    # steps of a block are alike its sum varies more; a slow drift, which changes the
    # variance of the sums, hardly changes their differences (von Neumann, 1941).
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


def chance_of_gap(gaps, counts, length):
    r"""Return the chance that the last rounds are without reward, by the gaps' tail."""
    # Between rewards of independent rounds the gaps above any u exceed it by the mean
    # gap on average. Where rewards come in bursts, the largest tenth of them exceeds
    # its threshold by more: by :math:`e` in place of the mean gap :math:`d`. A log that
    # ends anywhere then has no reward for more than L rounds with probability
    #
    # .. math:: \frac{m}{N} \, \frac{e}{d} \, \exp\Bigl(-\frac{L - u}{e}\Bigr)
    #
    # for m of N gaps above u: the share of the time that lies in long gaps.
    n_gaps = int(counts.sum())
    if n_gaps < FEWEST_IN_TAIL / TAIL:
        return 0.0
    place = int((1 - TAIL) * (n_gaps - 1))  # of the lower quantile
    threshold = int(gaps[np.searchsorted(np.cumsum(counts), place, side="right")])
    above = gaps > threshold
    n_tail = int(counts[above].sum())
    if n_tail < FEWEST_IN_TAIL:
        return 0.0
    usual = float(gaps @ counts) / n_gaps
    excess = float((gaps[above] - threshold) @ counts[above]) / n_tail
    if excess / usual - 1 <= CLEARLY / sqrt(n_tail):
        return 0.0
    share = n_tail / n_gaps
    return min(1.0, share * excess / usual * exp(-(length - threshold) / excess))

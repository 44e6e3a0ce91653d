# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Slates from a table of what every candidate is worth in every slot.

Values are of shape (n_queries, n_slots, n_candidates), -inf where a candidate cannot be
shown; slates are of shape (n_queries, n_slots), -1 where a slot stays empty.
"""

import numpy as np

from skope_ope.logs._slate_logs import EMPTY
from skope_ope.policies._base import first_best


def assign(values):
    """Slates of the largest sum of values, without repetition."""
    from scipy.optimize import linear_sum_assignment

    slates = np.full(values.shape[:2], EMPTY)
    for slate, table in zip(slates, values, strict=True):
        can = np.isfinite(table)
        if not can.any():
            continue
        # an empty slot costs more than the worst slate without one
        low, high = table[can].min(), table[can].max()
        penalty = low - len(table) * (high - low + 1)
        slots, shown = linear_sum_assignment(np.where(can, table, penalty), True)
        slate[slots] = np.where(can[slots, shown], shown, EMPTY)
    return slates


def assign_greedily(values):
    """Slates of the best pair of slot and candidate, then of the best one left."""
    left = values.copy()
    n_queries, n_slots, n_candidates = left.shape
    slates = np.full((n_queries, n_slots), EMPTY)
    every = np.arange(n_queries)
    for _ in range(n_slots):
        best = first_best(left.reshape(n_queries, -1))
        slot, shown = np.divmod(best, n_candidates)
        rows = np.flatnonzero(left[every, slot, shown] > -np.inf)
        slates[rows, slot[rows]] = shown[rows]
        left[rows, slot[rows]] = -np.inf
        left[rows, :, shown[rows]] = -np.inf
    return slates


def best_in_every_slot(values):
    """Slates of the best candidate of every slot, which may be the same one."""
    n_queries, n_slots, n_candidates = values.shape
    best = first_best(values.reshape(-1, n_candidates)).reshape(n_queries, n_slots)
    return np.where(np.isneginf(values).all(axis=2), EMPTY, best)

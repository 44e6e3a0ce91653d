# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The pseudoinverse where the logger likes all rankings alike."""

import numpy as np

from skope_ope.evaluators.slate._support import chunks
from skope_ope.logs._validation import EMPTY
from skope_ope.policies.slate._slate_base import entries, offered_slots

BLOCK = 8192  # rounds whose arrays fit the cache


def uniform_weights(target, logs, with_parts):
    r"""Weights where l of m candidates are shown, in any order."""
    # With the target's slot marginals q, their sums over slots :math:`c_a` and over
    # candidates :math:`t_j`, and :math:`T = \sum_j t_j`, the pseudoinverse gives
    #
    # .. math::
    #
    #     (\Gamma^+ q)_{ja} = \frac{T}{l^2}
    #     + (m-1)\Big[q_{ja} - \frac{c_a}{l} - \frac{t_j}{m} + \frac{T}{lm}\Big]
    #     + \frac{m(m-1)}{(m-l)\,l} \Big[c_a - \frac{T}{m}\Big],
    #
    # without the last term where l = m. For a policy that fills every slot, the weight
    # is :math:`1 + (m-1)[S - (l-P)/(m-l)]` with :math:`S = \sum_j q_{j s_j}` and
    # :math:`P = \sum_j c_{s_j}`.
    #
    # Outside of the range are policies that fill one slot more often than another and,
    # where l = m and the logger shows every candidate, one candidate more often than
    # another.
    n_rounds, n_slots = logs.slate.shape
    n_offered = offered_counts(logs)
    weight, residual, expected = np.empty((3, n_rounds))
    parts = np.empty((n_rounds, n_slots)) if with_parts else None
    matches = _matches if target.slates is None else _deterministic_matches
    for part_of_rounds in matches(target, logs, n_offered):
        rows, m, exists, own, shown, filled, lost, squares = part_of_rounds
        m = np.maximum(m, 1)  # without candidates, all that follows is zero
        n_filled = np.minimum(m, n_slots)  # slots of a slate
        total = filled.sum(axis=0)
        gap = (filled - total / n_filled) * exists
        part = own - shown / n_filled
        part -= gap / m
        part *= m - 1
        rest = np.maximum(m - n_filled, 1) * n_filled
        part += np.where(m > n_filled, m * (m - 1) / rest, 0.0) * (shown - total / m)
        if not exists.all():
            part *= logs.slate[rows].T != EMPTY
        expected[rows] = total / n_filled
        weight[rows] = expected[rows] + part.sum(axis=0)
        uneven = np.where(m > n_filled, 0.0, (squares - total**2 / m) / n_filled)
        square = (gap**2).sum(axis=0) / m + (lost**2).sum(axis=0) + uneven
        residual[rows] = np.sqrt(np.maximum(square, 0.0))
        if with_parts:
            parts[rows] = part.T
    return weight, residual, parts, expected


def offered_counts(logs):
    """Return how many candidates the rounds offer, one number where they all agree."""
    offered = offered_slots(logs, logs.n_slots)
    return offered[:, 0].sum(axis=1).astype(float)


def _of(n_offered, rows, n_slots):
    """Return the number of candidates of rounds, and which slots slates fill."""
    m = n_offered[rows] if len(n_offered) > 1 else n_offered[0]
    return m, np.arange(n_slots)[:, None] < np.minimum(m, n_slots)


def _matches(target, logs, n_offered):
    """Yield rows, m, slots, q and c at logged slates, t, t of empty slots."""
    # All but the first two have the shape (n_slots, n_rows). Last comes the sum of the
    # squares of c, by row.
    for rows, rounds, q in chunks(target, logs):
        m, exists = _of(n_offered, rows, logs.n_slots)
        filled = q.sum(axis=2).T
        if not exists.all():
            q = q * exists.T[:, :, None]
        total = q.sum(axis=1)
        squares = (total**2).sum(axis=1)
        total = np.broadcast_to(total[:, None], q.shape)
        own, shown = entries(q, rounds.slate).T, entries(total, rounds.slate).T
        yield rows, m, exists, own, shown, filled * exists, filled * ~exists, squares


def _deterministic_matches(target, logs, n_offered):
    """Yield what `_matches` does, without tables of candidates."""
    # candidates fit into few bytes: comparisons of all pairs of slots are fast
    kind = np.int16 if logs.max_candidates < 2**15 else np.int32
    n_slots = logs.n_slots
    for start in range(0, len(logs), BLOCK):
        rows = slice(start, start + BLOCK)
        m, exists = _of(n_offered, rows, n_slots)
        logged = np.ascontiguousarray(logs.slate[rows].T, dtype=kind)
        wanted = np.ascontiguousarray(target.slates[rows].T, dtype=kind)
        lost = (wanted != EMPTY) & ~exists
        wanted[lost | (wanted == EMPTY)] = EMPTY - 1  # empty slots do not match
        own = (logged == wanted).astype(float)
        shown = np.zeros(logged.shape, dtype=np.int16)
        for other in range(n_slots):
            shown += logged == wanted[other]
        filled, lost = (wanted >= 0).astype(float), lost.astype(float)
        squares = filled.sum(axis=0)
        for slot in range(1, n_slots if (m <= n_slots).any() else 0):
            twice = (wanted[:slot] == wanted[slot]) & (wanted[slot] >= 0)
            squares += 2 * twice.sum(axis=0)
        yield rows, m, exists, own, shown.astype(float), filled, lost, squares


def is_possible(logs):
    """Tell which logged slates are rankings that fill as many slots as they can."""
    kind = np.int16 if logs.max_candidates < 2**15 else np.int32
    n_offered, possible = offered_counts(logs), np.empty(len(logs), dtype=bool)
    for start in range(0, len(logs), BLOCK):
        rows = slice(start, start + BLOCK)
        slates = np.ascontiguousarray(logs.slate[rows].T, dtype=kind)
        _, exists = _of(n_offered, rows, logs.n_slots)
        shown = slates != EMPTY
        right = (shown == exists).all(axis=0)
        for slot in range(1, logs.n_slots):
            right &= ~((slates[:slot] == slates[slot]) & shown[slot]).any(axis=0)
        possible[rows] = right
    return possible

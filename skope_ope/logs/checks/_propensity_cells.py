# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""Bets against recorded propensities in cells of two or three columns.

A model that adds up what columns tell does not see propensities that are wrong for some
combinations of values only, as those of a rule whose branches stand in the wrong order.

Where the action a was possible, :math:`1[a_i = a] / p_i` has mean one in every cell of
the context. Who expects more of some actions in some cells puts shares
:math:`\lambda_{ca}` of the wealth on them and keeps the rest:

.. math:: f_i = 1 - \sum_a \lambda_{ca} + \lambda_{c a_i} / p_i

The mean of f is at most one under right propensities, whatever the logger does within
a cell, so products of f over rounds that were not learned from are e-values. Cells and
shares are learned: the columns are those whose cells deviate most, the shares have the
largest likelihood (they are the weights of a mixture).
"""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np

from skope_ope.logs._shown_numbers import figure
from skope_ope.logs.checks._context_columns import Column, columns_of

MOST_COLUMNS = 16  # of which all pairs are tried
MOST_ACTIONS = 20  # the most frequent ones
FINE, RESOLUTIONS = 32, (8, 4)  # values of a column: alone, and beside others
MOST_DEEP = 3  # columns of a cell
LARGEST = 1e6  # 1 / p that counts: squares stay finite
FEWEST = 20  # rounds of a cell that is bet on
LEAST_Z = 3.0  # deviation that is bet on
NOISE = 2.0  # of half a squared deviation, where nothing deviates
LOW_Z = (2 * NOISE) ** 0.5
LEAST_VARIANCE = 0.01
DOUBT = 2.0  # rounds that are on the side of the propensities, in every cell
N_STEPS = 30


@dataclass(frozen=True)
class CellBets:
    """Bets on some rounds, learned from others."""

    f: np.ndarray  # 1 where nothing is bet; NaN for rounds that are in no part
    cell: np.ndarray  # cells with bets, different in every part; -1 elsewhere
    columns: list  # by part: the columns whose values are the cells
    part: np.ndarray  # position of a round's part in the plan, -1 where it is in none


def cell_bets(logs, rows, largest, plan, share=None, group=None):
    """Return bets in cells of the context, learned from other rounds."""
    n = len(rows)
    columns = _columns(logs, rows)
    codes = {
        most: [_coarse(one, most) for one in columns] for most in (FINE, *RESOLUTIONS)
    }
    inverse = np.minimum(1 / largest, LARGEST)
    weight = np.ones(n) if share is None else share.astype(float)
    group = np.arange(n) if group is None else group
    action = logs.action_index[rows]
    f, cell, part = np.full(n, np.nan), np.full(n, -1), np.full(n, -1)
    told, n_cells = [], 0
    for k, (learned, wanted) in enumerate(plan):
        f[wanted], part[wanted] = 1.0, k
        told.append(())
        sample = _Sample.of(action, inverse, weight, group, learned)
        best = _best_cells(codes, sample)
        if best is None:
            continue
        chosen, code = best
        stakes = sample.apart(code).stakes(code)
        mine = stakes[code[wanted], sample.known(action[wanted])]
        kept = 1 - stakes.sum(axis=1)
        f[wanted] = kept[code[wanted]] + mine * inverse[wanted]
        bet = stakes.any(axis=1)[code[wanted]]
        cell[np.flatnonzero(wanted)[bet]] = n_cells + code[wanted][bet]
        n_cells += len(stakes)
        told[-1] = tuple(columns[j] for j in chosen)
    return CellBets(f, cell, told, part)


def _columns(logs, rows):
    columns = columns_of(logs.context, rows)[:MOST_COLUMNS]
    if logs.loggers is not None and len(logs.loggers) > 1:
        code = logs.logger_index[rows].astype(float)
        columns.append(
            Column("logger", code, True, True, tuple(map(str, logs.loggers)))
        )
    return columns


def _coarse(column, most):
    """Return codes from 0 on, of at most `most` values or bins and one for missing."""
    values = column.values
    known = np.isfinite(values)
    codes = np.full(len(values), most)
    if column.categorical:
        codes[known] = np.minimum(values[known], most - 1)
        return codes
    distinct = np.unique(values[known])
    if len(distinct) > most:
        ordered = np.sort(values[known])
        distinct = np.unique(ordered[np.arange(most) * len(ordered) // most])
    codes[known] = np.maximum(np.searchsorted(distinct, values[known], "right") - 1, 0)
    return codes


@dataclass(frozen=True)
class _Sample:
    """Rounds that are learned from."""

    # `frequent` gives the position of an action among the frequent ones, and their
    # number for all others.

    mask: np.ndarray
    action: np.ndarray
    inverse: np.ndarray
    weight: np.ndarray
    group: np.ndarray
    frequent: np.ndarray
    n_actions: int

    @classmethod
    def of(cls, action, inverse, weight, group, mask):
        counts = np.bincount(action[mask], minlength=int(action.max()) + 1)
        first = np.argsort(-counts, kind="stable")[:MOST_ACTIONS]
        frequent = np.full(len(counts), len(first))
        frequent[first] = np.arange(len(first))
        return cls(
            mask,
            frequent[action[mask]],
            inverse[mask],
            weight[mask],
            group[mask],
            frequent,
            len(first) + 1,
        )

    def known(self, action):
        return self.frequent[action]

    def apart(self, code):
        """Return the sample with the rounds of a group in a cell counted as one."""
        cell = code[self.mask] * (int(self.group.max(initial=0)) + 1) + self.group
        _, unit, size = np.unique(cell, return_inverse=True, return_counts=True)
        return replace(self, weight=self.weight / size[unit])

    @cached_property
    def _powers(self):
        """Weight over p, and weight over its square."""
        scaled = self.weight * self.inverse
        return scaled, scaled * self.inverse

    def deviations(self, mine, n_cells):
        """Get z of the mean of 1[a] / p by cell and action, 0 where cells are small."""
        # Its variance under right propensities is that of 1 / p less one.
        pair = mine * self.n_actions + self.action
        shape, size = (n_cells, self.n_actions), n_cells * self.n_actions
        scaled, squared = self._powers
        first = np.bincount(pair, scaled, minlength=size).reshape(shape)
        second = np.bincount(pair, squared, minlength=size).reshape(shape)
        n = np.bincount(mine, self.weight, minlength=n_cells)[:, None]
        noise = np.maximum(second - n, LEAST_VARIANCE * np.maximum(n, 1e-9))
        z = (first - n) / np.sqrt(noise)
        z *= n >= FEWEST
        z[:, -1] = 0  # actions that are not told apart
        return z

    def score(self, mine, n_cells):
        """Return how much the cells deviate, beyond what chance does."""
        z = self.deviations(mine, n_cells)
        z = z[z > LOW_Z]
        return float((z @ z) / 2 - NOISE * len(z))

    def stakes(self, code):
        """Return the shares of the wealth by cell and action, of largest likelihood."""
        n_cells = int(code.max()) + 1
        mine = code[self.mask]
        bet = self.deviations(mine, n_cells) > LEAST_Z
        stakes = bet / (2.0 * np.maximum(bet.sum(axis=1, keepdims=True), 1))
        rounds = np.flatnonzero(bet.any(axis=1)[mine])
        mine, action = mine[rounds], self.action[rounds]
        inverse, weight = self.inverse[rounds], self.weight[rounds]
        pair, n = mine * self.n_actions + action, np.bincount(mine, weight, n_cells)
        for _ in range(N_STEPS):
            won = stakes[mine, action] * inverse
            won = weight * won / (won + (1 - stakes.sum(axis=1))[mine])
            won = np.bincount(pair, won, minlength=stakes.size).reshape(stakes.shape)
            stakes = won / (n + DOUBT)[:, None]
        return stakes


def _best_cells(codes, sample):
    """Return the columns whose cells deviate most, and the codes of the cells."""
    learned = {most: [one[sample.mask] for one in codes[most]] for most in codes}
    best, resolution = (0.0, ()), None
    for most, parts in learned.items():
        found, width = (0.0, ()), most + 1
        deep = 1 if most == FINE else 2
        for chosen in combinations(range(len(parts)), deep):
            found = _better(found, chosen, parts, width, sample)
        while most != FINE and 0 < len(found[1]) < MOST_DEEP:
            before = found
            for j in set(range(len(parts))) - set(before[1]):
                found = _better(found, (*before[1], j), parts, width, sample)
            if found is before:
                break
        if found[0] > best[0]:
            best, resolution = found, most
    if resolution is None:
        return None
    return best[1], _cells(best[1], codes[resolution], resolution + 1)


def _better(found, chosen, parts, width, sample):
    code = _cells(chosen, parts, width)
    score = sample.score(code, width ** len(chosen))
    return (score, chosen) if score > found[0] else found


def _cells(chosen, parts, width):
    """Return the codes of the cells of some columns."""
    code = parts[chosen[0]]
    for j in chosen[1:]:
        code = code * width + parts[j]
    return code


def cell_text(bets, cell):
    """Say which values the columns have in a cell."""
    mine = bets.cell == cell
    columns = bets.columns[bets.part[mine][0]]
    return " and ".join(f"{one.label} is {_values(one, mine)}" for one in columns)


def _values(column, mine):
    values = column.values[mine]
    values = values[np.isfinite(values)]
    if not len(values):
        return "missing"
    if column.categorical:
        codes = np.unique(values).astype(int)
        one = repr(column.labels[codes[0]])
        return one if len(codes) == 1 else f"one of {len(codes):,} rare values"
    low, high = values.min(), values.max()
    return figure(low) if low == high else f"{figure(low)} to {figure(high)}"

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Blocks of rounds, policies asked for chunks of them, checks of what they answer."""

from itertools import chain

import numpy as np

from skope_ope.exceptions import RowError
from skope_ope.logs._validation import PROBA_TOLERANCE, check_distributions

BLOCK = 20_000  # rows: with fewer, calls take as long as what they do
CHUNK_ENTRIES = 1 << 18  # answers asked for at once, where nothing else is said


class _Rows:
    """Places of consecutive rounds."""

    def __init__(self, low, high):
        self.low, self.high, self.rows = low, high, slice(low, high)


def blocks(n):
    """Yield blocks of rounds that fit the cache."""
    for low in range(0, n, BLOCK):
        yield _Rows(low, min(low + BLOCK, n))


class Observer:
    """Looks at the blocks of a pass, and at what every policy does there."""

    needs_tables = True  # whether it asks for probabilities of all actions
    reads = False  # whether workers may read these in its place, see `Ahead`
    sums = None  # what it puts terms to

    def begin(self, block):
        """Look at a block before the policies are asked."""

    def see(self, key, target):
        """Look at what a policy does in a block."""


def check_block(proba, n_rows, n_actions, offered, first_row):
    """Raise unless a policy gave distributions over the actions of the logs."""
    if not isinstance(proba, np.ndarray):
        raise TypeError(
            f"the policy gave probabilities as {type(proba).__name__}, expected an "
            f"array of shape {(n_rows, n_actions)}."
        )
    if proba.shape != (n_rows, n_actions):
        raise ValueError(_wrong_shape(proba.shape, (n_rows, n_actions)))
    check_distributions("policy", proba, offered, first_row)


def check_chances(chances, n_rows, first_row):
    """Raise unless a policy gave one probability per row."""
    if np.shape(chances) != (n_rows,):
        raise ValueError(
            f"the policy gave probabilities of shape {np.shape(chances)} for one "
            f"action per row, expected {(n_rows,)}."
        )
    fine = (chances >= 0) & (chances <= 1 + PROBA_TOLERANCE)
    if not fine.all():
        row = int(np.flatnonzero(~fine)[0])
        raise RowError(
            f"the policy gave the action the probability {chances[row]:.6g}",
            row + first_row,
            ". It must lie in [0, 1]: see `look_ahead_at`.",
        )


def check_answer(changed, policy):
    """Raise where `update` forgot to say whether the policy has changed."""
    if changed is None:
        raise TypeError(
            f"{type(policy).__name__}.update returned None; it must return True where "
            "action probabilities may have changed, else False."
        )


def checked_row(row, n_actions):
    """Return a row of probabilities, one per action."""
    if len(row) != n_actions:
        raise ValueError(_wrong_shape((len(row),), (n_actions,)))
    return row


def checked_rows(tables, which):
    """Return rows of probabilities as an array; `which` holds at every round."""
    shape = len(tables), len(tables[0])
    numbers = chain.from_iterable(tables)  # twice as fast as from a list of lists
    tables = np.fromiter(numbers, np.float64, shape[0] * shape[1]).reshape(shape)
    try:
        check_distributions("policy", tables)
    except ValueError:  # it names an update, not a row of the logs
        first_rows = np.searchsorted(which, np.arange(len(tables)))
        for table, row in zip(tables, first_rows.tolist(), strict=True):
            check_distributions("policy", table[None, :], None, row)
    return tables


def _wrong_shape(found, expected):
    return (
        f"the policy gave probabilities of shape {found}, expected {expected}: one per "
        "action. A policy must not change its set of actions."
    )


class Chunks:
    """What a policy or a model says of consecutive rounds, asked a chunk at a time."""

    def __init__(self, ask, logs, size=None):
        self.ask, self.logs = ask, logs
        self.size = CHUNK_ENTRIES // logs.n_actions if size is None else size
        self._start = self._stop = 0
        self._said = None

    def rows(self, start, stop):
        """Return the answers about start..stop-1; rounds are asked for in order."""
        if stop > self._stop:
            self._said = None  # makes room for what follows
            whole = start == 0 and self.size >= len(self.logs)
            rounds = self.logs
            if not whole:
                rounds = rounds[start : start + max(self.size, stop - start)]
            self._said = self.ask(rounds, start)
            self._start, self._stop = start, start + len(rounds)
        return self._said[start - self._start : stop - self._start]

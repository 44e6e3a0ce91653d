# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What walks over rounds share: checked probabilities and model values by chunk."""

from itertools import chain

import numpy as np

from skope_ope.logs._validation import (
    PROBABILITY_TOLERANCE,
    RowError,
    check_distributions,
)

CHUNK_ENTRIES = 1 << 18  # model values or probabilities asked for at once


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
    fine = (chances >= 0) & (chances <= 1 + PROBABILITY_TOLERANCE)
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


class ModelChunks:
    """Model values of consecutive rounds, predicted a chunk at a time.

    Parameters
    ----------
    predict : callable
        `predict(rounds, start)` gives model values of all actions.
    logs : BanditLogs
        The rounds.
    """

    def __init__(self, predict, logs):
        self.predict, self.logs = predict, logs
        self._start = self._stop = 0
        self._values = None

    def rows(self, start, stop):
        """Model values of the rounds start..stop-1; rounds are asked for in order."""
        if stop > self._stop:
            chunk = max(CHUNK_ENTRIES // self.logs.n_actions, stop - start)
            self._start, self._stop = start, min(start + chunk, len(self.logs))
            rounds = self.logs[self._start : self._stop]
            self._values = self.predict(rounds, self._start)
        return self._values[start - self._start : stop - self._start]

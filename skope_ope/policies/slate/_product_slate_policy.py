# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Slates whose slots are filled independently of each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skope_ope.logs._slate_fields import EMPTY
from skope_ope.logs._validation import PROBA_TOLERANCE, as_numbers
from skope_ope.policies.slate._slate_base import IndependentSlots
from skope_ope.policies.slate._slate_tables import entries, offered_slots, row_values

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Literal

    from skope_ope._types import ArrayLike
    from skope_ope.logs._slate_logs import SlateLogs


class ProductSlatePolicy(IndependentSlots):
    r"""Fill every slot independently; a candidate may be shown twice.

    .. math:: \pi(s|x) = \prod_j \pi_j(s_j|x)

    Parameters
    ----------
    slot_proba : array-like of shape (n_slots, n_candidates), callable or str
        Probability of every candidate in every slot. An array is used in every round.
        It can also be a function of the logs, or the name of a column. The last two
        have the shape (n_slots, n_candidates) or (n_rounds, n_slots, n_candidates).
        Every slot sums to one. A slot that a round does not have holds zeros.

        For a logging policy, a column may also have the shape (n_rounds, n_slots): the
        probabilities of the logged candidates only. They are enough for product-form
        weights, but for nothing else.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import SlateLogs
    >>> from skope_ope.policies import ProductSlatePolicy
    >>> logs = SlateLogs(np.zeros((1, 1)), [[1, 1]], [1.0])
    >>> ProductSlatePolicy([[0.2, 0.8], [0.5, 0.5]]).slate_proba(logs)
    array([0.4])
    """

    def __init__(self, slot_proba: ArrayLike | Callable[..., Any] | str) -> None:
        self.slot_proba = slot_proba

    def _slots_of(self, logs):
        if isinstance(self.slot_proba, str):
            return logs.n_slots
        return np.shape(row_values(self.slot_proba, logs, "slot_proba"))[-2]

    def _table(self, logs):
        """Return the probabilities as a checked (n_rounds or 1, slots, candidates)."""
        given = row_values(self.slot_proba, logs, "slot_proba")
        table = as_numbers("slot_proba", given, 3 if np.ndim(given) == 3 else 2)
        if table.ndim == 2 and isinstance(self.slot_proba, str):
            raise ValueError(
                f"slot_proba {self.slot_proba!r} holds the probabilities of the logged "
                "candidates only. This needs those of all candidates: a column of "
                "shape (n_rounds, n_slots, n_candidates)."
            )
        table = table if table.ndim == 3 else table[None]
        if len(table) not in (1, len(logs)) or table.shape[2] != logs.max_candidates:
            raise ValueError(
                "slot_proba must have shape (n_slots, n_candidates) or (n_rounds, "
                f"n_slots, n_candidates) with {len(logs)} rounds and "
                f"{logs.max_candidates} candidates, got {np.shape(given)}."
            )
        _check_slot_proba(table, offered_slots(logs, table.shape[1]))
        return table

    def _items(self, logs):
        return self._table(logs).transpose(0, 2, 1)

    def _logged_only(self, logs):
        """Return the column with the probabilities of the logged candidates, if any."""
        if not isinstance(self.slot_proba, str):
            return None
        column = row_values(self.slot_proba, logs, "slot_proba")
        if column.ndim != 2:
            return None
        column = as_numbers("slot_proba", column, 2)
        if column.shape != logs.slate.shape:
            raise ValueError(
                f"slot_proba {self.slot_proba!r} must have shape {logs.slate.shape} "
                "(n_rounds, n_slots) or (n_rounds, n_slots, n_candidates), got "
                f"{column.shape}."
            )
        wrong = (logs.slate != EMPTY) & ~((column > 0) & (column <= 1 + 1e-9))
        if wrong.any():
            row, slot = np.argwhere(wrong)[0]
            raise ValueError(
                "slot_proba of a logged candidate must lie in (0, 1], got "
                f"{column[row, slot]:.6g} at row {row}, slot {slot}."
            )
        return np.where(logs.slate == EMPTY, 1.0, column)

    def _round_slots(self, logs, slates):
        known = self._logged_only(logs)
        if known is not None and np.array_equal(slates, logs.slate):
            return known
        table = self._table(logs)
        table = np.broadcast_to(table, (len(slates), *table.shape[1:]))
        return entries(table, slates, 1.0 - table.any(axis=2))

    def _round_marginals(self, logs):
        table = self._table(logs)
        return np.array(np.broadcast_to(table, (len(logs), *table.shape[1:])))

    def closed_form(self, logs: SlateLogs) -> Literal["product"]:
        """Return the form of the distribution, if its pseudoinverse is known.

        Parameters
        ----------
        logs : SlateLogs
            The rounds.

        Returns
        -------
        form : {"product"}
        """
        return "product"

    def _sample(self, items, n_rounds, rng):
        sums = np.cumsum(items, axis=1)
        uniform = rng.random_sample((n_rounds, items.shape[2]))
        below = sums <= (uniform * sums[:, -1])[:, None]
        # rounding may leave the last sum, which is the total, not above the draw
        slates = np.minimum(below.sum(axis=1), items.shape[1] - 1)
        return np.where(sums[:, -1] > 0, slates, EMPTY)


def _check_slot_proba(table, offered):
    outside = (table < 0) | ((table > 0) & ~offered)
    if outside.any():
        row, slot, candidate = np.argwhere(outside)[0]
        raise ValueError(
            "slot_proba must be non-negative, and zero where a candidate is not "
            f"offered, got {table[tuple(np.argwhere(outside)[0] % table.shape)]:.6g} "
            f"for candidate {candidate} at row {row}, slot {slot}."
        )
    sums = table.sum(axis=2)
    wrong = (np.abs(sums - 1) > PROBA_TOLERANCE) & (sums != 0)
    if wrong.any():
        row, slot = np.argwhere(wrong)[0]
        raise ValueError(
            "slot_proba must sum to 1 over the candidates (0 in a slot that the round "
            f"does not have), got {sums[row, slot]:.9g} at row {row}, slot {slot}."
        )

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Given slot marginals as a policy."""

import numpy as np

from skope_ope.logs._validation import PROBABILITY_TOLERANCE, as_numbers
from skope_ope.policies.slate._slate_base import BaseSlatePolicy
from skope_ope.policies.slate._slate_checks import row_values
from skope_ope.policies.slate._slate_tables import entries

_MARGINALS_ONLY = (
    "the policy is given by its slot marginals (the probability of each candidate "
    "in each slot), which do not determine the probability of a slate. Pass a "
    "slate policy, or slates of shape (n_rounds, n_slots)."
)


class GivenMarginals(BaseSlatePolicy):
    """Slot marginals of a target, as an array or a column: all that PI needs of it."""

    def __init__(self, marginals):
        self.marginals = marginals

    def _slots_of(self, logs):
        return self._round_marginals(logs).shape[1]

    def _round_marginals(self, logs):
        given = row_values(self.marginals, logs, "marginals")
        table = as_numbers("slot marginals", given, 3)
        if len(table) != len(logs) or table.shape[2] != logs.max_candidates:
            raise ValueError(
                "slot marginals must have shape (n_rounds, n_slots, n_candidates) with "
                f"{len(logs)} rounds and {logs.max_candidates} candidates, got "
                f"{table.shape}."
            )
        sums = table.sum(axis=2)
        if table.min() < 0 or sums.max() > 1 + 1e-6:
            raise ValueError(
                "slot marginals must be 0 or more and sum to at most 1 in every "
                f"slot, got minimum {table.min():.6g}, largest sum "
                f"{sums.max():.9g}."
            )
        offered = logs.offered
        if offered is not None:
            offered = offered[:, None] if offered.ndim == 2 else offered
            wrong = (table > PROBABILITY_TOLERANCE) & ~offered
            if wrong.any():
                row, slot, candidate = np.argwhere(wrong)[0]
                raise ValueError(
                    f"slot marginals show candidate {candidate} at row {row}, slot "
                    f"{slot}, which is not offered there, with probability "
                    f"{table[row, slot, candidate]:.6g} ({int(wrong.sum())} such "
                    "entries)."
                )
        return table

    def _round_slots(self, logs, slates):
        table = self._round_marginals(logs)
        return entries(table, slates, 1 - table.sum(axis=2))

    def _round_prefixes(self, logs, slates):
        raise TypeError(_MARGINALS_ONLY)

    def _round_draws(self, logs, rng):
        raise TypeError(_MARGINALS_ONLY)

    def _items(self, logs):
        raise TypeError(_MARGINALS_ONLY)

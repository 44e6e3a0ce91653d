# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Given slates as a policy."""

import numpy as np

from skope_ope.logs._slate_logs import EMPTY
from skope_ope.policies.slate._slate_base import BaseSlatePolicy
from skope_ope.policies.slate._slate_checks import check_slates, row_values
from skope_ope.policies.slate._slate_moments import independent_moments


class DeterministicSlates(BaseSlatePolicy):
    """Given slates: an array for the rounds, a function of the logs, a column."""

    def __init__(self, chosen):
        self.chosen = chosen

    def deterministic_slates(self, logs):
        """Return the slates, checked against the candidates of the rounds."""
        self._check_logs(logs)
        slates = check_slates(row_values(self.chosen, logs, "slates"), logs)
        offered = logs.offered
        if offered is not None:
            rows, slots = np.nonzero(slates != EMPTY)
            shown = slates[rows, slots]
            where = (rows, shown) if offered.ndim == 2 else (rows, slots, shown)
            wrong = np.flatnonzero(~offered[where])
            if wrong.size:
                raise ValueError(
                    f"the policy shows candidate {shown[wrong[0]]} at row "
                    f"{rows[wrong[0]]}, slot {slots[wrong[0]]}, which is not offered "
                    f"there ({wrong.size} such entries)."
                )
        return slates

    def _slots_of(self, logs):
        return np.shape(row_values(self.chosen, logs, "slates"))[1]

    def _items(self, logs):
        slates = self.deterministic_slates(logs)
        items = np.zeros((len(logs), logs.max_candidates, slates.shape[1]))
        rows, slots = np.nonzero(slates != EMPTY)
        items[rows, slates[rows, slots], slots] = 1.0
        return items

    def _round_marginals(self, logs):
        return np.ascontiguousarray(self._items(logs).transpose(0, 2, 1))

    def _round_slots(self, logs, slates):
        return (self.deterministic_slates(logs) == slates).astype(float)

    def _round_prefixes(self, logs, slates):
        return np.cumprod(self._round_slots(logs, slates), axis=1)

    def _round_draws(self, logs, rng):
        return self.deterministic_slates(logs)

    def _moments(self, items, sizes):
        return independent_moments(items.transpose(0, 2, 1))

    def _slot_marginals(self, items, sizes):
        return items.transpose(0, 2, 1)

    def _sample(self, items, n_rounds, rng):
        slots = items.transpose(0, 2, 1)
        slates = np.where(slots.any(axis=2), slots.argmax(axis=2), EMPTY)
        return np.broadcast_to(slates, (n_rounds, slates.shape[1]))

    def _prefix_proba(self, items, slates):
        own = self._sample(items, len(slates), None)
        return np.cumprod(own == slates, axis=1).astype(float)

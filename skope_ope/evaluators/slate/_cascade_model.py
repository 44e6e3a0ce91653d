# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""Expected rewards of the slots from one on, given those before.

Under the cascade assumption, :math:`Q_j(x, s_1, \ldots, s_j)` is the expected reward of
the slots j, j+1, ... where the later ones are filled by the policy. It obeys

.. math:: Q_j(s_{1..j}) = E[r_j|x, s_{1..j}] + \sum_a \pi(a|x, s_{1..j})\,
    Q_{j+1}(s_{1..j}, a)

so that one regression per slot, from the last to the first, fits it.
"""

import numpy as np

from skope_ope.evaluators.core._slate_target import SlateTarget
from skope_ope.logs._validation import EMPTY, column_weights
from skope_ope.reward_models._slate_reward_models import (
    ItemColumns,
    expected_reward,
    fit_design,
    slate_design,
)


class CascadeModel:
    """One regression per slot."""

    def __init__(self, model, target):
        logs = target.logs
        n_slots = logs.n_slots
        if not hasattr(model, "fit"):
            weight = column_weights(logs)
            later = np.average(logs.slot_reward, axis=0, weights=weight)
            later = later[::-1].cumsum()[::-1]
            self.models = list(later if model is None else np.full(n_slots, model))
            return
        self.models = [None] * n_slots
        self.items = ItemColumns(logs)
        following = 0.0
        for slot in range(n_slots - 1, -1, -1):
            y = logs.slot_reward[:, slot] + following
            X = slate_design(logs, first_slots(logs.slate, slot))
            self.models[slot] = fit_design(model, X, y)
            following = self.expected(slot, target) if slot else 0.0

    def __repr__(self):
        return f"CascadeModel({len(self.models)} slots)"

    def shown(self, slot, logs, slates):
        """Q of slot `slot` for slates, of which later slots are not looked at."""
        model = self.models[slot]
        if not hasattr(model, "predict"):
            return np.full(len(logs), float(model))
        self.items.check(logs)
        X = slate_design(logs, first_slots(slates, slot))
        return expected_reward(model, X)

    def expected(self, slot, target):
        """Mean of Q of slot `slot` where the policy fills it after the logged ones."""
        logs = target.logs
        if target.slates is not None:
            slates = logs.slate.copy()
            slates[:, slot] = target.slates[:, slot]
            return self.shown(slot, logs, slates)
        before = np.ones(len(logs))
        if slot:
            before = target.prefix_proba(logs, logs.slate)[:, slot - 1]
        total = np.zeros(len(logs))
        for candidate in range(EMPTY, logs.max_candidates):
            slates = first_slots(logs.slate, slot)
            slates[:, slot] = candidate
            proba = target.prefix_proba(logs, slates)[:, slot]
            rows = np.flatnonzero(proba)
            if rows.size:
                q = self.shown(slot, logs[rows], slates[rows])
                total[rows] += proba[rows] / before[rows] * q
        return total


def first_slots(slates, slot):
    """Return slates that are empty after slot `slot`."""
    slates = slates.copy()
    slates[:, slot + 1 :] = EMPTY
    return slates


def rounds_of(target, rows):
    """Return the policy on some of its rounds."""
    return SlateTarget(target.policy, target.logs[rows])

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Tables of shape (n_rounds, n_slots, n_candidates)."""

import numpy as np

from skope_ope.logs._slate_logs import EMPTY


def entries(table, slates, empty=0.0):
    """Entries of (n_rounds, n_slots, n_candidates) that slates show."""
    # `empty`, a number or of shape (n_rounds, n_slots), is that of an empty slot.
    shown = np.take_along_axis(table, np.maximum(slates, 0)[:, :, None], axis=2)
    return np.where(slates == EMPTY, empty, shown[:, :, 0])


def offered_slots(logs, n_slots):
    """Where candidates may be shown: (n_rounds or 1, n_slots or 1, n_cand.)."""
    # One round stands for all, one slot for all, where they do not differ.
    offered = logs.offered
    if offered is None:
        return np.ones((1, 1, logs.max_candidates), dtype=bool)
    if offered.ndim == 2:
        return offered[:, None]
    if offered.shape[1] != n_slots:
        raise ValueError(
            f"logs.candidates has {offered.shape[1]} slots, but the policy fills "
            f"{n_slots}. Use a policy with the same number of slots."
        )
    return offered

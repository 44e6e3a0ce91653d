# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""First and second moments of slates, by type of candidate."""

from typing import NamedTuple

import numpy as np

from skope_ope.logs._slate_logs import EMPTY


class TypeMoments(NamedTuple):
    r"""Moments of slates by type of candidate."""

    # Probability that both slots show the one candidate of the type; on the diagonal,
    # that the slot shows it: the slot marginals
    same: np.ndarray
    # Probability that the slots show two given, different candidates of the types. Zero
    # where both slots are the same, or where a type of one candidate meets itself
    pairs: np.ndarray


def independent_moments(slot_proba):
    """Moments of slots that are filled independently of each other."""
    slots = np.arange(slot_proba.shape[1])
    pairs = slot_proba[:, :, None, :, None] * slot_proba[:, None, :, None, :]
    same = slot_proba[:, :, None] * slot_proba[:, None]
    same[:, slots, slots] = slot_proba
    pairs[:, slots, slots] = 0.0
    return TypeMoments(same, pairs)


def add_moments(same, pairs, slates, proba, types):
    """Add the moments of slates with probabilities to those by type."""
    n_slots = slates.shape[1]
    for one in range(n_slots):
        for two in range(n_slots):
            a, b = slates[:, one], slates[:, two]
            both = (a != EMPTY) & (b != EMPTY)
            twice = both & (a == b)
            np.add.at(same[one, two], types[a[twice]], proba[twice])
            if one != two:
                apart = both & (a != b)
                where = types[a[apart]], types[b[apart]]
                np.add.at(pairs[one, two], where, proba[apart])


def couples(sizes):
    """Numbers of ordered pairs of two different candidates, by type; at least one."""
    return np.maximum(sizes[:, None] * (sizes - np.eye(len(sizes))), 1)

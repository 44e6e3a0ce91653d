# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""First and second moments of slates, by type of candidate."""

from typing import NamedTuple

import numpy as np

from skope_ope.logs._slate_logs import EMPTY


class TypeMoments(NamedTuple):
    r"""Moments of slates by type of candidate.

    Attributes
    ----------
    same : ndarray of shape (n_distributions, n_slots, n_slots, n_types)
        Probability that both slots show the one candidate of the type; on the
        diagonal, that the slot shows it: the slot marginals.
    pairs : ndarray of shape (n_distributions, n_slots, n_slots, n_types, n_types)
        Probability that the slots show two given, different candidates of the types.
        Zero where both slots are the same, or where a type of one candidate meets
        itself.
    """

    same: np.ndarray
    pairs: np.ndarray


def independent_moments(slot_proba):
    """Moments of slots that are filled independently of each other.

    Parameters
    ----------
    slot_proba : ndarray of shape (n_distributions, n_slots, n_types)
        Probability of one candidate of every type.
    """
    slots = np.arange(slot_proba.shape[1])
    pairs = slot_proba[:, :, None, :, None] * slot_proba[:, None, :, None, :]
    same = slot_proba[:, :, None] * slot_proba[:, None]
    same[:, slots, slots] = slot_proba
    pairs[:, slots, slots] = 0.0
    return TypeMoments(same, pairs)


def add_moments(same, pairs, slates, proba, types):
    """Add the moments of slates with probabilities to those by type.

    Parameters
    ----------
    same, pairs : ndarray of shape (n_slots, n_slots, n_types[, n_types])
        Sums over candidates of the types, which are added to.
    slates : ndarray of int of shape (n_slates, n_slots)
        The slates.
    proba : ndarray of shape (n_slates,)
        Their probabilities.
    types : ndarray of int of shape (n_candidates,)
        Type of every candidate.
    """
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
    """Numbers of ordered pairs of two different candidates, by type; at least one.

    Parameters
    ----------
    sizes : ndarray of int of shape (n_types,)
        Number of candidates of every type.

    Returns
    -------
    couples : ndarray of shape (n_types, n_types)
    """
    return np.maximum(sizes[:, None] * (sizes - np.eye(len(sizes))), 1)

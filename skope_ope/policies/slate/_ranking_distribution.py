# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Slates drawn slot by slot without repetition, by weights of the candidates."""

import numpy as np

from skope_ope.logs._slate_logs import EMPTY
from skope_ope.policies.slate._distinct_rows import distinct_rows
from skope_ope.policies.slate._slate_base import BaseSlatePolicy
from skope_ope.policies.slate._slate_checks import check_n_slots, check_slate_logs
from skope_ope.policies.slate._slate_moments import TypeMoments, couples
from skope_ope.policies.slate._slot_draws import (
    type_marginals,
    type_pairs,
    working_bytes,
)


class RankingDistribution(BaseSlatePolicy):
    """Base class of slates drawn without repetition."""

    # The parameters of a candidate are its weights: one for all slots, or one for every
    # slot; zero where it cannot be shown. A slot stays empty where nothing is left.

    _fills_slots = True

    def _check_logs(self, logs):
        check_slate_logs(logs)
        check_n_slots(self.n_slots, logs)

    def _weights(self, items):
        """Weights by slot, (n_distributions, n_slots, n_types)."""
        weights = items.transpose(0, 2, 1)
        return np.repeat(weights, self.n_slots // weights.shape[1], axis=1)

    def _bytes_per_distribution(self, items, sizes, n_slots):
        needed = working_bytes(self._weights(items[:1]), sizes)
        return max(needed, super()._bytes_per_distribution(items, sizes, n_slots))

    def _moments(self, items, sizes):
        weights = self._weights(items)
        n_distributions, n_slots, n_types = weights.shape
        marginals = np.empty(weights.shape)
        pairs = np.empty((n_distributions, n_slots, n_types, n_slots, n_types))
        for some in _same_support(weights):
            marginals[some], pairs[some] = type_pairs(weights[some], sizes)
        # from types to their candidates, of which two are never the same one
        pairs = pairs.transpose(0, 1, 3, 2, 4) / couples(sizes)
        same = np.zeros((n_distributions, n_slots, n_slots, n_types))
        slots = np.arange(n_slots)
        same[:, slots, slots] = marginals / sizes
        return TypeMoments(same, pairs)

    def _slot_marginals(self, items, sizes):
        weights = self._weights(items)
        marginals = np.empty(weights.shape)
        for some in _same_support(weights):
            marginals[some] = type_marginals(weights[some], sizes)
        return marginals / sizes

    def _prefix_proba(self, items, slates):
        n_rounds, n_slots = slates.shape
        n_columns = items.shape[2]
        items = np.broadcast_to(items, (n_rounds, *items.shape[1:]))
        left = np.ones(items.shape[:2])
        rows = np.arange(n_rounds)
        proba = np.empty(slates.shape)
        for slot in range(n_slots):
            weights = items[:, :, slot % n_columns] * left
            shown = slates[:, slot]
            total = weights.sum(axis=1)  # of what is left: no differences of sums
            drawn = weights[rows, shown] / np.where(total > 0, total, 1.0)
            proba[:, slot] = np.where(shown == EMPTY, total == 0, drawn)
            left[rows[shown != EMPTY], shown[shown != EMPTY]] = 0.0
        return np.cumprod(proba, axis=1)

    def _sample(self, items, n_rounds, rng):
        if items.shape[2] > 1:
            return self._sample_in_turn(items, n_rounds, rng)
        # exponential clocks: the order in which they ring is the ranking
        with np.errstate(divide="ignore"):
            rate = np.log(items[:, :, 0])
            time = np.log(rng.standard_exponential((n_rounds, items.shape[1]))) - rate
        slates = np.argsort(time, axis=1, kind="stable")[:, : self.n_slots]
        rings = np.take_along_axis(time, slates, axis=1) < np.inf
        return np.where(rings, slates, EMPTY)

    def _sample_in_turn(self, items, n_rounds, rng):
        items = np.broadcast_to(items, (n_rounds, *items.shape[1:]))
        uniform = rng.random_sample((n_rounds, self.n_slots))
        left = np.ones(items.shape[:2])
        slates = np.full(uniform.shape, EMPTY, dtype=np.intp)
        for slot in range(self.n_slots):
            sums = np.cumsum(items[:, :, slot] * left, axis=1)
            rows = np.flatnonzero(sums[:, -1] > 0)
            below = sums[rows] <= (uniform[rows, slot] * sums[rows, -1])[:, None]
            slates[rows, slot] = below.sum(axis=1)
            left[rows, slates[rows, slot]] = 0.0
        return slates


def _same_support(weights):
    """Yield the distributions in which the same candidates have weight."""
    first, index = distinct_rows((weights > 0).reshape(len(weights), -1))
    for group in range(len(first)):
        yield np.flatnonzero(index == group)

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""The distinct distributions by which a policy draws the slates of many rounds.

A distribution is a table of what the policy knows of every candidate (a weight, say),
one row per candidate. Two rounds share a distribution where their tables are equal up
to the order of the candidates. Candidates with equal rows are exchangeable: they are of
one type, and the moments of a distribution are those of its types.
"""

from typing import NamedTuple

import numpy as np

from skope_ope.policies.slate._distinct_rows import distinct_rows, row_codes
from skope_ope.policies.slate._slate_moments import TypeMoments

MAX_BYTES = 2**24  # 16 MiB: what a batch of distributions may take


class DistributionBatch(NamedTuple):
    r"""Distributions whose types have the same sizes, and their moments."""

    # Candidates of one type are exchangeable, so that :math:`\Gamma` acts separately on
    # the means over types and, type by type, on what differs from these means. With
    # :math:`n_t` candidates of type t, its blocks are
    #
    # .. math::
    #
    #     M_{(j,t),(k,u)} = \sqrt{n_t n_u} P_{jktu} + [t = u] (S_{jkt} - P_{jktt}),
    #     \quad A^t_{jk} = S_{jkt} - P_{jktt}
    #
    # with `same` as S and `pairs` as P: one matrix of (n_slots n_types) squared on the
    # vectors :math:`\sum_{a \in t} v_{ja} / \sqrt{n_t}`, and one of n_slots squared for
    # every type of two candidates or more. Their pseudoinverses make that of
    # :math:`\Gamma`, however many candidates there are.

    numbers: np.ndarray  # which distributions these are
    sizes: np.ndarray  # number of candidates of every type
    types: np.ndarray  # type of every candidate, in the order of the distribution
    moments: TypeMoments

    def second_moments(self):
        r""":math:`\Gamma = E[1_s 1_s^T]` of every distribution."""
        same, pairs = self.moments
        gamma = pairs[..., self.types, :][..., self.types]
        each = np.arange(len(self.types))
        gamma[..., each, each] = same[..., self.types]
        return gamma.transpose(0, 1, 3, 2, 4)


class SlateDistributions:
    r"""Distinct distributions of a policy on logs, and which every round has."""

    # A distribution numbers the candidates in an order of its own, so that rounds which
    # only permute their candidates share it. `slates` and `marginals` translate. What
    # is held per round is the distribution's number and the order; logs of many rounds
    # and candidates are best taken in parts.

    def __init__(self, policy, items, n_rounds, n_slots):
        self.policy = policy
        self.n_slots = n_slots
        items = np.asarray(items) + 0.0  # -0 and 0 are the same weight
        if policy._sorted:
            # stable, the largest parameters first: what cannot be shown comes last
            self.order = np.lexsort(-items.transpose(2, 0, 1)[::-1], axis=-1)
            items = np.take_along_axis(items, self.order[:, :, None], axis=1)
        else:
            self.order = np.arange(items.shape[1])[None]
        self.place = np.argsort(self.order, axis=1, kind="stable")
        first, index = distinct_rows(items.reshape(len(items), -1))
        self.items = items[first]
        self.index = np.broadcast_to(index, n_rounds) if len(index) == 1 else index

    def __len__(self):
        return len(self.items)

    def batches(self, max_bytes=MAX_BYTES):
        """Yield the distributions with their moments, some at a time."""
        for numbers, sizes, types, items in self._groups():
            size = self._at_once(items, sizes, max_bytes)
            for start in range(0, len(numbers), size):
                part = slice(start, start + size)
                moments = self.policy._moments(items[part], sizes)
                yield DistributionBatch(numbers[part], sizes, types, moments)

    def codes(self):
        """Numbers that tell the distributions of several `SlateDistributions` apart."""
        return row_codes(self.items.reshape(len(self), -1))

    def slot_marginals(self):
        """Probability of every candidate in every slot, by distribution."""
        out = np.empty((len(self), self.n_slots, self.items.shape[1]))
        for numbers, sizes, types, items in self._groups():
            size = self._at_once(items, sizes, MAX_BYTES)
            for start in range(0, len(numbers), size):
                part = slice(start, start + size)
                table = self.policy._slot_marginals(items[part], sizes)
                out[numbers[part]] = table[:, :, types]
        return out

    def slates(self, slates):
        """Slates of the rounds, with candidates as the distribution numbers them."""
        place = np.broadcast_to(self.place, (len(slates), self.place.shape[1]))
        numbers = np.take_along_axis(place, np.maximum(slates, 0), axis=1)
        return np.where(slates < 0, slates, numbers)

    def marginals(self, marginals):
        """Marginals of another policy, in the order of the distributions."""
        return np.take_along_axis(marginals, self.order[:, None], axis=2)

    def _at_once(self, items, sizes, max_bytes):
        needed = self.policy._bytes_per_distribution(items, sizes, self.n_slots)
        return max(1, int(max_bytes // needed))

    def _groups(self):
        """Yield (numbers, sizes, types, items by type) of those with equal sizes."""
        starts = np.ones(self.items.shape[:2], dtype=bool)
        starts[:, 1:] = (self.items[:, 1:] != self.items[:, :-1]).any(axis=2)
        first, index = distinct_rows(starts)
        for group, where in enumerate(first):
            begins = np.flatnonzero(starts[where])
            numbers = np.flatnonzero(index == group)
            sizes = np.diff(begins, append=starts.shape[1])
            types = np.cumsum(starts[where]) - 1
            yield numbers, sizes, types, self.items[numbers][:, begins]

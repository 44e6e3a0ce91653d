# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Slates drawn slot by slot without repetition, by weights of the candidates."""

from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from skope_ope.logs._validation import EMPTY
from skope_ope.policies.slate._slate_base import (
    BaseSlatePolicy,
    TypeMoments,
    check_n_slots,
    check_slate_logs,
    couples,
    distinct_rows,
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


# -- exact moments of slates that are drawn slot by slot without replacement -----------
# Slot :math:`j` draws a candidate that no earlier slot shows, with probability
# proportional to its weight there. Candidates with the same weights are of one type, so
# what matters of the earlier slots is only how many of each type they took. Dynamic
# programming runs over these counts: over types where candidates share weights, over
# subsets of candidates where all weights differ.

MAX_ENTRIES = 2**25  # of a table over states, types and later slots: 256 MiB
KEPT_ENTRIES = 2**20  # of a table whose states are kept for the next call


class Level(NamedTuple):
    """What may have been taken before a slot, and where a draw leads."""

    left: np.ndarray  # (n_states, n_types): candidates that the slot may still draw
    draws: list  # for each type: (states before, states after); none in the last slot
    empty: tuple  # (states before, states after) where nothing is left to draw
    n_next: int  # states of the next slot


def count_states(sizes, drawn):
    """Count the states before every slot; None where slots draw different types."""
    # They are the coefficients of a product: a type of n candidates has the polynomial
    # 1 + z + ... + z^n, and the power is the number of candidates taken.
    if (drawn != drawn[0]).any():
        return None
    n_slots = len(drawn)
    ways = [1] + [0] * (n_slots - 1)
    sizes = sizes[drawn[0]].tolist()
    for size in sizes:
        sums = [0, *accumulate(ways)]
        ways = [sums[k + 1] - sums[max(k - size, 0)] for k in range(n_slots)]
    total = sum(sizes)  # slots stay empty where all are taken
    return [ways[min(slot, total)] for slot in range(n_slots)]


def _check_entries(counts, sizes, drawn, exact=True):
    """Raise where the table of the states before a slot is too large."""
    n_slots, n_types = drawn.shape
    tables = {s: n * n_types * (n_slots - s) for s, n in counts.items()}
    slot = max(tables, key=tables.get)
    if tables[slot] <= MAX_ENTRIES:
        return
    offered = drawn.any(axis=0)
    raise ValueError(
        "the exact pair probabilities of these slates need a table of "
        f"{tables[slot] / 2**27:.3g} GiB, and at most {MAX_ENTRIES / 2**27:.2g} "
        f"GiB is allowed. The first {slot} of {n_slots} slots can show "
        f"{'' if exact else 'at least '}{counts[slot]:,} sets of candidates, "
        f"because {int(sizes[offered].sum())} candidates have {int(offered.sum())} "
        "distinct weights. Use fewer distinct weights, or SampledSlatePolicy, "
        "which takes means over draws."
    )


@lru_cache(maxsize=64)
def levels_of(sizes, drawn, n_slots):
    """States of every slot."""
    n_types = len(sizes)
    drawn = np.frombuffer(drawn, dtype=bool).reshape(n_slots, n_types)
    sizes = np.array(sizes)
    # no more of a type than slots are taken, most often fewer than 128
    taken = np.zeros((1, n_types), np.int8 if n_slots < 2**7 else np.int16)
    levels = []
    for slot in range(n_slots):
        left = np.subtract(sizes, taken, dtype=float)
        left *= drawn[slot]
        if slot == n_slots - 1:
            levels.append(Level(left, [], ([], []), 0))
            return levels
        before = [np.flatnonzero(column) for column in left.T]
        before.append(np.flatnonzero(~left.any(axis=1)))
        ends = np.cumsum([len(rows) for rows in before])
        # each of its candidates, or none, may have been the last to enter a set
        least = {slot + 1: -(-int(ends[-1]) // (slot + 2))}
        _check_entries(least, sizes, drawn, exact=False)
        after = taken[np.concatenate(before)]
        for kind, (rows, end) in enumerate(zip(before[:-1], ends[:-1], strict=True)):
            after[end - len(rows) : end, kind] += 1
        taken, where = _distinct_counts(after, sizes, n_slots)
        _check_entries({slot + 1: len(taken)}, sizes, drawn)
        edges = list(zip(before, np.split(where, ends[:-1]), strict=True))
        levels.append(Level(left, edges[:-1], edges[-1], len(taken)))


def _distinct_counts(counts, sizes, n_slots):
    """Distinct rows of counts, and which of them every row is."""
    radix = np.minimum(sizes, n_slots).astype(object) + 1
    steps = np.cumprod(np.concatenate([[1], radix[:-1]]).astype(object))
    if steps[-1] * radix[-1] < 2**62:
        codes = counts @ steps.astype(np.int64)
    else:  # too many types for one integer: compare the bytes of the rows
        codes = np.ascontiguousarray(counts)
        codes = codes.view(f"V{codes.dtype.itemsize * codes.shape[1]}")[:, 0]
    _, first, where = np.unique(codes, return_index=True, return_inverse=True)
    return counts[first], where.reshape(-1)


def states_forward(weights, levels):
    """Probabilities of the states before every slot, and of the draws from them."""
    reached = np.ones((1, weights.shape[2]))
    for level, weight in zip(levels, weights, strict=True):
        proba = level.left[:, :, None] * weight
        total = proba.sum(axis=1, keepdims=True)
        proba /= np.where(total > 0, total, 1.0)
        yield reached, proba
        if not level.n_next:
            return
        following = np.zeros((level.n_next, weights.shape[2]))
        for kind, (before, after) in enumerate(level.draws):
            following[after] += reached[before] * proba[before, kind]
        before, after = level.empty
        following[after] += reached[before]
        reached = following


def type_marginals(weights, sizes):
    """Probability that a slot shows a candidate of a type."""
    forward = states_forward(_distributions_last(weights), _levels(weights, sizes))
    draws = [np.einsum("sn,stn->nt", reached, proba) for reached, proba in forward]
    return np.stack(draws, axis=1)


def type_pairs(weights, sizes):
    r"""Probabilities of one and of two slots showing candidates of given types."""
    # With the probability :math:`f_j(S)` of state :math:`S` before slot :math:`j` and
    # :math:`g_j(S; k, u)` that slot :math:`k` shows type :math:`u` after that state,
    #
    # .. math::
    #
    #     P(s_j \in t, s_k \in u) = \sum_S f_j(S) p_j(t|S) g_{j+1}(S + t; k, u)
    levels = _levels(weights, sizes)
    n_distributions, n_slots, n_types = weights.shape
    # distributions stand last: what is gathered by state is then contiguous
    forward = list(states_forward(_distributions_last(weights), levels))
    marginals = np.empty((n_slots, n_types, n_distributions))
    pairs = np.zeros((n_slots, n_types, n_slots * n_types, n_distributions))
    later = None  # g of the next slot: (states, later slots times types, distributions)
    for slot in range(n_slots - 1, -1, -1):
        reached, proba = forward.pop()
        np.einsum("sn,stn->tn", reached, proba, out=marginals[slot])
        if later is None:
            later = proba
            continue
        width = later.shape[1]
        here = np.empty((len(proba), n_types + width, n_distributions))
        here[:, :n_types] = proba
        here[:, n_types:] = 0.0
        for kind, (before, after) in enumerate(levels[slot].draws):
            coming = later[after]
            coming *= proba[before, kind, None]
            here[before, n_types:] += coming
            out = pairs[slot, kind, -width:]
            np.einsum("sn,sun->un", reached[before], coming, out=out)
        before, after = levels[slot].empty
        here[before, n_types:] = later[after]
        later = here
    pairs = pairs.reshape(n_slots, n_types, n_slots, n_types, n_distributions)
    pairs = pairs + pairs.transpose(2, 3, 0, 1, 4)
    return marginals.transpose(2, 0, 1), pairs.transpose(4, 0, 1, 2, 3)


def _distributions_last(weights):
    return np.ascontiguousarray(weights.transpose(1, 2, 0))


def _levels(weights, sizes):
    n_slots, n_types = weights.shape[1:]
    drawn = weights[0] > 0
    counts = count_states(sizes, drawn)
    build = levels_of
    if counts is not None:
        _check_entries(dict(enumerate(counts)), sizes, drawn)
        if max(counts) * n_types > KEPT_ENTRIES:
            build = levels_of.__wrapped__
    return build(tuple(sizes.tolist()), drawn.tobytes(), n_slots)


def working_bytes(weights, sizes):
    """Bytes that `type_pairs` needs for one distribution."""
    n_slots, n_types = weights.shape[1:]
    states = count_states(sizes, weights[0] > 0)
    if states is None:
        states = [len(level.left) for level in _levels(weights, sizes)]
    widest = max(
        2 * count * (n_slots - slot) * n_types for slot, count in enumerate(states)
    )
    return 8 * (widest + sum(states) * n_types + 2 * (n_slots * n_types) ** 2)

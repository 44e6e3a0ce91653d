# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

from math import comb

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope.policies.slate import _slot_draws
from skope_ope.policies.slate._slot_draws import (
    count_states,
    levels_of,
    type_marginals,
    type_pairs,
    working_bytes,
)


def enumerated(weights):
    """Slot and pair marginals of one ranking distribution, summed over its slates."""
    n_slots, m = weights.shape
    slots, pairs = np.zeros((n_slots, m)), np.zeros((n_slots, m, n_slots, m))

    def fill(shown, proba):
        if len(shown) < n_slots:
            here = weights[len(shown)]
            left = [a for a in range(m) if a not in shown and here[a] > 0]
            for a in left:
                fill([*shown, a], proba * here[a] / sum(here[b] for b in left))
            if not left:
                fill([*shown, -1], proba)
            return
        for j, a in enumerate(shown):
            if a < 0:
                continue
            slots[j, a] += proba
            for k, b in enumerate(shown):
                if b >= 0 and k != j:
                    pairs[j, a, k, b] += proba

    fill([], 1.0)
    return slots, pairs


@pytest.mark.parametrize(
    ("m", "n_slots"), [(1, 1), (3, 1), (3, 2), (4, 4), (3, 4), (5, 3), (6, 4)]
)
def test_subsets_equal_enumeration(m, n_slots, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    weights = np.tile(rng.uniform(0.05, 1, (2, 1, m)), (1, n_slots, 1))
    sizes = np.ones(m, dtype=int)
    slots, pairs = type_pairs(weights, sizes)
    for distribution in range(2):
        want_slots, want_pairs = enumerated(weights[distribution])
        assert_allclose(slots[distribution], want_slots, rtol=0, atol=1e-14)
        assert_allclose(pairs[distribution], want_pairs, rtol=0, atol=1e-14)
    assert_allclose(type_marginals(weights, sizes), slots, rtol=0, atol=1e-14)


def test_weights_by_slot_and_slots_that_stay_empty(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    for _ in range(10):
        weights = rng.uniform(0.1, 1, (3, 4)) * (rng.random((3, 4)) < 0.5)
        slots, pairs = type_pairs(weights[None], np.ones(4, dtype=int))
        want_slots, want_pairs = enumerated(weights)
        assert_allclose(slots[0], want_slots, rtol=0, atol=1e-14)
        assert_allclose(pairs[0], want_pairs, rtol=0, atol=1e-14)


@pytest.mark.parametrize("n_slots", [1, 2, 4, 6])
def test_types_equal_subsets(n_slots, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    sizes = np.array([1, 3, 2])
    weights = np.tile(rng.uniform(0.1, 1, 3), (n_slots, 1))
    slots, pairs = type_pairs(weights[None], sizes)
    each = np.repeat(np.arange(3), sizes)
    all_slots, all_pairs = type_pairs(weights[None][:, :, each], np.ones(6, dtype=int))
    member = (each[:, None] == np.arange(3)).astype(float)
    assert_allclose(slots, all_slots @ member, rtol=0, atol=1e-14)
    want = np.einsum("njakb,at,bu->njtku", all_pairs, member, member)
    assert_allclose(pairs, want, rtol=0, atol=1e-14)


def test_a_hundred_candidates_of_seven_weights():
    sizes = np.array([1, 2, 4, 8, 16, 32, 37])
    weights = np.tile(2.0 ** -np.arange(7), (1, 10, 1))
    slots, pairs = type_pairs(weights, sizes)
    assert_allclose(slots.sum(axis=2), 1, rtol=0, atol=1e-14)
    off = ~np.eye(10, dtype=bool)
    assert_allclose(pairs.sum(axis=(2, 4))[0][off], 1, rtol=0, atol=1e-14)
    assert_allclose(
        pairs.sum(axis=4)[0, :, :, 3],
        slots[0] * (np.arange(10) != 3)[:, None],
        rtol=0,
        atol=1e-14,
    )
    # the first slot is a single draw, the second the sum over it
    first = sizes * weights[0, 0] / (sizes * weights[0, 0]).sum()
    assert_allclose(slots[0, 0], first, rtol=1e-14)
    left = sizes[:, None] * np.ones(7) - np.eye(7)
    second = (left.T * weights[0, 0]) / (left.T * weights[0, 0]).sum(
        axis=1, keepdims=True
    )
    assert_allclose(pairs[0, 0, :, 1], first[:, None] * second, rtol=1e-13)


def test_many_candidates_of_distinct_weights_in_few_slots():
    # so many types that no integer numbers their sets
    weights = np.random.default_rng(0).uniform(0.1, 1, 70)
    slots, pairs = type_pairs(np.tile(weights, (1, 2, 1)), np.ones(70, dtype=int))
    p = weights / weights.sum()
    want = p[:, None] * p / (1 - p[:, None])
    np.fill_diagonal(want, 0)
    assert_allclose(pairs[0, 0, :, 1], want, rtol=1e-12)
    assert_allclose(slots[0, 1], want.sum(axis=0), rtol=1e-12)


@pytest.mark.thorough
def test_five_of_fifty_candidates_of_distinct_weights():
    """The sets of four of them, 230,300, are still few enough."""
    weights = np.random.default_rng(0).uniform(0.1, 1, 50)
    sizes = np.ones(50, dtype=int)
    slots, pairs = type_pairs(np.tile(weights, (1, 5, 1)), sizes)
    assert_allclose(slots.sum(axis=2), 1, rtol=1e-12)
    for j in range(5):
        for k in range(5):
            want = slots[0, j] * (j != k)
            assert_allclose(pairs[0, j, :, k].sum(axis=1), want, rtol=0, atol=1e-13)
    # the first three slots do not know of those to come
    first, first_pairs = type_pairs(np.tile(weights, (1, 3, 1)), sizes)
    assert_allclose(slots[:, :3], first, rtol=1e-12)
    assert_allclose(pairs[:, :3, :, :3], first_pairs, rtol=1e-12)


def test_states_are_counted_before_they_are_enumerated(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    for _ in range(20):
        n_types, n_slots = rng.integers(1, 5, 2)
        sizes = rng.integers(1, 4, n_types)
        drawn = np.tile(rng.random(n_types) < 0.8, (n_slots, 1))
        levels = levels_of(tuple(sizes.tolist()), drawn.tobytes(), int(n_slots))
        counts = count_states(sizes, drawn)
        assert counts == [len(level.left) for level in levels]


@pytest.mark.parametrize(("m", "n_slots"), [(50, 10), (100, 10), (1000, 10)])
def test_too_many_sets_are_refused_by_their_number(m, n_slots, monkeypatch):
    """Nothing is enumerated for it."""
    monkeypatch.setattr(_slot_draws, "levels_of", None)
    weights = np.tile(np.linspace(1, 2, m), (1, n_slots, 1))
    needed = f"first 9 of 10 slots can show {comb(m, n_slots - 1):,} sets of candidates"
    for ask in (type_pairs, type_marginals):
        with pytest.raises(ValueError, match=needed) as found:
            ask(weights, np.ones(m, dtype=int))
        assert f"{m} candidates have {m} distinct weights" in str(found.value)


def test_too_many_sets_of_slots_with_candidates_of_their_own(monkeypatch):
    monkeypatch.setattr(_slot_draws, "MAX_ENTRIES", 2000)
    weights = np.tile(np.linspace(1, 2, 20), (1, 5, 1))
    weights[0, 0, 3] = 0
    with pytest.raises(ValueError, match=r"at least .* 20 candidates have 20 distinct"):
        type_pairs(weights, np.ones(20, dtype=int))
    monkeypatch.setattr(_slot_draws, "MAX_ENTRIES", 2**20)
    type_pairs(weights, np.ones(20, dtype=int))


def test_tiny_and_huge_weights():
    weights = np.tile([1e-150, 1.0, 1e150], (3, 1))
    slots, _ = type_pairs(weights[None], np.ones(3, dtype=int))
    assert_allclose(slots[0], [[0, 0, 1], [0, 1, 0], [1, 0, 0]], rtol=0, atol=1e-140)
    uniform = np.full((1, 3, 3), 1e-300)
    slots, _ = type_pairs(uniform, np.ones(3, dtype=int))
    assert_allclose(slots, 1 / 3)


def test_working_memory_grows_with_the_states():
    sizes = np.ones(10, dtype=int)
    few, many = (working_bytes(np.ones((1, n, 10)), sizes) for n in (2, 5))
    assert 0 < few < many < 2**20

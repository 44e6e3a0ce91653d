# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

from bisect import insort
from itertools import pairwise

import numpy as np
import pytest

from skope_ope.evaluators.sequential import _quantile
from skope_ope.evaluators.sequential._quantile import (
    KnownRatios,
    RunningQuantile,
    in_force,
    quantile_index,
    quantile_indices,
)

LEVELS = (0, 0.01, 0.05, 0.1, 0.25, 1 / 3, 0.5, 0.9, 1)


@pytest.mark.parametrize(
    ("q", "value"),
    [
        (0, 0.25),
        (0.05, 0.25),
        (1 / 6, 0.25),
        (0.25, 0.25),
        (1 / 3, 0.25),
        (0.34, 0.5),
        (0.5, 0.5),
        (0.9, np.inf),
        (1, np.inf),
    ],
)
def test_inverted_distribution_function(q, value):
    values = [0.25, 0.25, 0.5, 0.625, 1, np.inf]
    assert values[quantile_index(q, 6)] == value
    running = RunningQuantile(q)
    running.extend([1, 0.25, np.inf, 0.5, 0.25, 0.625])
    assert running.value() == value


@pytest.mark.parametrize("q", LEVELS)
def test_running_quantile_is_that_of_the_sorted_values(q, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    values = rng.choice([0.1, 0.2, 0.5, 1.0, 2.0, np.inf, *rng.random(20)], 500)
    running, seen = RunningQuantile(q), []
    for n, value in enumerate(values.tolist(), 1):
        running.extend([value])
        insort(seen, value)
        assert running.value() == seen[quantile_index(q, n)]
    expected = np.quantile(values, q, method="inverted_cdf")
    assert running.value() == expected


@pytest.mark.parametrize("q", LEVELS)
def test_fewer_than_q_n_values_lie_below(q):
    n = np.arange(1, 2000)
    index = quantile_indices(q, n)
    assert index.tolist() == [quantile_index(q, size) for size in n.tolist()]
    assert ((index < q * n) | (index == 0)).all()
    # and no smaller index would do: at least q n values lie at or below it
    assert (index + 1 >= q * n * (1 - 1e-9)).all()


@pytest.mark.parametrize("q", [0, 0.05, 0.5, 1])
def test_c_in_force_lies_below_fewer_than_q_n_ratios(q, global_random_seed):
    """#{Q < c} < q n at every acceptance, ties and infinite ratios among them."""
    rng = np.random.default_rng(global_random_seed)
    n = 300
    pi = rng.choice([0.0, 0.1, 0.5, 1.0], n)
    p, u = rng.choice([0.1, 0.3, 0.9], n), rng.random(n)
    accepted, c = KnownRatios(q, 1.0).take(pi, p, u)
    with np.errstate(divide="ignore"):
        ratios = p / pi
    assert len(accepted) > 5
    for row in accepted[accepted < n - 1].tolist():
        below = np.count_nonzero(ratios[: row + 1] < c[row + 1])
        assert below < q * (row + 1) or below == 0


@pytest.mark.few_cases
@pytest.mark.parametrize("q", LEVELS)
@pytest.mark.parametrize("blocks", [(1, 1), (2, 7), (64, 64), (256, 1 << 14)])
def test_known_ratios_give_what_a_sorted_list_gives(
    q, blocks, global_random_seed, monkeypatch
):
    monkeypatch.setattr(_quantile, "FIRST_BLOCK", blocks[0])
    monkeypatch.setattr(_quantile, "LARGEST_BLOCK", blocks[1])
    rng = np.random.default_rng(global_random_seed)
    n = 700
    pi = np.where(rng.random(n) < 0.2, 0.0, rng.random(n).round(2))
    p, u = rng.choice([0.1, 0.3, 0.9], n), rng.random(n)
    if q == 0.5:  # ratios that fall or rise all the time
        p = np.sort(p)[:: rng.choice([-1, 1])].copy()
    for cmax in (0.2, 1.0, 3.0):
        c, seen, expected, in_use = cmax, [], [], []
        for row, (pi_k, p_k, u_k) in enumerate(zip(pi, p, u, strict=True)):
            in_use.append(c)
            insort(seen, p_k / pi_k if pi_k else np.inf)
            if pi_k > 0 and u_k <= c * pi_k / p_k:
                expected.append(row)
                c = min(cmax, seen[quantile_index(q, len(seen))])
        accepted, found = KnownRatios(q, cmax).take(pi, p, u)
        assert accepted.tolist() == expected
        assert found.tolist() == in_use


def test_levels_of_a_level_hit_the_value_and_not_the_next():
    """.1 * 30 is 3.0000000000000004 in floats: the third value, not the fourth."""
    assert quantile_index(0.1, 30) == 2
    assert quantile_index(0.3, 10) == 2


def test_values_in_force():
    found = in_force([1.0, 0.5, 0.25], np.array([1, 3]), 6)
    assert found.tolist() == [1, 1, 0.5, 0.5, 0.25, 0.25]
    assert in_force([1.0], np.array([], dtype=int), 3).tolist() == [1, 1, 1]


@pytest.mark.parametrize("q", LEVELS)
def test_what_can_never_be_the_quantile_is_dropped(q, global_random_seed, monkeypatch):
    monkeypatch.setattr(_quantile, "SPARE", 4)
    rng = np.random.default_rng(global_random_seed)
    values, n = rng.random(2000).round(3), 2000
    all_kept, some_kept = RunningQuantile(q), RunningQuantile(q, n)
    for start in range(0, n, 25):
        some = values[start : start + 25].tolist()
        for running in (all_kept, some_kept):
            running.extend(some)
        assert some_kept.value() == all_kept.value()
        needed = quantile_index(q, n) + 1
        assert len(some_kept._low) + len(some_kept._high) <= 2.25 * needed + 30


@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize("q", LEVELS)
def test_known_ratios_of_parts_are_those_of_the_whole(q, bounded, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    n = 900
    pi = np.where(rng.random(n) < 0.2, 0.0, rng.random(n).round(2))
    p, u = rng.choice([0.1, 0.3, 0.9], n), rng.random(n)
    for c_init in (None, 0.05):
        accepted, c = KnownRatios(q, 1.0, c_init).take(pi, p, u)
        parts = KnownRatios(q, 1.0, c_init, n if bounded else None)
        bounds = [0, *np.sort(rng.integers(0, n + 1, 9)).tolist(), n]
        found = []
        for low, high in pairwise(bounds):
            rows = slice(low, high)
            some, ratios = parts.take(pi[rows], p[rows], u[rows])
            found += (low + some).tolist()
            np.testing.assert_array_equal(ratios, c[rows])
            if bounded:
                assert len(parts._kept) <= quantile_index(q, n) + 1
        assert found == accepted.tolist()

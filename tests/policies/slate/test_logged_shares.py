# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Counts of logged slates, and whether they refute that all are alike."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import factorial

from skope_ope import SlateLogs
from skope_ope.exceptions import PropensityWarning
from skope_ope.policies.slate._logged_shares import (
    alike_ratio,
    alike_warnings,
    counts_of,
    independent_rounds,
    logged_shares,
)
from tests.policies._slate_worlds import rounds


@pytest.mark.parametrize("sizes", [[(2, 4)], [(3, 3)], [(2, 2), (3, 2)], [(4, 1)]])
def test_the_ratio_has_mean_one_where_all_are_alike(sizes):
    """All counts of n rounds in lists of S slates, each with its probability."""
    lists = []
    for n_slates, n in sizes:
        counts = [c for c in product(range(n + 1), repeat=n_slates) if sum(c) == n]
        chance = [
            factorial(n) / np.prod(factorial(np.array(c))) / n_slates**n for c in counts
        ]
        lists.append(list(zip(counts, chance, strict=True)))
    mean = total = 0.0
    for drawn in product(*lists):
        p = np.prod([chance for _, chance in drawn])
        total += p
        mean += p * np.exp(alike_ratio([np.array(c) for c, _ in drawn]))
    assert_allclose([mean, total], 1)


def test_one_round_a_list_tells_nothing():
    assert_allclose(alike_ratio([np.array([0, 1, 0])] * 50), 0, atol=1e-9)


@pytest.mark.theory
@pytest.mark.parametrize(
    ("n_lists", "n_slates", "n"),
    [(1, 2, 50), (1, 6, 1000), (1, 100, 2), (50, 6, 10), (200, 6, 3), (5, 100, 200)],
)
def test_false_alarms_are_rare(n_lists, n_slates, n, global_random_seed):
    """At most one in a thousand by Markov's inequality; most cases have far fewer."""
    rng = np.random.RandomState(global_random_seed)
    alike, alarms = np.full(n_slates, 1 / n_slates), 0
    for _ in range(200):
        counts = rng.multinomial(n, alike, size=n_lists)
        slates = [np.arange(n_slates)[:, None]] * n_lists
        alarms += len(alike_warnings("Logger", list(range(n_lists)), counts, slates))
    assert alarms <= 3  # of 200: probability 7e-5 and less


@pytest.mark.parametrize(("n_lists", "n"), [(1, 1000), (50, 20), (200, 10)])
def test_shares_that_differ_are_seen(n_lists, n, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    counts = rng.multinomial(n, [0.4, 0.2, 0.1, 0.1, 0.1, 0.1], size=n_lists)
    slates = [np.arange(12).reshape(6, 2)] * n_lists
    (warned,) = alike_warnings("Logger", list(range(n_lists)), counts, slates)
    assert warned.value == alike_ratio(counts) > np.log(1000)
    assert isinstance(warned, PropensityWarning)


def test_the_message_names_the_slate():
    counts, slates = [np.array([30, 170])], [np.array([[0, 1], [2, 0]])]
    (warned,) = alike_warnings("Logger", [None], counts, slates)
    assert "[0, 1] has 15.0% of the 200 rounds, not 1/2" in str(warned)
    counts, slates = [np.array([5, 5]), *counts], slates * 2
    (warned,) = alike_warnings("Logger", ["a", "b"], counts, slates)
    assert "15.0% of the 200 rounds of 'b', not 1/2" in str(warned)


def test_differences_that_do_not_matter():
    """Shares of 50.5% and 49.5%: a million rounds see it, values do not."""
    counts, slates = [np.array([505_000, 495_000])], [np.array([[0], [1]])]
    assert alike_ratio(counts) > 30
    assert not alike_warnings("Logger", [None], counts, slates)


def test_counts_and_shares():
    slates = np.array([[1, 0], [0, 1], [1, 0], [2, 1]])
    distinct, share = logged_shares(slates)
    assert_array_equal(distinct, [[0, 1], [1, 0], [2, 1]])
    assert_allclose(share, [0.25, 0.5, 0.25])
    assert_allclose(logged_shares(slates, np.array([1, 2, 3, 2]))[1], [0.25, 0.5, 0.25])
    assert_array_equal(counts_of(distinct[::-1], slates), [1, 2, 1])
    assert_array_equal(counts_of(np.array([[5, 5], [2, 1]]), slates), [0, 1])


def test_rounds_that_depend_on_each_other_count_once():
    assert_array_equal(independent_rounds(rounds(4, 2, 3)), range(4))
    logs = rounds(4, 2, 3, group=[7, 7, 5, 5])
    assert_array_equal(sorted(independent_rounds(logs)), [0, 2])


def test_rounds_that_were_dropped_by_reward_are_made_up_for(global_random_seed):
    """Slate 0 is never rewarded, and four in five such rounds were dropped."""
    rng = np.random.RandomState(global_random_seed)
    slate = rng.randint(2, size=(4000, 1))
    kept = (slate[:, 0] == 1) | (rng.random_sample(4000) < 0.2)
    weight = np.where(slate[kept, 0] == 1, 1.0, 5.0)
    n_kept = int(kept.sum())
    logs = SlateLogs(np.zeros((n_kept, 1)), slate[kept], np.zeros(n_kept))
    known = np.array([[0], [1]])
    assert alike_ratio([counts_of(known, logs.slate)]) > 100
    rows = independent_rounds(logs.with_columns(sample_weight=weight))
    count = counts_of(known, logs.slate[rows])
    assert count.min() > 300
    assert abs(count[0] - count[1]) < 4 * np.sqrt(count.sum())

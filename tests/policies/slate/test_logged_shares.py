# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Counts of logged slates, and whether they refute that all are alike."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import factorial

from skope_ope.exceptions import PropensityWarning
from skope_ope.policies.slate._logged_shares import alike_ratio, alike_warnings


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


def test_differences_that_do_not_matter():
    """Shares of 50.5% and 49.5%: a million rounds see it, values do not."""
    counts, slates = [np.array([505_000, 495_000])], [np.array([[0], [1]])]
    assert alike_ratio(counts) > 30
    assert not alike_warnings("Logger", [None], counts, slates)

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest

from skope_ope.selection._slope_search import (
    non_increasing,
    slope_index,
    slope_plus_plus_index,
)

# IPS on D8, clipped at 4, 3, 2, 1, 1/2
THETA = np.array([0.9625, 0.8375, 0.5875, 0.3375, 0.2125])
ERROR = np.array([0.563275, 0.473732, 0.311036, 0.150454, 0.075313])


@pytest.mark.parametrize("index", [slope_index, slope_plus_plus_index])
def test_vectors(index):
    assert index(THETA, ERROR) == 4  # clipped at 1/2
    assert index(THETA, 0.35 * ERROR) == 2  # clipped at 2
    assert index(THETA[:1], ERROR[:1]) == 0
    assert index(THETA, 0 * ERROR) == 0
    assert index(np.ones(5), 0 * ERROR) == 4


def slope_by_pairs(values, widths):
    chosen = 0
    for i in range(len(values)):
        width = [max(widths[k:]) for k in range(len(values))]
        if all(
            abs(values[j] - values[k]) <= 2 * (width[j] + width[k])
            for j in range(i + 1)
            for k in range(j)
        ):
            chosen = i
        else:
            break
    return chosen


def slope_plus_plus_by_pairs(values, widths):
    for i in range(len(values)):
        for j in range(i):
            if abs(values[i] - values[j]) > widths[i] + (6**0.5 - 1) * widths[j]:
                return i - 1
    return len(values) - 1


def test_against_loops():
    rng = np.random.RandomState(0)
    for _ in range(200):
        widths = np.sort(rng.exponential(size=6))[::-1]
        values = rng.normal(size=6)
        assert slope_index(values, widths) == slope_by_pairs(values, widths)
        found = slope_plus_plus_index(values, widths)
        assert found == slope_plus_plus_by_pairs(values, widths)


def test_widths_are_raised_from_the_right():
    assert non_increasing(np.array([3.0, 1.0, 2.0, 0.5])).tolist() == [3, 2, 2, 0.5]

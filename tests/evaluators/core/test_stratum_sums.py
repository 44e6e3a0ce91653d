# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope.evaluators.core._stratum_sums import (
    StratumSums,
    indicators,
    partial_sums,
)


@pytest.mark.parametrize("n_cells", [1, 3, 8, 20, 300])
@pytest.mark.parametrize("step", [1, 7, 50, 1000])
def test_sums_of_sharers_do_not_depend_on_the_blocks(n_cells, step):
    rng = np.random.RandomState(0)
    cells = rng.randint(0, n_cells, 400)
    values = rng.normal(size=(11, 400))
    sums = StratumSums(cells, n_cells)
    places = {}
    for start in range(0, 400, step):
        block = values[:, start : start + step]
        for name, part in (("a", block[:2]), ("b", block[2:])):  # they share products
            if start == 0:  # one comes while the page of the other is filled
                places[name] = sums.reserve(len(part))
            sums.page(places[name], start, part.shape[1])[:] = part
    expected = [np.bincount(cells, row, n_cells) for row in values]
    assert_allclose(sums[places["a"]], expected[:2], atol=1e-12)
    assert_allclose(sums[places["b"]], expected[2:], atol=1e-12)
    assert_array_equal(sums[places["b"]], sums[places["b"]])  # reading adds nothing


def test_other_sums_of_a_block_leave_its_page_alone():
    cells = np.array([0, 1, 1, 0, 1])
    values = np.arange(5.0)
    sums = StratumSums(cells, 2)
    where = sums.reserve(1)
    sums.page(where, 0, 3)[:] = values[:3]
    assert_array_equal(sums.of_block(0, 3)(values[:3]), [0, 3])
    assert_array_equal(sums.of_block(3, 5)(values[3:]), [3, 4])
    sums.page(where, 3, 2)[:] = values[3:]
    assert_array_equal(sums[where], [[3, 7]])


@pytest.mark.parametrize("n_codes", [1, 2, 8, 9, 300])
def test_partial_sums(n_codes):
    rng = np.random.RandomState(1)
    codes, values = rng.randint(0, n_codes, 50), rng.normal(size=(30, 50))
    sums = partial_sums(codes, n_codes)
    expected = np.array([np.bincount(codes, row, n_codes) for row in values])
    assert_allclose(sums(values), expected, atol=1e-12)
    assert_allclose(sums(values[0]), expected[0], atol=1e-12)
    assert_array_equal(indicators(codes, n_codes).argmax(axis=0), codes)

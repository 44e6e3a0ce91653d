# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import warnings
from pathlib import Path

import numpy as np
import pytest

from skope_ope.exceptions import LogsWarning
from skope_ope.readers._table_logs import made_whole


@pytest.mark.parametrize("digits", range(2, 7))
def test_rounded_rows_are_divided_by_their_sums(digits):
    rng = np.random.RandomState(0)
    proba = np.round(rng.dirichlet(np.ones(3), size=500), digits)
    kept = proba.copy()
    off = np.abs(proba.sum(axis=1) - 1) > 1e-6
    assert off.any()
    with pytest.warns(LogsWarning, match=f"rounded to {digits} digits") as told:
        found = made_whole("log.jsonl", proba.T)
    assert told[0].message.value == off.sum()
    assert Path(told[0].filename) == Path(__file__)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(found[~off], kept[~off])
    np.testing.assert_array_equal(proba, kept)


@pytest.mark.parametrize(
    "proba",
    [
        [[0.33, 0.33], [0.5, 0.5]],  # 0.34 are too many for two digits
        [[1 / 3, 1 / 3, 0.3333], [0.5, 0.25, 0.25]],  # digits were not dropped
        [[0.3334, 0.3334, 0.3334], [0.123456789, 0.5, 0.376543211]],
        np.full((2, 100), 0.02),  # half of the sum is no rounding
        [[0.5, 0.5], [0.25, 0.75]],
    ],
)
def test_other_rows_stay(proba):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(made_whole("x", np.transpose(proba)), proba)

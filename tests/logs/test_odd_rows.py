# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skope_ope.logs._frames import LIBRARIES
from skope_ope.logs._model_features import odd_part, odd_rows, oddities

pytestmark = pytest.mark.frames
COLUMNS = {
    "full": [1.0, 2.0, 3.0, 4.0],
    "gap": [1.0, 2.0, None, None],
    "text": ["a", "b", "a", "b"],
    "code": ["1", "2", "3", "B4"],
    "digits": ["1", "2", "3", "4"],
    "truth": [True, None, False, True],
}


@pytest.mark.parametrize("library", LIBRARIES)
def test_of_every_library(library):
    module = pytest.importorskip(library)
    make = module.table if library == "pyarrow" else module.DataFrame
    frame = make(COLUMNS)
    assert_array_equal(odd_rows(frame), [0, 1, 2, 3])
    assert odd_part(frame).shape == (4, 6)
    kinds = {("gap", "gap"), ("text", "text"), ("code", "text"), ("truth", "gap")}
    assert oddities(frame) - {("truth", "text")} == kinds
    assert odd_part(make({"full": COLUMNS["full"]})) is None


def test_a_text_that_comes_late():
    pandas = pytest.importorskip("pandas")
    late = pandas.DataFrame({"x": ["1"] * 150 + ["B1", "B2"]})
    assert_array_equal(odd_rows(late), [150])
    assert_array_equal(odd_rows(late[:150]), [])


def test_numbers_that_are_nan():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"x": [0.0, np.nan, None]})
    assert_array_equal(odd_rows(frame), [1])
    assert odd_part(np.array([[np.nan]])) is None


def test_missing_values_of_pandas():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "whole": pandas.array([1, None, 3], dtype="Int64"),
            "float": pandas.array([1.5, 2.5, None], dtype="Float64"),
            "mixed": [1, 2, "c"],
            0: [1, 2, 3],
        }
    )
    assert_array_equal(odd_rows(frame[["whole", "float", "mixed"]]), [1, 2])

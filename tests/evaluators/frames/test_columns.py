# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Columns that formulas of arrays take for arrays."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope.evaluators.core._weights import clip, harmonic, shrink, switch
from skope_ope.evaluators.frames._columns import (
    all_of,
    column,
    expression,
    label_is,
    total,
    where,
)

W = [0.0, 0.25, 1.0, 3.5]
FORMULAS = {
    "arithmetic": lambda w: (2 - w) / (1 + w) * w - 0.5,
    "clip": lambda w: clip(w, 1.5),
    "switch": lambda w: switch(w, 1.0),
    "shrink": lambda w: shrink(w, 2.0),
    "shrink to nothing": lambda w: shrink(w, 0),
    "harmonic": lambda w: harmonic(w, 0.3),
    "harmonic of one": lambda w: harmonic(w, 1),
    "maximum": lambda w: np.maximum(0.5, w),
    "absolute": lambda w: np.absolute(w - 1),
    "log1p": np.log1p,
    "where": lambda w: np.where(w > 1, w, -1.0),
}


@pytest.mark.frames
@pytest.mark.parametrize("name", FORMULAS)
def test_formulas_of_arrays_take_columns(name):
    polars, nw = pytest.importorskip("polars"), pytest.importorskip("narwhals")
    formula, w = FORMULAS[name], np.array(W)
    frame = nw.from_native(polars.DataFrame({"w": w}))
    found = frame.select(w=expression(formula(column("w")), nw))["w"].to_numpy()
    assert_allclose(found, formula(w), rtol=1e-15, atol=0)


@pytest.mark.frames
def test_log1p_keeps_the_digits_of_small_numbers():
    polars, nw = pytest.importorskip("polars"), pytest.importorskip("narwhals")
    x = [1e-20, 1e-12, 3e-7, 0.1, 5.0, 1e9, 0.0]
    frame = nw.from_native(polars.DataFrame({"x": x}))
    found = frame.select(y=expression(np.log1p(column("x")), nw))["y"].to_list()
    assert_allclose(found, [math.log1p(v) for v in x], rtol=1e-15)


@pytest.mark.thorough
@pytest.mark.frames
def test_sums_of_many_columns_are_shallow_and_keep_nulls():
    polars, nw = pytest.importorskip("polars"), pytest.importorskip("narwhals")
    names = [f"c{k}" for k in range(2000)]
    data = {name: [1.0, 2.0] for name in names} | {"c7": [1.0, None]}
    frame = nw.from_native(polars.DataFrame(data))
    columns = [column(name) for name in names]
    found = frame.select(
        total=expression(total(columns), nw),
        all=expression(all_of([one > 0 for one in columns]), nw),
    )
    assert found["total"].to_list() == [2000.0, None]
    assert found["all"].to_list() == [True, None]


@pytest.mark.frames
def test_nulls_go_to_the_other_value():
    polars, nw = pytest.importorskip("polars"), pytest.importorskip("narwhals")
    frame = nw.from_native(polars.DataFrame({"a": ["x", None, "y"]}))
    found = frame.select(
        a=expression(where(label_is("a", "x"), 1.0, 0.0), nw),
        b=expression(where(label_is("a", "x"), 1.0, None), nw),
    )
    assert found["a"].to_list() == [1.0, 0.0, 0.0]
    assert found["b"].to_list() == [1.0, None, None]


def test_equal_computations_are_one():
    w, r = column("w"), column("r")
    assert (w * r).key == (r * w).key
    assert (w - r).key != (r - w).key
    assert np.minimum(w, 2).key == clip(column("w"), 2.0).key
    assert (w * r - 1).names() == {"w", "r"}


def test_what_is_not_known_is_refused():
    with pytest.raises(TypeError, match="numpy's sin cannot be computed"):
        np.sin(column("w"))
    with pytest.raises(TypeError, match="numpy's cumsum cannot"):
        np.cumsum(column("w"))
    with pytest.raises(TypeError, match="numpy's add cannot"):
        np.add.reduce(column("w"))

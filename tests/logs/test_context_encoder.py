# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pickle
from contextlib import suppress
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from unittest import SkipTest

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import estimator_checks_generator

from skope_ope import ContextEncoder

LIBRARIES = ["pandas", "polars", "pyarrow"]

FRAMES = pytest.mark.frames


CHECKS = [
    pytest.param(*pair, id=f"{pair[1].func.__name__}-{output}")
    for output in (True, False, "auto")
    for pair in estimator_checks_generator(ContextEncoder(sparse_output=output))
]


@pytest.mark.parametrize(("estimator", "check"), CHECKS)
def test_scikit_learns_checks(estimator, check):
    with suppress(SkipTest):  # of what is not installed
        check(estimator)


def frame_of(library, columns):
    module = pytest.importorskip(library)
    return (module.table if library == "pyarrow" else module.DataFrame)(columns)


def named(encoder, X):
    """Encoded columns by name."""
    out = encoder.transform(X)
    out = out.toarray() if sparse.issparse(out) else out
    names = encoder.get_feature_names_out()
    assert out.shape == (X.shape[0], encoder.n_features_out_)
    assert len(names) == encoder.n_features_out_
    assert len(set(names)) == len(names)
    return dict(zip(names.tolist(), out.T.tolist(), strict=True))


COLUMNS = {
    "age": [20.0, None, 40.0, 60.0],
    "visits": [1, 2, 3, 2],
    "city": ["ulm", "bonn", None, "ulm"],
    "member": [True, False, True, True],
    "day": [date(2026, 1, day) for day in (1, 2, 3, 4)],
    "at": [datetime(2026, 1, 5, 23), None, *[datetime(2026, 1, 6, 1)] * 2],
}


@FRAMES
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("sparse_output", [True, False])
def test_every_kind_of_column_in_every_library(library, sparse_output):
    X = frame_of(library, COLUMNS)
    encoder = ContextEncoder(sparse_output=sparse_output).fit(X)
    out = encoder.transform(X)
    assert sparse.issparse(out) == sparse_output
    assert out.dtype == np.float64
    found = named(encoder, X)
    spread = np.std([20, 40, 60])
    for name, values in {
        "age": [-20 / spread, 0, 0, 20 / spread],
        "age is missing": [0, 1, 0, 0],
        "visits": np.array([-1, 0, 1, 0]) / np.sqrt(0.5),
        "city = ulm": [1, 0, 0, 1],
        "city = bonn": [0, 1, 0, 0],
        "city is missing": [0, 0, 1, 0],
        "member": [1, 0, 1, 1],
        "day": np.array([-3, -1, 1, 3]) / np.sqrt(5),
        "day weekday = Thursday": [1, 0, 0, 0],
        "day weekday = Monday": [0, 0, 0, 0],
        "at weekday = Tuesday": [0, 0, 1, 1],
        "at hour = 23": [1, 0, 0, 0],
        "at hour = 01": [0, 0, 1, 1],
        "at is missing": [0, 1, 0, 0],
    }.items():
        assert_allclose(found[name], values)
    assert "day hour = 00" not in found
    assert encoder.n_features_in_ == 6
    assert encoder.feature_names_in_.tolist() == list(COLUMNS)


@FRAMES
@pytest.mark.parametrize("library", LIBRARIES)
def test_new_rows_are_encoded_as_those_of_fit(library):
    X = frame_of(library, {"city": list("aabbccd"), "age": [1.0, 2, 3, 4, 5, 6, 7]})
    encoder = ContextEncoder(max_categories=3).fit(X)
    new = frame_of(library, {"city": ["a", "d", "z", None], "age": [None, 4.0, 4, 8]})
    found = named(encoder, new)
    assert found["city = a"] == [1, 0, 0, 0]
    assert found["city = b"] == [0, 0, 0, 0]
    assert found["city, other texts"] == [0, 1, 1, 0]
    assert_allclose(found["age"], [0, 0, 0, 2])
    assert len(found) == 4
    # without rare ones a new text has no column
    found = named(ContextEncoder().fit(X), new)
    none = [0, 0, 0, 0]
    rows = [found[f"city = {one}"] for one in "abcd"]
    assert rows == [[1, 0, 0, 0], none, none, [0, 1, 0, 0]]
    assert encoder.transform(new[:0]).shape == (0, 4)


@FRAMES
def test_columns_of_pandas_alone():
    pandas = pytest.importorskip("pandas")
    zone = timezone(timedelta(hours=2))
    X = pandas.DataFrame(
        {
            "level": pandas.Categorical(["low", "high", "low"]),
            "grade": pandas.Categorical([3, 1, None]),
            "flag": pandas.array([True, None, False], dtype="boolean"),
            "count": pandas.array([1, None, 3], dtype="Int64"),
            "price": [Decimal("1"), Decimal("3"), None],
            "born": [date(1990, 5, 1), date(1991, 5, 1), None],
            "yes": np.array([True, False, None], dtype=object),
            "mixed": np.array([1, "a", None], dtype=object),
            "wait": pandas.to_timedelta([1, None, 3], unit="h"),
            "clock": [time(6), time(18), time(6)],
            "none": [None] * 3,
            "local": [datetime(2026, 1, 1, h, tzinfo=zone) for h in (1, 2, 1)],
        }
    )
    found = named(ContextEncoder().fit(X), X)
    grade = "grade = 1" if "grade = 1" in found else "grade = 1.0"
    wanted = {"level = low": [1, 0, 1], grade: [0, 1, 0], "grade is missing": [0, 0, 1]}
    wanted |= {"flag": [1, 0.5, 0], "yes": [1, 0, 0.5], "mixed = a": [0, 1, 0]}
    wanted |= {
        "clock": np.array([-1, 2, -1]) / np.sqrt(2),
        "local hour = 01": [1, 0, 1],
    }
    wanted |= {"none is missing": [1, 1, 1]}
    for name in ("count", "wait"):
        wanted |= {name: [-1, 0, 1], f"{name} is missing": [0, 1, 0]}
    for name in ("price", "born"):
        wanted |= {name: [-1, 1, 0], f"{name} is missing": [0, 0, 1]}
    for name, values in wanted.items():
        assert_allclose(found[name], values)


@FRAMES
def test_a_copy_of_a_fitted_encoder_is_as_good():
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame({"city": ["a", "b", "a"], "age": [1.0, None, 3.0]})
    encoder = ContextEncoder(sparse_output=False).fit(X)
    again = pickle.loads(pickle.dumps(encoder))
    assert_array_equal(again.transform(X), encoder.transform(X))
    with pytest.raises(NotFittedError):
        clone(encoder).transform(X)
    framed = encoder.set_output(transform="pandas").transform(X)
    assert list(framed.columns) == ["city = a", "city = b", "age", "age is missing"]


@FRAMES
@pytest.mark.parametrize(
    ("fitted", "given", "message"),
    [
        ({"x": [[1], [2]]}, None, "column 'x' of the context holds values of type"),
        ({"x": [1.0, np.inf]}, None, "column 'x' of the context is infinite at row 1"),
        ({"x": ["a", "b"]}, {"x": [1, 2]}, "'x' .* holds numbers, but held texts"),
        ({"x": [1, 2]}, {"x": ["a", "b"]}, "'x' .* holds texts, but held numbers"),
        ({"x": ["a", "b"]}, np.zeros((2, 1)), "fitted on a frame with texts or dates"),
        ({"x": [1]}, {"y": [1]}, "feature names"),
        ({"x": []}, None, "the frame has none"),
    ],
)
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_what_it_refuses(fitted, given, message):
    pandas = pytest.importorskip("pandas")
    with pytest.raises((TypeError, ValueError), match=message):
        encoder = ContextEncoder().fit(pandas.DataFrame(fitted))
        given = given if isinstance(given, np.ndarray) else pandas.DataFrame(given)
        encoder.transform(given)


def test_numbers_may_become_truths_and_a_column_may_be_empty():
    pandas = pytest.importorskip("pandas")
    encoder = ContextEncoder().fit(pandas.DataFrame({"x": [0, 1], "y": [None, None]}))
    new = pandas.DataFrame({"x": [True, False], "y": ["a", "b"]})
    assert_array_equal(encoder.transform(new).toarray(), [[1, 0], [-1, 0]])


def test_arrays_and_sparse_matrices():
    dense = np.array([[0.0, 2], [0, 4], [3, 6]])
    X = sparse.csr_matrix(dense)
    encoder = ContextEncoder().fit(X)
    out = encoder.transform(X)
    assert sparse.issparse(out)
    assert out.nnz == X.nnz
    assert_allclose(out.toarray(), dense / dense.std(axis=0))
    assert_allclose(encoder.transform(dense).toarray(), out.toarray())
    full = ContextEncoder(sparse_output=False)
    assert_allclose(full.fit(X).transform(X), out.toarray())
    expected = (dense - dense.mean(axis=0)) / dense.std(axis=0)
    assert_allclose(full.fit(dense).transform(dense), expected)
    assert_allclose(full.transform(X), expected)
    X.data[0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        encoder.fit(X)


def test_sparse_where_it_pays():
    encoder = ContextEncoder(sparse_output="auto")
    dense = np.array([[0.0, 2], [1, 4]])
    assert isinstance(encoder.fit_transform(dense), np.ndarray)
    assert sparse.issparse(encoder.fit_transform(sparse.csr_matrix(dense)))
    pandas = pytest.importorskip("pandas")
    for texts, is_sparse in ((list("aabb"), False), (list("abcd"), True)):
        out = encoder.fit_transform(pandas.DataFrame({"x": texts}))
        assert sparse.issparse(out) == is_sparse
        assert out.sum() == 4


def test_names():
    encoder = ContextEncoder().fit(np.array([[1.0, np.nan], [2, 3]]))
    assert encoder.get_feature_names_out().tolist() == ["x0", "x1", "x1 is missing"]
    assert encoder.get_feature_names_out(["a", "b"]).tolist()[2] == "b is missing"
    with pytest.raises(ValueError, match="length equal"):
        encoder.get_feature_names_out(["a"])

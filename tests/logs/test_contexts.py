# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from skope_ope.logs._contexts import check_context


@pytest.mark.parametrize("container", [sparse.csc_matrix, sparse.coo_array, "dok"])
def test_sparse_contexts_become_csr(container):
    X = np.array([[0.0, 1.0], [2.0, 0.0]])
    container = sparse.dok_matrix if container == "dok" else container
    context = check_context(container(X))
    assert context.format == "csr"
    assert_array_equal(context.toarray(), X)


@pytest.mark.parametrize(
    ("context", "error", "message"),
    [
        (None, TypeError, r"np\.empty\(\(n_rounds, 0\)\)"),
        ([1.0, 2.0], ValueError, r"reshape\(-1, 1\)"),
        (np.zeros((2, 1, 1)), ValueError, "must be 2-d"),
        ([["a"], ["b"]], TypeError, "ColumnTransformer"),
        (np.array([[1], ["b"]], object), TypeError, "real numbers, got dtype object"),
        (np.ones((2, 1), complex), TypeError, "real numbers, got dtype complex"),
        (sparse.csr_matrix(np.ones((2, 1), complex)), TypeError, "must hold numbers"),
        ([[1], [1, 2]], ValueError, "context is no rectangular array"),
        ("abc", ValueError, "must be 2-d"),
    ],
    ids=str,
)
def test_what_is_no_context_is_refused(context, error, message):
    with pytest.raises(error, match=message):
        check_context(context)


@pytest.mark.skipif(sparse.coo_array(np.ones(2)).ndim == 2, reason="scipy 1.13 has it")
def test_sparse_vectors_are_refused():
    with pytest.raises(ValueError, match=r"2-d, got shape \(2,\)"):
        check_context(sparse.coo_array(np.ones(2)))


def test_missing_features_are_the_business_of_the_models():
    X = np.array([[np.nan, 1.0]])
    assert_array_equal(check_context(X), X)


def test_a_context_without_features_is_one():
    assert check_context(np.empty((3, 0))).shape == (3, 0)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames_stay_frames_of_their_library(library):
    module = pytest.importorskip(library)
    make = module.table if library == "pyarrow" else module.DataFrame
    frame = make({"a": [1, 2]})
    context = check_context(frame)
    assert type(context) is type(frame)
    assert context.equals(frame)

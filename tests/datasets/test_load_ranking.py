# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from skope_ope.datasets import load_ranking


def test_dense_and_sparse_files(tmp_path, monkeypatch):
    X, y, qid = np.eye(3), np.array([0, 1, 2]), np.array([1, 1, 2])
    np.savez(tmp_path / "ltr_one.npz", X=X, y=y, qid=qid, feature_names=[*"abc"])
    S = sparse.csr_matrix(X)
    np.savez(
        tmp_path / "ltr_two.npz",
        X_data=S.data.astype(np.uint8),
        X_indices=S.indices,
        X_indptr=S.indptr,
        X_shape=S.shape,
        y=y,
        qid=qid,
    )
    data = load_ranking("one", data_home=tmp_path)
    assert_array_equal(data.data, X)
    assert data.feature_names == [*"abc"]
    monkeypatch.setenv("SKOPE_OPE_DATA", str(tmp_path))
    data, target, query = load_ranking("two", return_X_y=True)
    assert_array_equal(data.toarray(), X)
    assert_array_equal(target, y)
    assert_array_equal(query, qid)
    with pytest.raises(FileNotFoundError, match=r"Sets found in .*: one, two"):
        load_ranking("three")


def test_no_folder(monkeypatch):
    monkeypatch.delenv("SKOPE_OPE_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="pass data_home, or set"):
        load_ranking("one")


def test_real_files(data_dir):
    cranfield = load_ranking("cranfield", data_home=data_dir)
    assert cranfield.data.shape == (11_250, 23)
    assert len(np.unique(cranfield.qid)) == 225
    X, y, qid = load_ranking("lightgbm_rank_train", data_home=data_dir, return_X_y=True)
    assert X.shape == (3005, 301)
    assert y.max() == 4
    assert len(np.unique(qid)) == 201

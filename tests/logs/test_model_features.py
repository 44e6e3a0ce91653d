# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from scipy import sparse

from skope_ope import BanditLogs
from skope_ope.logs._model_features import check_features


def logs_of(context):
    return BanditLogs(context, [0, 1], [0.0, 1.0])


def test_features_are_needed():
    with pytest.raises(ValueError, match=r"'x' needs features: name .* --context"):
        check_features(logs_of(np.empty((2, 0))), "'x'", takes_missing=True)


@pytest.mark.parametrize("takes_missing", [True, False])
def test_finite_arrays_suit_all(takes_missing):
    check_features(logs_of(np.eye(2)), "'x'", takes_missing=takes_missing)


def test_missing_values_suit_trees_only():
    logs = logs_of(np.array([[0.0], [np.nan]]))
    check_features(logs, "'x'", takes_missing=True)
    with pytest.raises(ValueError, match=r"at row 1 \(1 such rows\). Use 'hist'"):
        check_features(logs, "'x'", takes_missing=False)


def test_sparse_matrices_suit_all_but_trees():
    logs = logs_of(sparse.csr_matrix(np.eye(2)))
    check_features(logs, "'x'", takes_missing=False)
    with pytest.raises(ValueError, match="cannot take the 2 hashed columns"):
        check_features(logs, "'x'", takes_missing=True)

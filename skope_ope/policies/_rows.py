# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Rows of contexts, whatever holds them."""

import numpy as np
from scipy import sparse


def dense_rows(X, name):
    """Contexts as a float array of shape (n_rounds, n_features)."""
    if isinstance(X, np.ndarray) and X.dtype == np.float64:
        return X
    if sparse.issparse(X):
        X = X.toarray()
    try:
        return np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{name} needs contexts of numbers: {error}. Pass an encoder that is "
            "fitted to earlier contexts: "
            f"{name}(features=FrozenEstimator(ContextEncoder().fit(earlier)))."
        ) from error

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Rows of contexts, whatever holds them."""

import numpy as np
from scipy import sparse

from skope_ope.logs._frames import import_narwhals
from skope_ope.logs._validation import is_frame


def stack_rows(parts):
    """One array, sparse matrix or frame from several with the same columns."""
    if len(parts) == 1:
        return parts[0]
    if any(sparse.issparse(part) for part in parts):
        return sparse.vstack(parts, format="csr")
    if is_frame(parts[0]):
        narwhals = import_narwhals()
        frames = [narwhals.from_native(part, eager_only=True) for part in parts]
        return narwhals.concat(frames, how="vertical").to_native()
    return np.concatenate(parts)


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

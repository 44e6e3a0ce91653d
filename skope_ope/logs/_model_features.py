# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Whether contexts suit a model that is to be fitted on them."""

import numpy as np
from scipy import sparse


def check_features(logs, whose, takes_missing):
    """Raise unless the context suits the model."""
    X = logs.context
    if X.shape[1] == 0:
        raise ValueError(
            f"{whose} needs features: name what was known before the decision with "
            "--context."
        )
    if sparse.issparse(X):
        if takes_missing:
            raise ValueError(
                f"{whose} cannot take the {X.shape[1]:,} hashed columns of this log. "
                "Use 'logistic', or 'ridge' as a reward model."
            )
        return
    missing = np.isnan(X).any(axis=1)
    if missing.any() and not takes_missing:
        raise ValueError(
            f"{whose} takes no missing values, but the context has some at row "
            f"{np.flatnonzero(missing)[0]} ({missing.sum()} such rows). Use 'hist', or "
            "fill them."
        )

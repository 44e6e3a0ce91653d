# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Names that scikit-learn keeps private, imported in this one place.

Each was tried on scikit-learn 1.6.0 (the oldest that is supported) and 1.9.1; the
tests run on both. Where a later version moves one of them, this is the file to mend.
"""

from sklearn.base import _fit_context as fit_context
from sklearn.utils import _safe_indexing as safe_indexing
from sklearn.utils._param_validation import (
    HasMethods,
    Interval,
    Options,
    StrOptions,
    validate_parameter_constraints,
    validate_params,
)

__all__ = [
    "HasMethods",
    "Interval",
    "Options",
    "StrOptions",
    "fit_context",
    "safe_indexing",
    "validate_parameter_constraints",
    "validate_params",
]

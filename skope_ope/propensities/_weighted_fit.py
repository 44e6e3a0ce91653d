# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Fit any scikit-learn model with row weights, where it can take them."""

from sklearn import config_context
from sklearn.utils.validation import has_fit_parameter


def weight_parameter(model):
    """Name of the fit parameter that takes row weights, or None."""
    if hasattr(model, "steps"):  # a Pipeline hands it to its last step
        name, last = model.steps[-1]
        inner = None if last == "passthrough" else weight_parameter(last)
        return None if inner is None else f"{name}__{inner}"
    if hasattr(model, "fit") and has_fit_parameter(model, "sample_weight"):
        return "sample_weight"
    nested = getattr(model, "estimator", None)  # a search hands it to its estimator
    if nested is not None and hasattr(model, "cv"):
        return weight_parameter(nested)
    nested = getattr(model, "regressor", None)  # so does TransformedTargetRegressor
    if nested is not None and hasattr(model, "transformer"):
        return weight_parameter(nested)
    return None


def fit_weighted(model, X, y, weight):
    """Fit `model`, with weights unless they are None or all zero."""
    # Zero weights everywhere say that nothing matters here: any fit will do.
    if weight is None or not weight.any():
        return model.fit(X, y)
    # With metadata routing a Pipeline takes no `step__sample_weight`, and asks each of
    # its steps whether it wants weights. Here the last step alone is meant.
    with config_context(enable_metadata_routing=False):
        return model.fit(X, y, **{weight_parameter(model): weight})

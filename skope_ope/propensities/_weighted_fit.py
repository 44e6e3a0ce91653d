# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Fit any scikit-learn model with row weights, where it can take them."""

import numpy as np
from sklearn import config_context
from sklearn.utils.validation import has_fit_parameter

from skope_ope.logs._encoding_notes import encoding_explained
from skope_ope.logs._row_container import take_rows
from skope_ope.propensities._encoded import fit_encoded


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
    if hasattr(model, "transformer"):  # so does TransformedTargetRegressor
        nested = getattr(model, "regressor", None)
        return None if nested is None else weight_parameter(nested)
    return None


def fit_weighted(model, X, y, weight):
    """Fit `model`, with weights unless they are None or all zero."""
    with encoding_explained(X):
        return fit_encoded(lambda one: _fit_weighted(one, X, y, weight), model, X)


def _fit_weighted(model, X, y, weight):
    # Zero weights everywhere say that nothing matters here: any fit will do.
    if weight is None or not weight.any():
        return model.fit(X, y)
    # With metadata routing a Pipeline takes no `step__sample_weight`, and asks each
    # of its steps whether it wants weights. Here the last step alone is meant.
    with config_context(enable_metadata_routing=False):
        return model.fit(X, y, **{weight_parameter(model): weight})


def fit_classifier(classifier, context, rows, y, weight):
    """Fit a classifier on some rows of the contexts, weighted.

    Parameters
    ----------
    classifier : classifier
        Is fitted, unless the labels are all the same: then a constant one is. One
        that takes no weights is fitted on rows drawn in their proportion.
    context : array, sparse matrix or frame of shape (n_rounds, n_features)
        Contexts.
    rows : ndarray of int of shape (n,)
        Rows of the contexts; a row may occur more than once.
    y, weight : ndarray of shape (n,)
        The label of each, and its positive weight.

    Returns
    -------
    classifier : classifier
        The fitted one.
    """
    if weight_parameter(classifier) is None:
        rng = np.random.RandomState(0)
        drawn = np.sort(rng.choice(len(rows), len(rows), p=weight / weight.sum()))
        rows, y, weight = rows[drawn], y[drawn], None
    if (y == y[0]).all():
        # One label leaves nothing to tell apart.
        from sklearn.dummy import DummyClassifier

        classifier = DummyClassifier(strategy="most_frequent")
    return check_classes(fit_weighted(classifier, take_rows(context, rows), y, weight))


def check_classes(classifier):
    """Return a fitted classifier; what learned no classes is none."""
    if not hasattr(classifier, "classes_"):
        raise TypeError(
            f"{type(classifier).__name__} is no classifier: fit gave it no classes_."
        )
    return classifier

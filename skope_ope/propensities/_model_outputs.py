# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What models of any package predict, in the shapes of scikit-learn."""

import numpy as np

from skope_ope.logs._encoding_notes import encoding_explained
from skope_ope.logs._row_container import own
from skope_ope.logs._validation import by_label, is_frame


def predictions_of(model, X):
    """Return one prediction for every row."""
    with encoding_explained(X):
        found = np.asarray(model.predict(own(X, model)))
    n = _n_rows(X, found)
    if found.shape == (n, 1):
        return found[:, 0]
    if found.shape != (n,):
        raise ValueError(
            f"{type(model).__name__} predicts an array of shape {found.shape} for {n} "
            f"rows. One number or label for every row is needed, of shape ({n},) or "
            f"({n}, 1)."
        )
    return found


def class_probabilities(classifier, X):
    """Return the probability of every class for every row."""
    with encoding_explained(X):
        found = classifier.predict_proba(own(X, classifier))
    if is_frame(found):
        who = f"the output of {type(classifier).__name__}.predict_proba"
        found = by_label(who, found, np.asarray(classifier.classes_))
    found = np.asarray(found)
    shape = _n_rows(X, found), len(classifier.classes_)
    if found.ndim == 3 and 1 in found.shape and found.size == shape[0] * shape[1]:
        found = found.reshape(shape)
    if found.shape != shape:
        raise ValueError(
            f"{type(classifier).__name__} gives probabilities of shape {found.shape} "
            f"for {shape[0]} rows and the {shape[1]} classes that it learned: its "
            "classes_ and its columns must agree."
        )
    return found


def _n_rows(X, found):
    """Return the rows of X; those that were found where it does not tell."""
    if hasattr(X, "shape"):
        return X.shape[0]
    return len(X if hasattr(X, "__len__") else found)

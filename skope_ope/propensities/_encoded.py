# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Models on frames whose columns they do not take: the one rule that encodes these.

A model is given a frame as it is: what a library makes of categories, say, is its own.
Where its fit raises, its error speaks of the input, and the frame has texts, dates,
categories or missing values, `make_pipeline(ContextEncoder(), model)` is fitted
instead, and a warning says so. So it is where the fit succeeds because a part of a log
lacks what is odd elsewhere in it, and the model fails to predict that: the models of
all folds and actions agree. A model with a transformer of the user's is left alone, and
so is every other error.
"""

import re

import numpy as np
from sklearn.base import clone

from skope_ope._parallel import told_before
from skope_ope._user_line import warn_user
from skope_ope.exceptions import OPEWarning
from skope_ope.logs import ContextEncoder
from skope_ope.logs._model_features import (
    encoding_explained,
    has_other_columns,
    oddities,
)
from skope_ope.logs._row_container import own
from skope_ope.logs._validation import by_label, is_frame

# What models raise of texts, dates, categories and gaps; libraries have own classes.
OF_INPUT = re.compile(
    r"convert|contains? (nan|infinity)|missing value|\bdtypes?\b|data ?type|promoted"
    r"|cannot cast|real number|float\(\) argument|categor|NAType|polars|pyarrow"
    r"|unsupported operand|invalid literal|boolean value of NA|element with a sequence"
    r"|multiply sequence",
    re.IGNORECASE,
)
NOT_OF_INPUT = MemoryError, AttributeError, NameError, ImportError, LookupError, Warning
LETTERS_SHOWN = 200  # letters of an error in a warning


def fit_encoded(fit, model, X, odd=None):
    """Fit a model, or one behind an encoder where it refuses the columns."""
    fitted = None
    try:
        fitted = fit(model)
    except Exception as error:  # each library has its own errors
        if not (_speaks_of_input(error) and has_other_columns(X) and is_bare(model)):
            raise
        refused = error
    else:
        refused = _refusal_of(fitted, odd, X) if is_bare(model) else None
        if refused is None:
            return fitted
    try:
        instead = fit(behind_encoder(model))
    except Exception as error:  # the columns were not the cause
        raise error from refused
    if fitted is not None and _error_of(instead, odd) is not None:
        return fitted
    _warn(model, refused)
    return instead


def _refusal_of(fitted, odd, X):
    """Return the error by which what was fitted to X refuses `odd`, or None."""
    # Tags do not tell it: models of several packages say too little or too much.
    if odd is None or not hasattr(fitted, "predict") or oddities(odd) <= oddities(X):
        return None
    error = _error_of(fitted, odd)
    return error if error is not None and _speaks_of_input(error) else None


def _error_of(model, X):
    """Return what a model raises where it predicts these rows, or None."""
    try:
        model.predict(own(X, model))
    except Warning:  # that a filter makes an error of: it says nothing of the columns
        return None
    except Exception as error:  # each library has its own errors
        return error


def _speaks_of_input(error):
    return not isinstance(error, NOT_OF_INPUT) and bool(OF_INPUT.search(str(error)))


def _warn(model, error):
    """Warn, once in a call, that a model was put behind an encoder."""
    name, why = type(model).__name__, " ".join(str(error).split())
    why = why if len(why) <= LETTERS_SHOWN else f"{why[:LETTERS_SHOWN]}..."
    text = (
        f"{name} was fitted behind a ContextEncoder, because it does not take the "
        f"columns of the context ({type(error).__name__}: {why}). To choose the "
        f"encoding, and to silence this, pass make_pipeline(ContextEncoder(), {name}"
        "(...))."
    )
    if not told_before(f"{name} was fitted behind"):
        warn_user([OPEWarning(text, name="encoded_model")])


def behind_encoder(model, sparse_output=None):
    """Return a new Pipeline of an encoder and a clone of the model."""
    from sklearn.pipeline import make_pipeline

    if sparse_output is None:
        sparse_output = "auto" if takes_sparse(model) else False
    encoder = ContextEncoder(sparse_output=sparse_output)
    # A global setting of outputs is for what the user sees.
    return make_pipeline(encoder.set_output(transform="default"), clone(model))


def default_classifier():
    """Return the classifier where none is given: it takes contexts of every kind."""
    from sklearn.linear_model import LogisticRegression

    # its tags do not say in all versions that it takes sparse matrices
    return behind_encoder(LogisticRegression(max_iter=1000), sparse_output="auto")


def begins_with_encoder(model):
    """Tell whether a model is a Pipeline that fills missing values by an encoder."""
    return hasattr(model, "steps") and isinstance(model.steps[0][1], ContextEncoder)


def is_bare(model):
    """Tell whether no transformer or sampler of the user's is in a model."""
    inner = model.get_params().values() if hasattr(model, "get_params") else ()
    return not hasattr(model, "steps") and not any(map(_transforms, inner))


def _transforms(one):
    if isinstance(one, type) or hasattr(one, "predict"):
        return hasattr(one, "steps")
    return hasattr(one, "transform") or hasattr(one, "fit_resample")


def takes_sparse(model):
    """Tell whether the tags of a model say that it takes sparse matrices."""
    tags = getattr(model, "__sklearn_tags__", None)
    return tags is not None and tags().input_tags.sparse


# -- what models of any package predict, in the shapes of scikit-learn -----------------


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

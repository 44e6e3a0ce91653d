# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Models on frames whose columns they do not take: the one rule that encodes these.

A model is given a frame as it is: what a library makes of categories, say, is its own.
Where its fit raises, and the frame has texts, dates, categories or missing values,
`make_pipeline(ContextEncoder(), model)` is fitted instead. So it is where the fit
succeeds because a part of a log lacks what is odd elsewhere in it, and the model fails
to predict that: the models of all folds and actions agree. A model that names columns
itself, with a `ColumnTransformer`, is left alone.
"""

from sklearn.base import clone

from skope_ope.logs import ContextEncoder
from skope_ope.logs._encoding_notes import has_other_columns
from skope_ope.logs._odd_rows import oddities
from skope_ope.logs._row_container import own


def fit_encoded(fit, model, X, odd=None):
    """Fit a model, or, where it refuses the columns of a frame, one behind an encoder.

    Parameters
    ----------
    fit : callable
        `fit(model)` fits the model and returns it.
    model : estimator
        Is fitted, or a clone of it behind an encoder.
    X : array, sparse matrix or frame of shape (n_rounds, n_features)
        What it is fitted to.
    odd : frame, default=None
        Rows with the columns of X that the model will have to predict, see `odd_part`.

    Returns
    -------
    fitted : estimator
        The model, or a Pipeline of an encoder and the model.
    """
    try:
        fitted = fit(model)
    except Exception as error:  # each library has its own errors
        refused = not isinstance(error, Warning) and has_other_columns(X)
        if not refused or names_columns(model):
            raise
        first = error
    else:
        return _fit_for(odd, fit, model, X, fitted)
    try:
        return fit(encoded(model))
    except Exception as error:  # the columns were not the cause
        raise error from first


def _fit_for(odd, fit, model, X, fitted):
    """Return what was fitted to X, or one behind an encoder that also predicts `odd`.

    Tags do not tell it: models of several packages say too little or too much.
    """
    if odd is None or not hasattr(fitted, "predict") or names_columns(model):
        return fitted
    if oddities(odd) <= oddities(X) or _predicts(fitted, odd):
        return fitted
    instead = fit(encoded(model))
    return instead if _predicts(instead, odd) else fitted


def _predicts(model, X):
    """Tell whether a model predicts these rows."""
    try:
        model.predict(own(X, model))
    except Warning:  # that a filter makes an error of: it says nothing of the columns
        return True
    except Exception:  # each library has its own errors
        return False
    return True


def encoded(model, sparse_output=None):
    """Return a new Pipeline of an encoder and a clone of the model.

    Parameters
    ----------
    model : estimator
        What is fitted behind it.
    sparse_output : bool or "auto", default=None
        That of the encoder. `None`: as the model allows.
    """
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
    return encoded(LogisticRegression(max_iter=1000), sparse_output="auto")


def begins_with_encoder(model):
    """Tell whether a model is a Pipeline that fills missing values by an encoder."""
    return hasattr(model, "steps") and isinstance(model.steps[0][1], ContextEncoder)


def names_columns(model):
    """Tell whether a model, or one inside it, treats columns by their names."""
    inner = model.get_params().values() if hasattr(model, "get_params") else ()
    return any(hasattr(one, "transformers") for one in (model, *inner))


def takes_sparse(model):
    """Tell whether the tags of a model say that it takes sparse matrices."""
    tags = getattr(model, "__sklearn_tags__", None)
    return tags is not None and tags().input_tags.sparse

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Fit any model that follows scikit-learn, with row weights and on odd columns.

A model is given a frame as it is: what a library makes of categories, say, is its own.
Where its fit raises, its error speaks of the input, and the frame has texts, dates,
categories or missing values, `make_pipeline(ContextEncoder(), model)` is fitted
instead, and a warning says so. So it is where the fit succeeds because a part of a log
lacks what is odd elsewhere in it, and the model fails to predict that: the models of
all folds and actions agree. A model with a transformer of the user's is left alone, and
so is every other error.
"""

import re
from contextlib import nullcontext
from functools import cache

import numpy as np
from sklearn import get_config
from sklearn.base import clone
from sklearn.utils.metadata_routing import get_routing_for_object
from sklearn.utils.validation import has_fit_parameter

from skope_ope._parallel import told_before
from skope_ope._sklearn import scorer_weighs, weight_request
from skope_ope.exceptions import OPEWarning, warn_user
from skope_ope.logs import ContextEncoder
from skope_ope.logs._context_encoder import (
    encoding_explained,
    has_other_columns,
    oddities,
)
from skope_ope.logs._row_container import own, take_rows
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


def behind_encoder_if_odd(model, context):
    """Return a model that takes the gaps and texts of all rows of a context."""
    return behind_encoder(model) if oddities(context) else model


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


# -- row weights: by a parameter of fit, by routing, or by drawn rows ------------------

# What models of other packages raise where they take no labels but 0, 1, ...
NO_SUCH_LABELS = TypeError, ValueError, IndexError, RuntimeError


def weight_parameter(model):
    """Name of the fit parameter that takes row weights without routing, or None."""
    if hasattr(model, "steps"):  # a Pipeline hands it to its last step
        name, last = model.steps[-1]
        inner = None if last == "passthrough" else weight_parameter(last)
        if inner is None or changes_rows(model):
            return None
        return f"{name}__{inner}"
    if hasattr(model, "fit") and has_fit_parameter(model, "sample_weight"):
        # those of several models hand it to each
        members = getattr(model, "estimators", None) or ()
        takes = (weight_parameter(member[-1]) for member in _pairs(members))
        return "sample_weight" if all(takes) else None
    nested = getattr(model, "estimator", None)  # a search hands it to its estimator
    if nested is not None and hasattr(model, "error_score"):
        return weight_parameter(nested)
    if hasattr(model, "transformer"):  # so does TransformedTargetRegressor
        nested = getattr(model, "regressor", None)
        return None if nested is None else weight_parameter(nested)
    return None


def _pairs(members):
    """Return the named models among the members of an ensemble, but for dropped."""
    pairs = (m for m in members if isinstance(m, tuple) and len(m) == 2)
    return [pair for pair in pairs if not isinstance(pair[1], str)]


def changes_rows(model):
    """Tell whether a sampler of imbalanced-learn adds rows to those of a fit."""
    if hasattr(model, "steps"):
        steps = [step for _, step in model.steps]
        return any(hasattr(s, "fit_resample") for s in steps) or changes_rows(steps[-1])
    nested = getattr(model, "estimator", None)
    return nested is not None and changes_rows(nested)


def is_routed():
    """Tell whether the user has switched metadata routing on."""
    return get_config()["enable_metadata_routing"]


def takes_weights(model):
    """Tell whether a fit of the model can be given row weights."""
    # With metadata routing it is asked for its requests: the weights are handed on
    # unless these refuse them.
    if changes_rows(model):
        return False
    if is_routed() and hasattr(model, "get_metadata_routing"):
        return routes_weights(model)
    return weight_parameter(model) is not None


def all_alike(weight):
    """Tell whether weights say nothing: there are none, or all are the same."""
    return weight is None or not len(weight) or bool((weight == weight[0]).all())


def drawn(weight):
    """Return as many rows as there are, drawn in proportion to their weights."""
    rng = np.random.RandomState(0)
    return np.sort(rng.choice(len(weight), len(weight), p=weight / weight.sum()))


def drawn_by_weight(model, X, y, weight):
    """Return rows of (X, y) that stand for the weights, where a model takes none."""
    if all_alike(weight) or takes_weights(model):
        return X, y, weight
    rows = drawn(weight)
    return take_rows(X, rows), y.take(rows), None


@cache  # to look for the libraries takes longer than many fits
def _threads():
    from threadpoolctl import ThreadpoolController  # comes with scikit-learn

    return ThreadpoolController()


def in_one_thread(is_small, user_api=None):
    """Keep small fits to one thread: to wake the others takes many times longer."""
    # Those of "blas", of "openmp", or of both.
    return _threads().limit(limits=1, user_api=user_api) if is_small else nullcontext()


def fit_weighted(model, X, y, weight, routed=None, odd=None):
    """Fit a model of our own, with weights unless they are None or all zero."""
    with encoding_explained(X):
        return fit_encoded(lambda one: _fit_weighted(one, X, y, weight), model, X, odd)


def _fit_weighted(model, X, y, weight):
    X, y, weight = (own(values, model) for values in (X, y, weight))
    # Zero weights everywhere say that nothing matters here: any fit will do.
    if weight is None or not weight.any():
        return model.fit(X, y)
    if not takes_weights(model):
        X, y, weight = drawn_by_weight(model, X, y, weight)
        return model.fit(X, y)
    if is_routed() and hasattr(model, "get_metadata_routing"):
        return with_requests(model).fit(X, y, sample_weight=weight)
    return model.fit(X, y, **{weight_parameter(model): weight})


def fit_labels(classifier, X, y, weight=None, odd=None):
    """Fit a classifier to labels, or to their codes where it takes nothing else."""
    # Most classifiers take any labels, which their parameters may name. XGBoost and
    # networks want 0, 1, ... without gaps.
    try:
        fitted = check_classes(fit_weighted(classifier, X, y, weight, odd=odd))
    except NO_SUCH_LABELS as error:
        found = _fit_codes(classifier, X, y, weight, odd)
        if found is None:
            raise error
        return found
    return fitted, np.asarray(fitted.classes_)


def _fit_codes(classifier, X, y, weight, odd):
    """Return what `fit_labels` does, from codes; None where these do not help."""
    if not hasattr(classifier, "fit"):
        return None
    try:
        labels, codes = np.unique(y, return_inverse=True)
        kind = labels.dtype.kind
        if kind == "f" and (labels != np.rint(labels)).any():  # no labels of classes
            return None
        if kind == "f" and not np.isfinite(labels).all():
            return None
        if kind not in "OSU" and np.array_equal(labels, np.arange(len(labels))):
            return None  # they were codes
        again = fit_weighted(clone(classifier), X, codes, weight, odd=odd)
        fitted = check_classes(again)
    except NO_SUCH_LABELS:  # the labels were not the cause: its error is told
        return None
    return fitted, labels[np.asarray(fitted.classes_).astype(np.intp)]


def fit_classifier(classifier, context, rows, y, weight, odd=None):
    """Fit a classifier on some rows of the contexts, weighted."""
    if not takes_weights(classifier):
        some = drawn(weight)
        rows, y, weight = rows[some], y[some], None
    if (y == y[0]).all():
        # One label leaves nothing to tell apart.
        from sklearn.dummy import DummyClassifier

        classifier = DummyClassifier(strategy="most_frequent")
    return fit_labels(classifier, take_rows(context, rows), y, weight, odd)


def check_classes(classifier):
    """Return a fitted classifier; what learned no classes is none."""
    if not hasattr(classifier, "classes_"):
        raise TypeError(
            f"{type(classifier).__name__} is not a classifier: it has no classes_ "
            "after fit. Pass a classifier."
        )
    return classifier


# -- row weights by scikit-learn's metadata routing, where the user has switched it on


def routes_weights(model):
    """Tell whether a model's requests let row weights reach a fit."""
    try:
        routing = get_routing_for_object(with_requests(clone(model)))
    except RuntimeError:  # not routed yet: it refuses weights, too, while routing is on
        return False
    return bool(routing.consumes("fit", ["sample_weight"]))


def with_requests(model):
    """Set the requests for row weights that the user has left open."""
    # What predicts asks for them in `fit`, as without routing: the last step of a
    # Pipeline, the estimator of a search, the members of an ensemble. What transforms
    # does not. Scores ask for them where they can. Requests that are set stay.
    for part, predicts in _models_in(model, True):
        if weight_request(part, "fit") == "open":
            part.set_fit_request(sample_weight=predicts)
        if weight_request(part, "score") == "open":
            part.set_score_request(sample_weight=True)
        scoring = getattr(part, "scoring", None)
        if scoring is not None and hasattr(part, "cv"):
            part.set_params(scoring=_with_request(scoring))
    return model


def _with_request(scoring):
    """Return scorers in place of their names, which ask for weights if they can."""
    if isinstance(scoring, str):
        from sklearn.metrics import get_scorer, get_scorer_names

        if scoring not in get_scorer_names():  # a word of the model's own
            return scoring
        scoring = get_scorer(scoring)
    if isinstance(scoring, dict):
        return {name: _with_request(one) for name, one in scoring.items()}
    if isinstance(scoring, (list, tuple, set)):
        return {name: _with_request(name) for name in scoring}
    if hasattr(scoring, "set_score_request") and weight_request(scoring, "score") in (
        None,
        "open",
    ):
        scoring.set_score_request(sample_weight=scorer_weighs(scoring))
    return scoring


def _models_in(model, predicts):
    """Yield a model and those inside of it, and whether it predicts the target."""
    if type(model).__name__ == "FrozenEstimator":  # the user's own: it is not copied
        return
    yield model, predicts
    if hasattr(model, "steps"):
        for number, (_, step) in enumerate(model.steps, 1):
            yield from _models_in(step, predicts and number == len(model.steps))
        return
    if not hasattr(model, "get_params") or isinstance(model, type):
        return
    for name, value in model.get_params(deep=False).items():
        several = value if isinstance(value, (list, tuple)) else [value]
        for one in several:
            inner = one[1] if isinstance(one, tuple) and len(one) > 1 else one
            if hasattr(inner, "get_params"):
                yield from _models_in(
                    inner, predicts and not name.startswith("transform")
                )

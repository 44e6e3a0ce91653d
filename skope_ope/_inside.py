# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What is inside of searches and Pipelines of scikit-learn."""

from copy import copy

from sklearn.utils.validation import check_is_fitted


def inside(estimator):
    """Return the last step of a Pipeline or what a search tries, fitted or not."""
    while True:
        if hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif is_search(estimator):
            estimator = estimator.estimator
        elif hasattr(estimator, "steps"):
            estimator = estimator.steps[-1][1]
        else:
            return estimator


def is_search(estimator):
    """Tell whether something fits clones of an estimator, as searches do."""
    return hasattr(estimator, "fit") and hasattr(estimator, "estimator")


def fitted_part(estimator):
    """Return the last step of a Pipeline or of a search's best one, and its steps."""
    pipeline = None
    while True:
        if hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif hasattr(estimator, "steps"):
            inner, estimator = estimator, estimator.steps[-1][1]
            if pipeline is None:
                pipeline = inner
            else:  # a Pipeline at the end of another: all steps in turn
                pipeline = copy(pipeline)
                pipeline.steps = [*pipeline.steps[:-1], *inner.steps]
        else:
            return estimator, pipeline


def fitted_evaluator(evaluator, logs=None):
    """Get the evaluator inside of what was fitted, and the rounds as it takes them."""
    check_is_fitted(evaluator)
    last, pipeline = fitted_part(evaluator)
    if is_search(last):
        raise TypeError(no_best(last))
    if logs is not None and pipeline is not None and len(pipeline.steps) > 1:
        logs = pipeline[:-1].transform(logs)
    return last, logs


def no_best(search):
    """Return why a search that was fitted cannot stand for what it tried."""
    return (
        f"this {type(search).__name__} has no best_estimator_: with refit=False there "
        "is nothing to score."
    )

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Evaluators inside of searches and Pipelines, rounds that these make; seeds."""

from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skope_ope._sklearn import is_search, no_best
from skope_ope.logs.lazy._lazy_logs import REMEDY, LazyLogs


def with_seed(estimator, rng):
    """Set the random_state parameters that are None, in the order of their names."""
    seeds = {
        name: rng.randint(2**31 - 1)
        for name, value in sorted(estimator.get_params(deep=True).items())
        if name.split("__")[-1] == "random_state" and value is None
    }
    return estimator.set_params(**seeds) if seeds else estimator


def bare(evaluator, logs, tune=False):
    """Return the evaluator inside of a search or Pipeline, and the rounds it is for."""
    # A fitted search stands for its best evaluator. The steps of a Pipeline are applied
    # to the rounds: as they were fitted, or else fitted to these rounds. The evaluator
    # itself is to be cloned and fitted to the rounds that are returned.
    while not isinstance(evaluator, (type, str)):
        if hasattr(evaluator, "best_estimator_"):
            evaluator = evaluator.best_estimator_
        elif is_search(evaluator):
            evaluator = _tuned(evaluator, logs, tune)
        elif hasattr(evaluator, "steps"):
            logs = _stepped(evaluator, logs)
            evaluator = evaluator.steps[-1][1]
        else:
            break
    return evaluator, logs


def name_of(evaluator):
    """Return how the row of an evaluator is called: Pipelines name their steps."""
    name, steps = "", []
    while True:
        if hasattr(evaluator, "best_estimator_"):
            evaluator = evaluator.best_estimator_
        elif hasattr(evaluator, "steps"):
            steps += _active(evaluator)
            evaluator = evaluator.steps[-1][1]
        else:
            break
    name = type(evaluator).__name__
    if steps:
        name += " after " + ", ".join(type(step).__name__ for step in steps)
    return name


def _tuned(search, logs, tune):
    """Return a search that was fitted to the rounds."""
    name = type(search).__name__
    if not tune:
        try:
            check_is_fitted(search)
        except NotFittedError as error:
            raise NotFittedError(
                f"this {name} is not fitted yet. Fit it first, "
                "search.fit(logs), on other rounds than those it is to evaluate on."
            ) from error
        raise TypeError(no_best(search))
    fitted = with_seed(clone(search), check_random_state(0)).fit(logs)
    if not hasattr(fitted, "best_estimator_"):
        raise TypeError(no_best(search))
    return fitted


def _stepped(pipeline, logs):
    """Return the rounds as the steps before the last one make them."""
    steps = _active(pipeline)
    if not steps:
        return logs
    if isinstance(logs, LazyLogs):
        raise TypeError(
            f"the steps of a Pipeline, {type(steps[0]).__name__} first, take rounds in "
            f"memory, got LazyLogs: {REMEDY}."
        )
    before = pipeline[:-1]
    if all(map(_is_fitted, steps)):
        return before.transform(logs)
    return clone(before).fit_transform(logs)


def _active(pipeline):
    """Return the steps before the last one that do something."""
    steps = [step for _, step in pipeline.steps[:-1]]
    return [step for step in steps if step is not None and step != "passthrough"]


def _is_fitted(step):
    try:
        check_is_fitted(step)
    except NotFittedError:
        return False
    return True

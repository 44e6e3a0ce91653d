# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The evaluators that a call names, or those of the first table."""

from collections.abc import Mapping

from sklearn.base import clone
from sklearn.utils import check_random_state

from skope_ope.evaluators._defaults import default_evaluators
from skope_ope.evaluators._names import evaluator_named
from skope_ope.evaluators.core._base import BaseEvaluator
from skope_ope.evaluators.core._seeds import with_seed
from skope_ope.evaluators.core._wrapped import bare, name_of


def named_evaluators(evaluators, logs, n_loggers=None, lazy=None):
    """Return the evaluators by name, what those lack that are left out, and rounds."""
    # Searches stand for their best evaluators, Pipelines for their last steps.
    if evaluators is None:
        return *default_evaluators(logs, n_loggers), {}
    if isinstance(evaluators, str) or hasattr(evaluators, "fit"):
        evaluators = [evaluators]
    if not isinstance(evaluators, Mapping):
        named = {}
        for evaluator in evaluators:
            name = evaluator if isinstance(evaluator, str) else name_of(evaluator)
            if name in named:
                raise ValueError(
                    f"two evaluators are called {name!r}; name them in a dict."
                )
            named[name] = evaluator
        evaluators = named
    if not evaluators:
        raise ValueError("evaluators is empty; name at least one.")
    found, made = {}, {}
    for name, evaluator in evaluators.items():
        given = logs if lazy is None else lazy
        evaluator, own = bare(evaluator, given)
        if own is not given:
            made[name] = own
        found[name] = _one_evaluator(evaluator, made.get(name, logs))
    return found, {}, made


def _one_evaluator(evaluator, logs):
    if isinstance(evaluator, str):
        evaluator = evaluator_named(evaluator, type(logs))
    if isinstance(evaluator, type):
        raise TypeError(
            f"evaluators must be names or instances, got the class "
            f"{evaluator.__name__}; make an instance."
        )
    if not isinstance(evaluator, BaseEvaluator):
        raise TypeError(
            f"evaluators must be names or evaluators, got {type(evaluator).__name__}."
        )
    evaluator._validate_params()
    evaluator._check_kind(logs)
    evaluator.check_logs(logs)
    return evaluator


def seeded(evaluators, reward_model, random_state, cv=None):
    """Return both with the seeds that they lack; a fitted model stays as it is."""
    rng = check_random_state(random_state)
    evaluators = {name: with_seed(clone(e), rng) for name, e in evaluators.items()}
    if hasattr(reward_model, "get_params") and not isinstance(cv, str):
        reward_model = with_seed(clone(reward_model), rng)
    return evaluators, reward_model

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The evaluators that a call names, or those of the first table."""

from collections.abc import Mapping

from sklearn.base import clone
from sklearn.utils import check_random_state

from skope_ope.evaluators._defaults import default_evaluators
from skope_ope.evaluators._names import evaluator_named
from skope_ope.evaluators.core._base import BaseEvaluator, pipeline_remedy
from skope_ope.evaluators.core._seeds import with_seed


def named_evaluators(evaluators, logs, n_loggers=None):
    """Return the evaluators by name, and what those lack that are left out.

    Parameters
    ----------
    evaluators : list of names or evaluators, or dict, or None
        What was asked for; `None`: the rows of the first table.
    logs : BanditLogs or SlateLogs
        The rounds, or some of them.
    n_loggers : int, default=None
        Loggers that acted; `None`: those in `logs`.

    Returns
    -------
    evaluators, left_out : dict
    """
    if evaluators is None:
        return default_evaluators(logs, n_loggers)
    if isinstance(evaluators, (str, BaseEvaluator)):
        evaluators = [evaluators]
    if not isinstance(evaluators, Mapping):
        named = {}
        for evaluator in evaluators:
            name = evaluator if isinstance(evaluator, str) else type(evaluator).__name__
            if name in named:
                raise ValueError(
                    f"two evaluators are called {name!r}; name them in a dict."
                )
            named[name] = evaluator
        evaluators = named
    if not evaluators:
        raise ValueError("evaluators is empty; name at least one.")
    return {name: _one_evaluator(value, logs) for name, value in evaluators.items()}, {}


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
            f"{pipeline_remedy(evaluator)}"
        )
    evaluator._validate_params()
    evaluator._check_kind(logs)
    evaluator._check_logs(logs)
    return evaluator


def seeded(evaluators, reward_model, random_state):
    """Return both with the seeds that they lack."""
    rng = check_random_state(random_state)
    evaluators = {name: with_seed(clone(e), rng) for name, e in evaluators.items()}
    if hasattr(reward_model, "get_params") and not isinstance(reward_model, type):
        reward_model = with_seed(clone(reward_model), rng)
    return evaluators, reward_model

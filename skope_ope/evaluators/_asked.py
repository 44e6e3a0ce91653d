# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The question of a call: evaluators that it names, or the rows of the first table."""

from collections.abc import Mapping

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from skope_ope.evaluators._names import evaluator_named
from skope_ope.evaluators._rules import default_evaluators
from skope_ope.evaluators.base._evaluator import BaseEvaluator
from skope_ope.evaluators.base._question import policies_by_name, question_about
from skope_ope.evaluators.core._wrapped import bare, name_of, with_seed
from skope_ope.logs._labels import kind_of_labels

# What the rows need that are left out of the first table.
COLUMN_MODEL = (
    "predictions that are columns (columns={'q': [one per action]}, reward_model='q')"
)
ALL_ACTIONS = (
    "the policy's probabilities of all actions (an array of shape (n_rounds, "
    "n_actions), or columns={'pi': [...]})"
)
ALL_PRODUCTS = "the means of products of its terms, which sums do not keep"


def asked(
    call,
    policies,
    logs,
    evaluators=None,
    reward_model=None,
    cv=None,
    *,
    n_jobs=None,
    sums=False,
    **how,
):
    """Return the `Question` of a call; `sums`: of sums that will be added to others."""
    policies = policies_by_name(call, policies, logs, reward_model, cv, n_jobs)
    how |= {"reward_model": reward_model, "cv": cv, "n_jobs": n_jobs}
    question = question_about(policies, logs, **how)
    return with_evaluators(question, evaluators, sums or question.lazy)


def with_evaluators(question, evaluators, sums):
    """Return a question with its evaluators: those of a call, or the first table."""
    if evaluators is None:
        found, left_out = default_rows(question, sums)
        own_rounds = {}
    else:
        found, own_rounds = _given(question, evaluators)
        left_out = {}
    if own_rounds and sums:
        if len(found) > 1:
            raise ValueError(
                f"{next(iter(own_rounds))!r} is a Pipeline. Its steps change the "
                "rounds, and a summary needs the same rounds for all evaluators. "
                "Summarize it alone: evaluators=[pipeline]."
            )
        [rounds] = own_rounds.values()
        own_rounds = {"logs": rounds, "head": rounds, "whole": rounds}
        return _seeded(question, found, left_out=left_out, **own_rounds)
    return _seeded(question, found, left_out=left_out, own_rounds=own_rounds)


def _seeded(question, evaluators, **given):
    """Return a question of evaluators that have the seeds that they lack."""
    if question.random_state is not None:
        rng, model = check_random_state(question.random_state), question.reward_model
        evaluators = {name: with_seed(clone(e), rng) for name, e in evaluators.items()}
        # a fitted model stays as it is
        if hasattr(model, "get_params") and not isinstance(question.cv, str):
            given["reward_model"] = with_seed(clone(model), rng)
    return question.of(evaluators, **given)


# -- evaluators that are named ---------------------------------------------------------
def _given(question, evaluators):
    """Return evaluators by name, and the rounds that steps of Pipelines make."""
    # Searches stand for their best evaluators, Pipelines for their last steps.
    if isinstance(evaluators, str) or hasattr(evaluators, "fit"):
        evaluators = [evaluators]
    if not isinstance(evaluators, Mapping):
        several = {}
        for evaluator in evaluators:
            name = evaluator if isinstance(evaluator, str) else name_of(evaluator)
            if name in several:
                raise ValueError(
                    f"two evaluators are called {name!r}; name them in a dict."
                )
            several[name] = evaluator
        evaluators = several
    if not evaluators:
        raise ValueError("evaluators is empty; name at least one.")
    found, own_rounds, given = {}, {}, question.logs
    for name, evaluator in evaluators.items():
        evaluator, rounds = bare(evaluator, given)
        if rounds is not given:
            own_rounds[name] = rounds
        found[name] = _one_evaluator(evaluator, own_rounds.get(name, question.head))
    return found, own_rounds


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


# -- rows of the first table -----------------------------------------------------------
def default_rows(question, sums):
    """Return the evaluators of the first table by name, and what the others need."""
    rows, left_out = default_evaluators(question.head, question.n_loggers)
    doubtful = []
    if question.reward_model is None:  # another one is asked for
        policies, head = question.policies.values(), question.head
        if any(is_of_logged_actions(policy, head) for policy in policies):
            doubtful.append((uses_model, ALL_ACTIONS))
        if question.of_frame:
            doubtful.append((uses_model, COLUMN_MODEL))
    if sums:
        doubtful.append((has_many_terms, ALL_PRODUCTS))
    for lacks, need in doubtful:
        lost = [name for name, one in rows.items() if lacks(one)]
        if len(lost) < len(rows):  # otherwise the first of them says what is wrong
            rows = {name: one for name, one in rows.items() if name not in lost}
            left_out = left_out | dict.fromkeys(lost, need)
    return rows, left_out


def uses_model(evaluator):
    """Whether an evaluator predicts rewards."""
    return evaluator.requires.model


def has_many_terms(evaluator):
    """Whether sums do not keep the products of an evaluator's terms."""
    return getattr(evaluator, "control_variates", None) == "multiple"


def is_of_logged_actions(policy, logs):
    """Whether a policy is an array, or column, for the logged actions alone."""
    is_name = isinstance(policy, str)
    table = logs.columns.get(policy) if is_name else policy
    is_array = isinstance(table, (list, tuple)) or hasattr(table, "__array__")
    if not is_array or np.ndim(table) != 1:
        return False
    if is_name:
        return True
    table = np.asarray(table)  # labels of actions tell the whole policy
    kind, labels = table.dtype.kind, getattr(logs, "actions", table[:0])
    if kind in "fb" and kind == labels.dtype.kind and np.isin(table, labels).all():
        return False
    return kind in "fb" or (kind == "O" and kind_of_labels(table) == "numbers")

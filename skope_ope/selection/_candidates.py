# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Candidates of a search: estimators, Pipelines, searches, logs."""

import numpy as np
from scipy import sparse

from skope_ope._inside import inside, no_best
from skope_ope._sklearn import safe_indexing
from skope_ope.evaluators.base._evaluator import BaseEvaluator
from skope_ope.evaluators.core._warnings import learned_warnings
from skope_ope.exceptions import LowOverlapWarning
from skope_ope.logs import BanditLogs
from skope_ope.logs._row_container import RowContainer
from skope_ope.policies._action_probabilities import refuse_non_policies, unwrap
from skope_ope.policies._adaptive import AdaptivePolicy
from skope_ope.policies._base import BasePolicy
from skope_ope.policies.slate._slate_policy import is_slate_policy


def check_policy_of_search(policy, user):
    """Refuse what is no policy, or none for rows other than those it was made for."""
    if isinstance(policy, str):
        return
    is_array = isinstance(policy, (np.ndarray, list, tuple)) or sparse.issparse(policy)
    if is_array or (hasattr(policy, "__array__") and not is_logs(policy)):
        raise TypeError(
            f"{user} got an array for the policy. An array belongs to its own rows, "
            "and the folds of a search have other rows. Add it as a column: "
            "logs.with_columns(pi=...), and pass the name, 'pi'."
        )
    inner = unwrap(policy)
    if isinstance(inner, BaseEvaluator):
        raise TypeError(
            f"{user} expects a policy, got the evaluator {type(inner).__name__}. Give "
            "the evaluator to the search. To search over policies, pass "
            "scoring=PolicyScorer(evaluator)."
        )
    if not is_slate_policy(inner):  # those have no predict_proba
        refuse_non_policies(policy)


def refuse_array_models(evaluator, user):
    """Refuse an evaluator whose model is an array, which other rows cannot use."""
    model = getattr(inside(evaluator), "reward_model", None)
    if isinstance(model, (np.ndarray, list, tuple)) or sparse.issparse(model):
        raise TypeError(
            f"{user} got an evaluator whose reward_model is an array. An array "
            "belongs to its own rows, and the folds of a search have other rows. "
            "Pass a model, which is fitted in every fold. If the predictions come "
            "from other rounds, add them as a column: logs.with_columns(q_hat=...), "
            "reward_model='q_hat'."
        )


def refuse_others(candidate):
    """Refuse to score anything but an evaluator by the error of an evaluator."""
    if isinstance(candidate, BaseEvaluator):
        return
    name = type(candidate).__name__
    if isinstance(candidate, BasePolicy) or hasattr(candidate, "predict_proba"):
        raise TypeError(
            f"EvaluatorScorer scores evaluators, got the policy {name}. In a search "
            "over policies pass scoring=PolicyScorer(evaluator)."
        )
    if hasattr(candidate, "param_grid") or hasattr(candidate, "param_distributions"):
        raise TypeError(no_best(candidate))
    raise TypeError(f"EvaluatorScorer scores evaluators, got {name}.")


def is_logs(value):
    """Tell whether something is logs of any kind."""
    return isinstance(value, RowContainer)


def is_adaptive(policy):
    """Tell whether a policy learns while it is evaluated."""
    return isinstance(unwrap(policy), AdaptivePolicy)


def unfit_warnings(result, policy, logs):
    """Return warnings where held-out rounds cannot tell the value of the policy."""
    # It has learned from some of them, or their rewards say nothing about it.
    found = list(learned_warnings(policy, logs))
    for warning in result.warnings:
        if isinstance(warning, LowOverlapWarning) and warning.value == 0:
            text = (
                f"on {len(logs)} held-out rounds {result.estimator} gave "
                f"{result.value:.4g} without any evidence: {warning} Hold out more "
                "rounds."
            )
            found.append(LowOverlapWarning(text, 0.0))
    return found


def nan_reasons(result):
    """Return the warnings of a value that is NaN, first those that say why it is."""
    return sorted(result.warnings, key=lambda warning: "NaN" not in str(warning))


def rows_in_stored_order(model, logs):
    """Order the rows of an array of model values like those of `in_stored_order`."""
    if model is None or hasattr(model, "fit") or np.ndim(model) != 2:
        return model
    return safe_indexing(model, np.argsort(logs.row_id.position, kind="stable"))


def with_propensities(logs, pipeline):
    """Apply the steps before the last one, where propensities are missing."""
    known = not isinstance(logs, BanditLogs) or logs.propensity is not None
    if known or pipeline is None or len(pipeline.steps) == 1:
        return logs
    return pipeline[:-1].transform(logs)

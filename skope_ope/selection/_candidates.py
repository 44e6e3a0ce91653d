# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Candidates of a search, and what they share: fitted models, probabilities.

A parameter that is used after the reward model (a bound on the weights, say) changes
nothing about its fit. Evaluators name such parameters in their tags; every other
parameter, known or not, belongs to what tells models apart.
"""

from collections import Counter
from copy import copy
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, clone

from skope_ope._sklearn import fitted_part, inside, no_best, safe_indexing
from skope_ope.evaluators.base._evaluator import BaseEvaluator
from skope_ope.evaluators.core._warnings import learned_warnings
from skope_ope.exceptions import LowOverlapWarning
from skope_ope.logs import BanditLogs
from skope_ope.logs._row_container import RowContainer
from skope_ope.policies import action_probabilities
from skope_ope.policies._action_probabilities import refuse_non_policies, unwrap
from skope_ope.policies._adaptive import AdaptivePolicy
from skope_ope.policies._base import BasePolicy
from skope_ope.policies.slate._slate_policy import is_slate_policy
from skope_ope.reward_models._cross_fit import LARGEST_TABLE


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


@dataclass(frozen=True)
class Candidate:
    """One setting of the parameters of a search."""

    number: int  # its place in the results
    params: dict  # the parameters
    key: int  # the same for candidates with the same model
    # Whether it needs its rounds in the order in which they happened
    order_dependent: bool


def with_keys(estimator, params):
    """Return the candidates of a search, with what tells their models apart."""
    keys, candidates = {}, []
    for number, one in enumerate(params):
        model, ordered = _model_of(with_params(estimator, one), one)
        key = keys.setdefault(number if model is None else model, len(keys))
        candidates.append(Candidate(number, one, key, ordered))
    return candidates


def with_params(estimator, params):
    """Return a clone with other parameters."""
    return clone(estimator).set_params(**clone(params, safe=False))


def _model_of(estimator, params):
    """Get what tells the model of a candidate, and whether it needs rows in order."""
    # What is no evaluator, and shares nothing, has None.
    prefix, last, told = "", estimator, dict(params)
    if hasattr(estimator, "steps"):
        name, last = estimator.steps[-1]
        prefix = f"{name}__"
    if not isinstance(last, BaseEvaluator):
        return None, False
    tags = last.__sklearn_tags__()
    after, fit = tags.parameters_after_model, type(last)
    if prefix and told.pop(name, None) is not None:  # the evaluator is a parameter
        own = params[name].get_params(deep=False)
        told = {**{prefix + k: v for k, v in own.items()}, **told}
    if not tags.needs_reward_model:  # there is no fit that they could change
        after = last.get_params(deep=False)
    elif after is not None:  # evaluators of other classes may fit their model alike
        fit = (type(last).fit, type(last).fit_reward_model)
    after = {prefix + name for name in after or ()}
    known = sorted((k, _known_by(v)) for k, v in told.items() if k not in after)
    return (fit, *known), tags.order_dependent


def _known_by(value):
    """Return what tells a value: that of a number, what `clone` keeps of a model."""
    if value is None or isinstance(value, (str, int, float)):
        return type(value), value
    kind = type(value)
    if getattr(kind, "__sklearn_clone__", None) is BaseEstimator.__sklearn_clone__:
        params = value.get_params(deep=False)
        return kind, tuple(sorted((k, _known_by(v)) for k, v in params.items()))
    return _Itself(value)


class _Itself:
    """An object that is equal to itself alone, whatever it compares."""

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return isinstance(other, _Itself) and self.value is other.value

    def __hash__(self):
        return id(self.value)


def fits_by_model(estimator, logs, candidates):
    """Return `SharedFits` of the candidates, by their keys."""
    sizes = Counter(one.key for one in candidates)
    return {
        key: SharedFits(estimator, logs, several=size > 1)
        for key, size in sizes.items()
    }


class SharedFits:
    """Fits of candidates that have the same model, on the same rounds."""

    # The first fit is that of a candidate as it is. Others take over the steps in front
    # of the evaluator, the logs that these made, and the fitted reward model.

    def __init__(self, estimator, logs, several):
        self.estimator, self.logs, self.several = estimator, logs, several
        self._first = self._source = None

    def fit(self, params):
        """Return a fitted candidate."""
        one = with_params(self.estimator, params)
        if not self.several:
            return one.fit(self.logs)
        if self._first is None:
            one.fit(self.logs)
            self._first = one
            self._source = shared_source(fitted_part(one)[0])
            if self._source is None:
                return one
            one = clone(one)
        return self._like_first(one, self._source)

    def final(self, params, fitted):
        """Return a fitted candidate as it would be had it been fitted alone."""
        if self._source is None:
            return fitted
        source = fitted_part(self._first)[0].reward_model_
        return self._like_first(with_params(self.estimator, params), source)

    def _like_first(self, one, source):
        first, pipeline = fitted_part(self._first)
        last = one if pipeline is None else one.steps[-1][1]
        given = {} if source is None else {"reward_model": source}
        last.fit(first.logs_, **given)
        if pipeline is None:
            return last
        out = copy(pipeline)
        out.steps = [*pipeline.steps[:-1], (one.steps[-1][0], last)]
        return out


def shared_source(evaluator):
    """Return the fitted reward model for other evaluators of its rounds, or None."""
    tags = evaluator.__sklearn_tags__()
    source = getattr(evaluator, "reward_model_", None)
    if tags.parameters_after_model is None or not hasattr(source, "shared"):
        return None
    return source.shared(evaluator.logs_)


class SharedPolicy:
    """A policy, and its probabilities for rounds that several evaluators ask for."""

    def __init__(self, policy, logs=None):
        known = isinstance(logs, BanditLogs)
        has_room = known and 8 * len(logs) * logs.n_actions <= LARGEST_TABLE
        fixed = not isinstance(policy, str) and not is_adaptive(policy)
        self.policy = policy
        self.logs = logs if fixed and has_room else None
        self._table = None

    def on(self, logs):
        """Return the probabilities for the shared rounds, the policy for others."""
        if logs is not self.logs:
            return self.policy
        if self._table is None:
            self._table = action_probabilities(self.policy, logs)
        return self._table

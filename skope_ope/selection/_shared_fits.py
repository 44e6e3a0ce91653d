# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What candidates of a search share while it lasts: fitted models, probabilities.

A parameter that is used after the reward model (a bound on the weights, say) changes
nothing about its fit. Evaluators name such parameters in their tags; every other
parameter, known or not, belongs to what tells models apart.
"""

from collections import Counter
from copy import copy
from dataclasses import dataclass

from sklearn.base import BaseEstimator, clone

from skope_ope._inside import fitted_part
from skope_ope.evaluators.base._evaluator import BaseEvaluator
from skope_ope.logs import BanditLogs
from skope_ope.policies import action_probabilities
from skope_ope.reward_models._cross_fit import LARGEST_TABLE
from skope_ope.selection._candidates import is_adaptive


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
        fixed = not isinstance(policy, str) and not is_adaptive(policy)
        self.policy = policy
        self.logs = logs if fixed and _has_room(logs) else None
        self._table = None

    def on(self, logs):
        """Return the probabilities for the shared rounds, the policy for others."""
        if logs is not self.logs:
            return self.policy
        if self._table is None:
            self._table = action_probabilities(self.policy, logs)
        return self._table


def _has_room(logs):
    known = isinstance(logs, BanditLogs)
    return known and 8 * len(logs) * logs.n_actions <= LARGEST_TABLE

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The one-call start: several policies and evaluators in one pass."""

import warnings
from collections.abc import Iterator, Mapping

from sklearn.base import clone
from sklearn.utils import check_random_state

from skope_ope.evaluators._base import BaseEvaluator
from skope_ope.evaluators._moments import Moments
from skope_ope.evaluators._seeds import with_seed
from skope_ope.evaluators._target import Target
from skope_ope.evaluators._value_table import ValueTable
from skope_ope.evaluators.sequential import DRns, RejectionSampling, Replay
from skope_ope.evaluators.static import (
    IPS,
    MRDR,
    SNDR,
    SNIPS,
    DirectMethod,
    DoublyRobust,
    DRos,
    LogSmoothing,
    StaticEvaluator,
    SubGaussianDR,
    SubGaussianIPS,
    SwitchDR,
)
from skope_ope.evaluators.static._base import combined_weights
from skope_ope.evaluators.static._engine import Job, run
from skope_ope.logs import BanditLogs
from skope_ope.policies._adaptive import AdaptivePolicy
from skope_ope.reward_models._sources import reward_source

BY_NAME = {
    cls.__name__: cls
    for cls in (
        IPS,
        SNIPS,
        DirectMethod,
        DoublyRobust,
        SwitchDR,
        DRos,
        SNDR,
        MRDR,
        SubGaussianIPS,
        SubGaussianDR,
        LogSmoothing,
    )
}
# Those that depend on the order of the rounds, or ask more of a log than others.
SEQUENTIAL = {cls.__name__: cls for cls in (Replay, RejectionSampling, DRns)}
DEFAULT_NAMES = ("IPS", "SNIPS", "DirectMethod", "DoublyRobust", "SwitchDR", "DRos")
DEFAULTS = {name: BY_NAME[name]() for name in DEFAULT_NAMES}


def evaluate(
    policies, logs, *, evaluators=None, reward_model=None, cv=5, random_state=None
):
    """Estimate the values of policies by several evaluators, in one pass.

    Probabilities of the policies and cross-fitted predictions of the reward model
    are computed once and shared by all evaluators. Read more in the
    :ref:`User Guide <evaluators>`.

    Parameters
    ----------
    policies : policy, array, str, or dict of them
        What to evaluate; a dict names several policies. Policies that learn need
        `evaluators` that take them: DRns, RejectionSampling, Replay, DirectMethod.
    logs : BanditLogs
        The logged rounds; not those on which the policies were learned.
    evaluators : list of names or evaluators, or dict, default=None
        `None`: IPS, SNIPS, DirectMethod, DoublyRobust, SwitchDR and DRos, those
        that need propensities only where the logs have them.
    reward_model : model, number, array or str, default=None
        Shared by the evaluators whose own is None. `None`: the out-of-fold mean
        reward per action.
    cv : int, splitter, iterable or "prefit", default=5
        How rounds are held out of the fits of the shared reward model.
    random_state : int, RandomState instance or None, default=None
        Seeds the `random_state` parameters of the evaluators and of the shared
        reward model that are None.

    Returns
    -------
    table : ValueTable
        `PolicyValue` by name of the evaluator; by (policy, evaluator) for a dict.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from skope_ope import evaluate
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs, policy, truth = make_bandit_logs(random_state=0, return_truth=True)
    >>> table = evaluate(policy, logs, evaluators=["IPS", "DoublyRobust"],
    ...                  reward_model=Ridge())
    >>> bool(table["DoublyRobust"].standard_error < table["IPS"].standard_error)
    True
    """
    if not isinstance(logs, BanditLogs):
        raise TypeError(
            f"logs must be BanditLogs, got {type(logs).__name__}. The call is "
            "evaluate(policies, logs)."
        )
    if not len(logs):
        raise ValueError("the logs are empty: an estimate needs a round.")
    if isinstance(policies, Mapping) and not policies:
        raise ValueError("policies is empty; name at least one.")
    if isinstance(policies, (list, tuple)) and any(
        hasattr(policy, "predict_proba") for policy in policies
    ):
        raise TypeError(
            "several policies go into a dict by name: evaluate({'a': ..., 'b': ...}, "
            "logs), got a list."
        )
    if isinstance(cv, Iterator):  # used by more than one fit
        cv = list(cv)
    evaluators = _named_evaluators(evaluators, logs)
    if random_state is not None:
        evaluators, reward_model = _seeded(evaluators, reward_model, random_state)
    single = not isinstance(policies, Mapping)
    targets = {
        name: Target(policy, logs)
        for name, policy in ({None: policies} if single else policies).items()
    }
    shared = _shared_sources(evaluators, logs, reward_model, cv)
    weight = combined_weights(logs, None)
    jobs, others = {}, {}
    for policy, target in targets.items():
        learns = isinstance(target.policy, AdaptivePolicy)
        for name, evaluator in evaluators.items():
            key = name if single else (policy, name)
            walks = learns and isinstance(evaluator, DirectMethod)
            if walks or not isinstance(evaluator, StaticEvaluator):
                if name not in others:  # one fit: policies share random numbers
                    others[name] = _fitted(evaluator, logs, reward_model, cv)
                continue
            evaluator._check_target(target)
            if isinstance(evaluator, MRDR):
                evaluator = clone(evaluator)
                if evaluator.reward_model is None:  # the folds come with the model
                    evaluator.reward_model, evaluator.cv = reward_model, cv
                evaluator.fit(logs)
                source = evaluator._source_for(target, logs, weight)
            else:
                source = shared.get(name)
            jobs[key] = Job(evaluator, target, source, Moments())
    overlaps = run(logs, list(jobs.values()), weight) if jobs else {}
    results = {}
    for policy in targets:
        for name in evaluators:
            key = name if single else (policy, name)
            if key in jobs:
                job = jobs[key]
                results[key] = job.evaluator._policy_value(
                    job, overlaps[id(job.target)], logs, weight
                )
            else:
                results[key] = others[name]._result(
                    policies if single else policies[policy], logs, None
                )
    _warn_once(results)
    return ValueTable(results)


def _named_evaluators(evaluators, logs):
    if evaluators is None:
        return {
            name: evaluator
            for name, evaluator in DEFAULTS.items()
            if logs.propensity is not None or not evaluator._uses_weights
        }
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
    return {name: _one_evaluator(value, logs) for name, value in evaluators.items()}


def _one_evaluator(evaluator, logs):
    if isinstance(evaluator, str):
        known = {**BY_NAME, **SEQUENTIAL}
        if evaluator not in known:
            raise ValueError(
                f"evaluator {evaluator!r} is unknown; there are {', '.join(known)}."
            )
        evaluator = known[evaluator]()
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
    evaluator._check_logs(logs)
    return evaluator


def _fitted(evaluator, logs, reward_model, cv):
    """Fit a clone, with the shared model and folds where it has none of its own."""
    evaluator = clone(evaluator)
    model = _own_model(evaluator, reward_model)
    if model is not None and evaluator._uses_model:
        evaluator.set_params(cv=cv)
    return evaluator.fit(logs, model)


def _own_model(evaluator, reward_model):
    own = getattr(evaluator, "reward_model", None)
    return reward_model if own is None else None


def _shared_sources(evaluators, logs, reward_model, cv):
    """One source per distinct (model, cv), by name of the evaluator."""
    made, by_name = {}, {}
    for name, evaluator in evaluators.items():
        if not isinstance(evaluator, StaticEvaluator) or not evaluator._uses_model:
            continue
        if isinstance(evaluator, MRDR):
            continue
        own = evaluator.reward_model
        model, folds = (reward_model, cv) if own is None else (own, evaluator.cv)
        key = (id(model), folds if isinstance(folds, (int, str)) else id(folds))
        if key not in made:
            made[key] = reward_source(model, logs, folds)
        by_name[name] = made[key]
    return by_name


def _seeded(evaluators, reward_model, random_state):
    rng = check_random_state(random_state)
    evaluators = {name: with_seed(clone(e), rng) for name, e in evaluators.items()}
    if hasattr(reward_model, "get_params") and not isinstance(reward_model, type):
        reward_model = with_seed(clone(reward_model), rng)
    return evaluators, reward_model


def _warn_once(results):
    seen = set()
    for result in results.values():
        for warning in result.warnings:
            key = (type(warning), str(warning))
            if key not in seen:
                seen.add(key)
                warnings.warn(warning, stacklevel=3)

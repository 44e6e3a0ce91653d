# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The one-call start: several policies and evaluators in one pass."""

import warnings
from collections.abc import Iterator, Mapping

from sklearn.base import clone
from sklearn.utils import check_random_state

from skope_ope.evaluators._names import evaluator_named
from skope_ope.evaluators._shared_model import SharedModel
from skope_ope.evaluators._value_table import ValueTable
from skope_ope.evaluators.core._base import BaseEvaluator, pipeline_remedy
from skope_ope.evaluators.core._jobs import evaluate_jobs
from skope_ope.evaluators.core._positive_rounds import PositiveRounds
from skope_ope.evaluators.core._sample_weights import combined_weights
from skope_ope.evaluators.core._seeds import with_seed
from skope_ope.evaluators.core._target import Target
from skope_ope.evaluators.core._warnings import learned_warnings
from skope_ope.evaluators.slate import PseudoInverse, SlateDirectMethod, SlateIPS
from skope_ope.evaluators.static import (
    IPS,
    SNIPS,
    DirectMethod,
    DoublyRobust,
    DRos,
    SwitchDR,
)
from skope_ope.logs import BanditLogs, SlateLogs
from skope_ope.policies.slate._slate_policy import is_slate_policy

DEFAULTS = {
    "IPS": IPS(),
    "SNIPS": SNIPS(),
    "DirectMethod": DirectMethod(),
    "DoublyRobust": DoublyRobust(),
    "SwitchDR": SwitchDR(),
    "DRos": DRos(),
}
SLATE_DEFAULTS = {
    "SlateIPS": SlateIPS(),
    "PseudoInverse": PseudoInverse(),
    "wPI": PseudoInverse(self_normalized=True),
    "SlateDirectMethod": SlateDirectMethod(),
}


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
    logs : BanditLogs or SlateLogs
        The logged rounds; not those on which the policies were learned.
    evaluators : list of names or evaluators, or dict, default=None
        `None`: IPS, SNIPS, DirectMethod, DoublyRobust, SwitchDR and DRos, those
        that need propensities only where the logs have them. For slates SlateIPS,
        PseudoInverse, its self-normalised form as "wPI", and SlateDirectMethod,
        those that need the logger only where the logs have it. The text of the table
        names those that are left out.
    reward_model : model, number, array or str, default=None
        Shared by the evaluators whose own is None. `None`: the out-of-fold mean
        reward per action, or of all slates.
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
    _check_arguments(policies, logs)
    if isinstance(cv, Iterator):  # used by more than one fit
        cv = list(cv)
    known = SLATE_DEFAULTS if isinstance(logs, SlateLogs) else DEFAULTS
    usual = known if evaluators is None else ()
    evaluators = _named_evaluators(evaluators, logs)
    if random_state is not None:
        evaluators, reward_model = _seeded(evaluators, reward_model, random_state)
    shared = SharedModel(reward_model, cv, logs)
    results = {}
    single = not isinstance(policies, Mapping)
    wanted = {None: policies} if single else policies
    for (policy, name), value in _values(wanted, evaluators, shared).items():
        results[name if single else (policy, name)] = value
    _warn_once(results)
    return ValueTable(results, [name for name in usual if name not in evaluators])


def _check_arguments(policies, logs):
    """Raise unless there are policies and rounds."""
    if not isinstance(logs, (BanditLogs, SlateLogs)):
        raise TypeError(
            f"logs must be BanditLogs or SlateLogs, got {type(logs).__name__}. The "
            "call is evaluate(policies, logs)."
        )
    if not len(logs):
        raise ValueError("the logs are empty: an estimate needs a round.")
    if isinstance(policies, Mapping) and not policies:
        raise ValueError("policies is empty; name at least one.")
    if isinstance(policies, (list, tuple)) and any(
        hasattr(policy, "predict_proba") or is_slate_policy(policy)
        for policy in policies
    ):
        raise TypeError(
            "several policies go into a dict by name: evaluate({'a': ..., 'b': ...}, "
            "logs), got a list."
        )


def _values(policies, evaluators, shared):
    """Return the value of every (policy, evaluator).

    Those that take part in one pass over the rounds share it; the others are fitted
    once each, so that all policies meet the same random numbers.
    """
    logs = shared.logs
    positive, jobs, fitted = PositiveRounds(logs, combined_weights(logs, None)), {}, {}
    for policy, given in policies.items():
        # slates have targets of their own
        target = Target(given, logs) if isinstance(logs, BanditLogs) else None
        for name, evaluator in evaluators.items():
            if target is not None and evaluator._takes_part(target):
                jobs[policy, name] = evaluator._prepare(target, positive, shared)
            elif name not in fitted:
                fitted[name] = shared.fitted(evaluator)
    of_pass = iter(evaluate_jobs(list(jobs.values()), positive) if jobs else ())
    values = {}
    for policy, given in policies.items():
        learned = learned_warnings(given, logs) if jobs else ()
        for name in evaluators:
            if (policy, name) in jobs:
                values[policy, name] = next(of_pass)._with_warnings(learned)
            else:
                values[policy, name] = fitted[name]._result(given, logs, None)
    return values


def _named_evaluators(evaluators, logs):
    if evaluators is None and isinstance(logs, SlateLogs):
        return _slate_defaults(logs)
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


def _slate_defaults(logs):
    """Return the default evaluators of slates that the logs know enough for."""
    known = set()
    if logs.logging_policy is not None:
        known = {"logger", "propensity"}
    elif logs.propensity is not None:
        known = {"propensity"}
    return {
        name: evaluator
        for name, evaluator in SLATE_DEFAULTS.items()
        if known.issuperset(evaluator._needs)
    }


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

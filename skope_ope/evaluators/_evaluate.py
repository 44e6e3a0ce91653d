# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The one-call start: several policies and evaluators in one pass."""

import warnings
from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from sklearn.base import clone
from sklearn.utils import check_random_state

from skope_ope.evaluators._value_table import ValueTable
from skope_ope.evaluators.core._alarms import learned_warnings
from skope_ope.evaluators.core._base import BaseEvaluator, pipeline_remedy
from skope_ope.evaluators.core._engine import run
from skope_ope.evaluators.core._seeds import with_seed
from skope_ope.evaluators.core._target import Target
from skope_ope.evaluators.multi_logger import MultiLoggerDR, MultiLoggerIPS
from skope_ope.evaluators.scavenging import ExplorationScavenging
from skope_ope.evaluators.sequential import DRns, RejectionSampling, Replay
from skope_ope.evaluators.slate import (
    CascadeDR,
    CascadeIPS,
    IndependentSlotIPS,
    PseudoInverse,
    SlateDirectMethod,
    SlateDoublyRobust,
    SlateEvaluator,
    SlateIPS,
)
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
from skope_ope.logs import BanditLogs, SlateLogs
from skope_ope.policies._adaptive import AdaptivePolicy
from skope_ope.policies.slate._slate_policy import is_slate_policy
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
SPECIAL = {
    cls.__name__: cls
    for cls in (
        Replay,
        RejectionSampling,
        DRns,
        ExplorationScavenging,
        MultiLoggerIPS,
        MultiLoggerDR,
    )
}
KNOWN = {**BY_NAME, **SPECIAL}
DEFAULT_NAMES = ("IPS", "SNIPS", "DirectMethod", "DoublyRobust", "SwitchDR", "DRos")
DEFAULTS = {name: BY_NAME[name]() for name in DEFAULT_NAMES}
SLATE_BY_NAME = {
    cls.__name__: cls
    for cls in (
        SlateIPS,
        PseudoInverse,
        SlateDirectMethod,
        SlateDoublyRobust,
        IndependentSlotIPS,
        CascadeIPS,
        CascadeDR,
    )
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
    if isinstance(cv, Iterator):  # used by more than one fit
        cv = list(cv)
    known = SLATE_DEFAULTS if isinstance(logs, SlateLogs) else DEFAULTS
    usual = known if evaluators is None else ()
    evaluators = _named_evaluators(evaluators, logs)
    if random_state is not None:
        evaluators, reward_model = _seeded(evaluators, reward_model, random_state)
    single = not isinstance(policies, Mapping)
    slates = isinstance(logs, SlateLogs)  # whose evaluators make their own targets
    targets = {
        name: None if slates else Target(policy, logs)
        for name, policy in ({None: policies} if single else policies).items()
    }
    shared = _shared_sources(evaluators, logs, reward_model, cv)
    weight = combined_weights(logs, None)
    jobs, others = {}, {}
    for policy, target in targets.items():
        learns = not slates and isinstance(target.policy, AdaptivePolicy)
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
            chosen = evaluator._chosen(target, logs, source, weight)
            jobs[key] = chosen._job(target, source, logs)
    overlaps = run(logs, list(jobs.values()), weight) if jobs else {}
    results = {}
    for policy in targets:
        wanted = policies if single else policies[policy]
        learned = learned_warnings(wanted, logs) if jobs else ()
        for name in evaluators:
            key = name if single else (policy, name)
            if key in jobs:
                job = jobs[key]
                results[key] = job.evaluator._policy_value(
                    job, overlaps[id(job.target)], logs, weight
                )
                results[key].warnings = learned + results[key].warnings
            else:
                results[key] = others[name]._result(wanted, logs, None)
    _warn_once(results)
    return ValueTable(results, [name for name in usual if name not in evaluators])


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
        known = SLATE_BY_NAME if isinstance(logs, SlateLogs) else KNOWN
        if evaluator not in known:
            raise unknown_evaluator(evaluator, known)
        evaluator = known[evaluator]()
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


def unknown_evaluator(name, known=KNOWN):
    """Return the error about a name that no evaluator has."""
    names = {one.lower(): one for one in known}
    # what a name is called for short, as DR or DM (the first of several); then what
    # is spelt nearly like it
    short = {"".join(filter(str.isupper, n)).lower(): n for n in reversed(known)}
    word = name.lower()
    near = [short[word]] if word in short else []
    near = near or [names[n] for n in get_close_matches(word, names, n=1, cutoff=0.7)]
    meant = f" Did you mean {near[0]}?" if near else ""
    return ValueError(
        f"evaluator {name!r} is unknown; there are {', '.join(known)}.{meant}"
    )


def _fitted(evaluator, logs, reward_model, cv):
    """Fit a clone, with the shared model and folds where it has none of its own."""
    evaluator = clone(evaluator)
    model = _own_model(evaluator, reward_model)
    shares = getattr(evaluator, "reward_model", None) is None
    if evaluator._uses_model and (
        model is not None or (shares and isinstance(evaluator, SlateEvaluator))
    ):
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

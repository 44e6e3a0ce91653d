# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Which of a few policies to deploy, if any."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from numbers import Real
from typing import Any, Literal

import numpy as np
from sklearn.base import clone

from skope_ope._texts import meant
from skope_ope._types import (
    AnyEvaluator,
    PolicyLike,
    RandomSeed,
    RewardModelLike,
    SplitterLike,
)
from skope_ope.evaluators._asked import (
    default_rows,
    has_many_terms,
    is_of_logged_actions,
    with_evaluators,
)
from skope_ope.evaluators._evaluate import quiet_table
from skope_ope.evaluators._names import evaluator_named
from skope_ope.evaluators._rules import (
    plain_row,
    recommended_evaluator,
    row_of,
)
from skope_ope.evaluators._value_table import warn_once
from skope_ope.evaluators.base._question import (
    SINGLE,
    policies_by_name,
    question_about,
    refuse_learning_policies,
    several_times,
)
from skope_ope.evaluators.base._summed_values import sums_of
from skope_ope.evaluators.core._engine import terms_of
from skope_ope.evaluators.core._evidence import MEAN_WEIGHT, rests_on_propensities
from skope_ope.evaluators.core._implied_weights import only_propensities, with_regions
from skope_ope.evaluators.core._logged_value import logged_value
from skope_ope.evaluators.core._paired_differences import on_common_rounds
from skope_ope.evaluators.core._part_weights import LOGGED_PROBA
from skope_ope.evaluators.core._rounds import PositiveRounds, combined_weights
from skope_ope.evaluators.core._rows import FormulaTerms
from skope_ope.evaluators.core._target import Target
from skope_ope.evaluators.core._warnings import warnings_of
from skope_ope.evaluators.core._wrapped import bare
from skope_ope.logs import BanditLogs, SlateLogs
from skope_ope.logs._row_container import known_range
from skope_ope.logs.lazy._lazy_logs import LazyLogs, all_rows, rows_told_by_files
from skope_ope.policies._adaptive import AdaptivePolicy
from skope_ope.reward_models._part_models import hash_folds
from skope_ope.selection._outcome import LOGGER
from skope_ope.selection._policy_comparison import PolicyComparison
from skope_ope.selection._scorers import check_search_evaluator

MOST_READ = 200_000  # of lazy logs, which are read


def compare_policies(
    policies: PolicyLike | Mapping[Any, PolicyLike],
    logs: BanditLogs | SlateLogs | LazyLogs,
    *,
    evaluator: AnyEvaluator = None,
    baseline: str = LOGGER,
    level: float = 0.95,
    reward_model: RewardModelLike = None,
    cv: SplitterLike | Literal["prefit"] | None = None,
    random_state: RandomSeed = None,
    n_jobs: int | None = None,
    accepted: Collection[str] = (),
) -> PolicyComparison:
    """Decide whether one of a few policies should replace a baseline.

    The gain of a policy is its paired difference to the baseline, round by round. The
    intervals of all gains hold together at `level` (Bonferroni). A policy is better if
    the lower limit of its gain is above zero. The choice is the one with the greatest
    lower limit. Doubts that no interval includes can prevent a choice. The policy
    learned from these rounds, or takes actions that were never logged. Its gain depends
    on few events. The propensities are in doubt. Or the interval leaves out a bias. If
    all upper limits are below zero, the baseline is kept. Otherwise the decision is
    "undecided". Read more in the :ref:`User Guide <comparison>`.

    Parameters
    ----------
    policies : policy, array, str, or dict of them
        The policies to compare with the baseline, as in `evaluate`. A dict gives
        names. A single policy is called "the policy". They must not have learned from
        `logs`.
    logs : BanditLogs, SlateLogs or LazyLogs
        The rounds. Lazy logs of up to 200,000 rounds are read into memory, with the
        folds of `HashKFold`. For more rounds the gains come from sums.
    evaluator : evaluator, Pipeline, fitted search or str, default=None
        The evaluator or its name. It is fitted again, on `logs`. For a search the best
        evaluator is used, and the steps of a Pipeline are applied to `logs`. `None`:
        the evaluator that `evaluate` recommends for such logs. For sums of slates it is
        the form with a single control variate. If lazy logs cannot have the recommended
        evaluator, it is SNIPS or BalancedIPS, without a model.
    baseline : str, default="logger"
        Name of the policy to compare with. "logger": the mean reward of the logs, which
        is the value of the logging policy.
    level : float, default=0.95
        Coverage of the intervals of all gains together. If no policy is better, the
        probability of "deploy" is at most about (1 - level) / 2.
    reward_model : model, number, array or str, default=None
        Used if the evaluator has no reward model of its own, as in `evaluate`.
    cv : int, splitter, iterable or "prefit", default=None
        How rounds are split for cross-fitting of this reward model. `None`: the `cv`
        of the evaluator.
    random_state : int, RandomState instance or None, default=None
        Seeds the evaluator and the reward model if their own `random_state` is None.
    n_jobs : int, default=None
        Number of parallel tasks, as in `evaluate`. The comparison does not depend on
        it.
    accepted : collection of str, default=()
        Names of doubts that you know of and accept, such as "unsupported". They are
        told and prevent nothing. Names are those of `VerdictThresholds`.

    Returns
    -------
    comparison : PolicyComparison
        `decision`, `choice` and `sentence`, with the gains and values by name.

    Raises
    ------
    TypeError
        If `policies` is a list, `logs` are no logs or `evaluator` is no evaluator.
    ValueError
        If there is no policy to compare. If the baseline does not exist, or has the
        name of a policy. If `evaluate` recommends no evaluator for such logs.

    See Also
    --------
    evaluate : Values by several evaluators.
    rounds_needed : How many rounds a decision takes.
    PolicyScorer : Chooses among many policies, in a search.

    Examples
    --------
    >>> from skope_ope import compare_policies
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs, policy, truth = make_bandit_logs(random_state=0, return_truth=True)
    >>> comparison = compare_policies({"new": policy}, logs)
    >>> comparison.decision, comparison.choice
    ('deploy', 'new')
    """
    checked = policies, logs, reward_model, cv, n_jobs
    policies = policies_by_name("compare_policies", *checked, single=SINGLE)
    check_comparison(policies, baseline, level)
    how = {
        "reward_model": reward_model,
        "cv": several_times(cv),
        "random_state": random_state,
        "n_jobs": n_jobs,
    }
    asked = {"baseline": baseline, "level": level, "accepted": accepted}
    if isinstance(evaluator, str):
        kind = logs._log_type if isinstance(logs, LazyLogs) else type(logs)
        evaluator = evaluator_named(evaluator, kind)
    if isinstance(logs, LazyLogs):
        made = _compare_lazy(policies, logs, evaluator, how, **asked)
    else:
        evaluator, logs = bare(_evaluator_for(policies, logs, evaluator), logs)
        made = _compare_rounds(policies, logs, evaluator, how, **asked)
    values, comparison, warned = made
    warn_once(values.items(), stacklevel=2)
    for warning in warned:
        warnings.warn(warning, stacklevel=2)
    return comparison


def _compare_lazy(policies, lazy, evaluator, how, **asked_for):
    """Return values and comparison on lazy logs, and what is to be warned of."""
    # That of many rounds is made from merged sums. Few are read: sums tell of few
    # rounds too little of the tails of gains for a decision.
    n_jobs, recommended = how["n_jobs"], evaluator is None
    lazy = lazy.labelled(n_jobs=n_jobs)
    question = question_about(policies, lazy, **how)
    if recommended:
        evaluator = _evaluator(None, question.head, question.n_loggers)
        kept, _ = default_rows(question, sums=True)
        if evaluator.requires.model and evaluator not in kept.values():
            evaluator = plain_row(kept, evaluator)
    else:
        check_search_evaluator(evaluator, "compare_policies")
        evaluator, _ = bare(evaluator, lazy)
        _refuse_walks(evaluator)
    question = with_evaluators(question, {"": evaluator}, sums=True)
    # contexts tell which regions lack rounds, also where no policy looks at them
    told = lazy.roles.get("logging_proba")
    wanted = question.logs if told else question.whole
    few = all_rows(wanted, MOST_READ, n_jobs)
    if few is not None:
        refuse_learning_policies(policies)
        evaluator = _with_hash_folds(evaluator)
        if how["cv"] is not None:
            how["cv"] = _hash_folds(how["cv"])
        with rows_told_by_files(lazy, few):
            return _compare_rounds(policies, few, evaluator, how, **asked_for)
    if recommended and has_many_terms(evaluator):
        one = clone(evaluator).set_params(control_variates="single")
        question = replace(question, evaluators={"": one})
    question.check_sums()
    sums = sums_of(question)
    found, logged = sums._by_job(), sums.logged_value()
    values = {name: found[name, ""] for name in policies}
    baseline = asked_for["baseline"]
    reference = logged if baseline == LOGGER else values[baseline]
    other = None if baseline == LOGGER else baseline
    comparison = PolicyComparison(
        values,
        reference,
        **asked_for,
        reward_range=logged._limits,
        evaluator=row_of(question.evaluators[""]),
        # in all rounds that were summed
        alike=[
            name
            for name in policies
            if name != baseline and sums._acts_alike(name, other)
        ],
    )
    return values, comparison, ()


def _compare_rounds(policies, logs, evaluator, how, **asked):
    """Return values and comparison in memory, and what is to be warned of."""
    table = quiet_table(policies, logs, {"": evaluator}, keep=True, **how)
    values = {name: table[name, ""] for name in policies}
    asked["evaluator"] = row_of(evaluator)
    return values, *comparison_of(values, policies, logs, **asked)


def _doubted(values, logs):
    """Return values that know what was found of their propensities, and warnings."""
    values = _of_wrong_logs(values)
    estimated = getattr(logs, "propensity_estimated", False)
    if not (estimated and any(map(rests_on_propensities, values.values()))):
        return values, []
    warned = warnings_of(logs._estimated_propensity_findings[1])
    return {name: one._with_warnings(warned) for name, one in values.items()}, warned


def _of_wrong_logs(values):
    """Return values that know of a mean weight above one of another policy."""
    # Probabilities of all actions sum to one, whatever the policy: so the log is wrong,
    # and with it all values that rest on its propensities.
    found = {
        warning
        for one in values.values()
        if one._evidence.support_known and one.diagnostics.get("mean_weight", 0.0) > 1
        for warning in one.warnings
        if warning.name == MEAN_WEIGHT
    }
    return {
        name: one
        if not rests_on_propensities(one) or found & set(one.warnings)
        else one._with_warnings(found)
        for name, one in values.items()
    }


def _with_hash_folds(evaluator):
    """Return an evaluator whose folds are those that parts of a log have."""
    if "cv" not in evaluator.get_params(deep=False):
        return evaluator
    return clone(evaluator).set_params(cv=_hash_folds(evaluator.cv))


def _hash_folds(cv):
    return cv if isinstance(cv, str) else hash_folds(cv)


def _refuse_walks(evaluator):
    """Raise where an evaluator walks through the rounds: gains over sums have none."""
    evaluator._check_lazy()
    if evaluator.__sklearn_tags__().order_dependent:
        name = type(evaluator).__name__
        raise ValueError(
            f"compare_policies sums lazy logs, but {name} needs their rounds in "
            "order. Compare on rounds in memory, compare_policies(policies, "
            "lazy.head(100_000), ...). Or subtract repeated_runs of two policies, "
            "which take lazy logs."
        )


def comparison_of(
    values, policies, logs, baseline, level, evaluator=None, accepted=(), lacking=()
):
    """Return the comparison of values that are known, and what is to be warned of."""
    # `lacking`: what regions lack, by the policies of which that is known
    values, doubts = _doubted(dict(values), logs)
    if isinstance(logs, BanditLogs) and only_propensities(logs):
        for name, one in values.items():
            if _has_weights(one, policies[name]):
                weights = partial(_weights_in_log, policies[name], logs)
                of_logged = Target(policies[name], logs).logged_only
                about = weights, dict(lacking).get(name), of_logged
                values[name] = with_regions(one, logs, *about)
    if baseline == LOGGER:
        values[LOGGER] = logged_value(logs)
    values, warned = on_common_rounds(values)
    reference = values.pop(LOGGER) if baseline == LOGGER else values[baseline]
    other = None if baseline == LOGGER else policies[baseline]
    alike = [
        name
        for name, policy in policies.items()
        if name != baseline
        and act_alike(policy, other, logs, (values[name], reference))
    ]
    comparison = PolicyComparison(
        values,
        reference,
        baseline,
        level=level,
        reward_range=known_range(logs),
        alike=alike,
        evaluator=evaluator,
        accepted=accepted,
    )
    return comparison, (*doubts, *warned)


def _has_weights(value, policy):
    """Whether importance weights that no history changes are behind a value."""
    return rests_on_propensities(value) and not isinstance(policy, AdaptivePolicy)


def _weights_in_log(policy, logs):
    """Return importance weights and sample weights of the rounds."""
    positive = PositiveRounds(logs, combined_weights(logs, None))
    [pi] = terms_of(LOGGED_PROBA, logs, Target(policy, logs), None, positive)
    return pi / logs.propensity, positive.omega


def check_comparison(policies, baseline, level):
    """Raise unless the policies, by name, can be compared with a baseline."""
    names = list(policies)
    _check_texts(names)
    if baseline == LOGGER and LOGGER in names:
        raise ValueError(
            f"policies has the name {LOGGER!r}, but this name stands for the mean "
            "reward of the logs. Rename the policy, or name another baseline."
        )
    if baseline != LOGGER and baseline not in names:
        raise ValueError(
            f"baseline must be one of the policies {names} or {LOGGER!r}, "
            f"got {baseline!r}.{meant(baseline, [*names, LOGGER])}"
        )
    if names == [baseline]:
        raise ValueError(
            f"policies holds the baseline {baseline!r} only: there is nothing to "
            f"compare with it. Add a policy, or leave out baseline=... to compare it "
            "with the logger."
        )
    if not isinstance(level, Real) or not 0 < level < 1:
        raise ValueError(f"level must be a number in (0, 1), got {level!r}.")


def _check_texts(names):
    """Raise unless a sentence about a policy tells which one it is about."""
    texts = [str(name).strip() for name in names]
    for name, text in zip(names, texts, strict=True):
        if not text or [*names] == [None]:
            raise ValueError(
                f"policies has the name {name!r}, which contains nothing readable. "
                "Give every policy a name with letters."
            )
        if texts.count(text) > 1:
            alike = [one for one, t in zip(names, texts, strict=True) if t == text]
            raise ValueError(
                f"policies has names that look the same, {alike}. Give every policy "
                "its own name."
            )


def _evaluator(evaluator, logs, n_loggers=None, logged_only=False):
    """Return the evaluator that was named, or the recommended one."""
    if evaluator is not None:
        check_search_evaluator(evaluator, "compare_policies")
        return evaluator
    found = recommended_evaluator(logs, n_loggers, logged_only=logged_only)
    if found.evaluator is None:
        raise ValueError(
            f"no evaluator is recommended for these logs: {found.reason}. If you name "
            "one, such as evaluator=DirectMethod(), you get gains but no decision."
        )
    return found.evaluator


def _evaluator_for(policies, logs, evaluator):
    """Return the evaluator, by default without a model where none can be used."""
    given = policies.values() if evaluator is None else ()
    logged_only = any(is_of_logged_actions(one, logs) for one in given)
    return _evaluator(evaluator, logs, logged_only=logged_only)


# -- whether two policies do the same in the rounds of a log ---------------------------

ACTS_BLOCK = 1024  # rounds: the first tells most policies apart, and no table is large
ACTS_NOISE = 1e-12


def act_alike(policy, other, logs, values=()):
    """Tell whether two policies take the same actions with the same probabilities."""
    if not isinstance(logs, BanditLogs):
        return False
    targets = [Target(one, logs) for one in (policy, other) if one is not None]
    if any(isinstance(one.policy, AdaptivePolicy) for one in targets):
        return False
    if other is None and logs.propensity is None:
        return False
    blocks = [
        (low, min(low + ACTS_BLOCK, len(logs)))
        for low in range(0, len(logs), ACTS_BLOCK)
    ]
    values = values[: len(targets)]  # the logger has no value of a pass
    if values and any(_differ_as_seen(logs, values, slice(*one)) for one in blocks):
        return False
    for start, stop in blocks:
        rounds = logs[start:stop]
        tables = [one.chunk(rounds, start) for one in targets]
        if other is None:
            tables.append(_of_logger(rounds))
        if not _acts_equal(*tables, rounds.action_index):
            return False
    return True


def _differ_as_seen(logs, values, rows):
    """Whether policies, or one and the logger, differ in what was logged."""
    terms = [value._rows._terms for value in values]
    if not all(isinstance(one, FormulaTerms) for one in terms):
        return False
    seen = [one.source.logged_proba(one.key, rows) for one in terms]
    if len(seen) == 1:
        seen.append(_of_logger(logs)[rows])
    if any(one is None for one in seen):
        return False
    return not _acts_equal(*seen, logs.action_index[rows])


def _of_logger(rounds):
    known = rounds.logging_proba
    return rounds.propensity if known is None else known


def _acts_equal(one, two, action):
    """Whether probabilities agree; of all actions where both tables have them."""
    if one.ndim != two.ndim:
        one, two = (
            table if table.ndim == 1 else table[np.arange(len(action)), action]
            for table in (one, two)
        )
    return bool((np.abs(one - two) <= ACTS_NOISE).all())

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""All checks of a log, alone or for policies, and the verdict on a value with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from skope_ope._types import PolicyLike, RandomSeed, RewardModelLike, SplitterLike
from skope_ope.audit._checks import (
    SLATES,
    FileSource,
    MemorySource,
    refuse_frame,
    run_checks,
    small_logs,
)
from skope_ope.audit._result import Audit, explained
from skope_ope.evaluators._evaluate import quiet_table
from skope_ope.evaluators.base._question import (
    check_columns,
    policies_by_name,
    refuse_arrays,
)
from skope_ope.evaluators.core._policy_value import PolicyValue
from skope_ope.evaluators.core._verdict import Verdict, VerdictThresholds, verdict_on
from skope_ope.evaluators.slate import SlateDirectMethod
from skope_ope.evaluators.static import DirectMethod
from skope_ope.logs import BanditLogs, SlateLogs
from skope_ope.logs._row_container import RowContainer
from skope_ope.logs.lazy._lazy_logs import LazyLogs, rows_told_by_files
from skope_ope.policies import UniformPolicy
from skope_ope.policies._adaptive import AdaptivePolicy


def audit(
    policies: PolicyLike | Mapping[Any, PolicyLike],
    logs: BanditLogs | SlateLogs | LazyLogs | None = None,
    *,
    reward_model: RewardModelLike = None,
    cv: SplitterLike | Literal["prefit"] | None = None,
    random_state: RandomSeed = 0,
    n_jobs: int | None = None,
) -> Audit | Any:
    """Check whether a log can answer, alone or for policies.

    `evaluate` runs only quick checks. An audit runs all checks, also those that fit
    models or sort rounds, and describes the log. Read more in the :ref:`User Guide
    <audit>`.

    Parameters
    ----------
    policies : policy, array, str, or dict of them
        The policies to evaluate, as in `evaluate`. Pass only the logs, ``audit(logs)``,
        to check the log alone.
    logs : BanditLogs, SlateLogs or LazyLogs, default=None
        The logged rounds. Lazy logs of files may have more than 200,000 rounds. Then
        counts and sums use all rounds, and checks of single rounds use a sample of
        200,000. The facts say so.
    reward_model : model, number, array or str, default=None
        The reward model to evaluate with. The facts tell how well it predicts the
        rewards out of fold. `None`: no reward model is checked.
    cv : int, splitter, iterable or "prefit", default=None
        How rounds are split for cross-fitting of the reward model. `None`: 5 folds.
    random_state : int, RandomState instance or None, default=0
        Seeds the draw of rounds for the checks that fit models, so that an audit is the
        same each time. Seeds also the reward model if its own `random_state` is None.
    n_jobs : int, default=None
        Number of parallel tasks, as in `evaluate`.

    Returns
    -------
    audit : Audit, or dict of Audit
        Facts about the log, and the findings, the worst first. For a dict of policies,
        an audit by name of the policy. The log itself is checked once.

    Raises
    ------
    TypeError
        If there are no logs, `policies` is a list, or a policy learns while it acts.

    Examples
    --------
    >>> from skope_ope import audit
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs = make_bandit_logs(random_state=0)
    >>> audit(logs).ok
    True
    """
    if logs is None:
        policies, logs = None, policies
    asked = policies, logs, reward_model, cv, n_jobs
    named = policies_by_name("audit", *asked, alone="audit(logs)")
    for policy in named.values():
        if isinstance(policy, AdaptivePolicy):
            raise TypeError(
                f"{type(policy).__name__} learns while it acts, so its probabilities "
                "are not fixed and cannot be checked against a log. Audit the log "
                "alone, or audit what the policy has learned so far: policy.frozen()."
            )
    named, model = {} if policies is None else named, (reward_model, cv)
    of_log, of_policies = audits(named, logs, random_state, n_jobs, *model)
    return (
        of_policies if isinstance(policies, Mapping) else of_policies.get(None, of_log)
    )


def audits(policies, logs, random_state=0, n_jobs=None, *model):
    """Audit a log, alone and for several policies; the log is checked once."""
    if not isinstance(logs, LazyLogs):
        source = MemorySource(logs, random_state)
    else:
        refuse_frame(logs)
        refuse_arrays(policies)
        check_columns(logs, policies)
        few = small_logs(logs, n_jobs)
        if few is not None:
            with rows_told_by_files(logs, few):
                return audits(policies, few, random_state, n_jobs, *model)
        source = FileSource(logs, random_state, n_jobs)
    kind, random = source.kind, source.random
    facts, findings = run_checks(kind, source.parts(), random, source.facts)
    facts |= reward_model_facts(source, n_jobs, *model)
    of_policies = {}
    for name, policy in policies.items():
        told, found = run_checks(kind, source.parts_of(policy), random)
        of_policies[name] = Audit(facts | told, explained(findings + found), True)
    return Audit(facts, explained(findings)), of_policies


def reward_model_facts(source, n_jobs=None, reward_model=None, cv=None):
    """Return how well a reward model predicts rewards out of fold, if there is one."""
    if reward_model is None:
        return {}
    # the fit is the same for all policies
    if source.kind == SLATES:
        policy, method = source.rows.slate, SlateDirectMethod()
    else:
        policy, method = UniformPolicy(), DirectMethod()
    how = {"random_state": source.random, "n_jobs": n_jobs}
    table = quiet_table(policy, source.rows, {"": method}, reward_model, cv, **how)
    return {"R^2 of the reward model, out of fold": table[""].diagnostics["model_r2"]}


# -- `logs.audit()`: logs stand above the audit, so it gives them their method ---------


def audit_of_logs(
    self,
    policies: PolicyLike | Mapping[Any, PolicyLike] = None,
    *,
    reward_model: RewardModelLike = None,
    cv: SplitterLike | Literal["prefit"] | None = None,
    random_state: RandomSeed = 0,
    n_jobs: int | None = None,
) -> Audit | Any:
    """Check the logs, see :func:`~skope_ope.audit`.

    Parameters
    ----------
    policies : policy, array, str, or dict of them, default=None
        The policies to evaluate. `None` checks the logs alone.
    reward_model : model, number, array or str, default=None
        The reward model to evaluate with. `None`: none is checked.
    cv : int, splitter, iterable or "prefit", default=None
        How rounds are split for cross-fitting of the reward model. `None`: 5 folds.
    random_state : int, RandomState instance or None, default=0
        Seed of the rounds that are drawn for the checks that fit models.
    n_jobs : int, default=None
        Number of parallel tasks, as in `evaluate`.

    Returns
    -------
    audit : Audit, or dict of Audit
        A summary of the logs and the findings, worst first. For a dict of policies, an
        audit by name of the policy.
    """
    how = {"cv": cv, "random_state": random_state, "n_jobs": n_jobs}
    return audit(policies, self, reward_model=reward_model, **how)


# its name in messages, and by which pickles find it
audit_of_logs.__name__, audit_of_logs.__qualname__ = "audit", "RowContainer.audit"
RowContainer.audit = LazyLogs.audit = audit_of_logs


# -- the verdict on a value, with the audit of its log ---------------------------------


def verdict(
    value: PolicyValue,
    *,
    audit: Audit | None = None,
    thresholds: VerdictThresholds | None = None,
) -> Verdict:
    """Judge whether a value can be acted on.

    ``value.verdict`` gives the quick answer: without an audit, with the default
    thresholds. An audit adds faults that only the whole log shows. Read more in the
    :ref:`User Guide <verdict>`.

    Parameters
    ----------
    value : PolicyValue
        A value, or a difference of two.
    audit : Audit, default=None
        The result of `audit(policy, logs)` for the log of the value. An error makes the
        value "not supported", a warning makes it "caution".
    thresholds : VerdictThresholds, default=None
        Numbers that separate the answers. `None`: the default ones.

    Returns
    -------
    verdict : Verdict
        "trustworthy", "caution" or "not supported", with reasons.

    Raises
    ------
    TypeError
        If the value, the audit or the thresholds have another type.
    ValueError
        If the audit is of fewer rounds than the value.

    Examples
    --------
    >>> from skope_ope import IPS, audit, verdict
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs, policy, truth = make_bandit_logs(random_state=0, return_truth=True)
    >>> value = IPS().fit(logs).evaluate(policy)
    >>> verdict(value, audit=audit(policy, logs)).answer
    'trustworthy'
    """
    thresholds = VerdictThresholds() if thresholds is None else thresholds
    _check_verdict_arguments(value, audit, thresholds)
    return verdict_on(value, thresholds, audit)


def _check_verdict_arguments(value, audit, thresholds):
    if not isinstance(value, PolicyValue):
        raise TypeError(
            "value must be a PolicyValue, as evaluate gives, got "
            f"{type(value).__name__}. Take one from a table: verdict(table['IPS'])."
        )
    if not isinstance(thresholds, VerdictThresholds):
        raise TypeError(
            "thresholds must be VerdictThresholds(...), got "
            f"{type(thresholds).__name__}."
        )
    if audit is None:
        return
    if not isinstance(audit, Audit):
        raise TypeError(
            "audit must be what audit(policy, logs) returns, got "
            f"{type(audit).__name__}."
        )
    rounds = audit.facts.get("rounds", value.n_rounds)
    if rounds < value.n_rounds:
        raise ValueError(
            f"the audit has {rounds:,} rounds, and the value has {value.n_rounds:,}: "
            "audit the log of the value."
        )

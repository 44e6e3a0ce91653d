# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Everything that can be checked of a log before anybody estimates from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skope_ope.audit._checks import (
    LOG_CHECKS,
    POLICY_CHECKS,
    SLATE_CHECKS,
    SLATE_POLICY_CHECKS,
)
from skope_ope.audit._explained import explained
from skope_ope.audit._lazy_audit import lazy_audit, refuse_frame, small_logs
from skope_ope.audit._result import Audit
from skope_ope.logs import BanditLogs, LazyLogs, SlateLogs
from skope_ope.logs.lazy._lazy_rows import rows_told_by_files
from skope_ope.policies._adaptive import AdaptivePolicy

if TYPE_CHECKING:
    from skope_ope._types import PolicyLike, RandomSeed


def audit(
    policy: PolicyLike,
    logs: BanditLogs | SlateLogs | LazyLogs | None = None,
    *,
    random_state: RandomSeed = 0,
    n_jobs: int | None = None,
) -> Audit:
    """Check whether a log can answer, alone or for a policy.

    `evaluate` runs only quick checks. An audit runs all checks, also those that fit
    models or sort rounds, and describes the log. Read more in the :ref:`User Guide
    <audit>`.

    Parameters
    ----------
    policy : policy, array or str, or BanditLogs, SlateLogs or LazyLogs
        The policy to evaluate. Pass only the logs to check the log alone:
        ``audit(logs)``.
    logs : BanditLogs, SlateLogs or LazyLogs, default=None
        The logged rounds. Lazy logs of files may have more than 200,000 rounds. Then
        counts and sums use all rounds, and checks of single rounds use a sample of
        200,000. The facts say so.
    random_state : int, RandomState instance or None, default=0
        Seeds the draw of rounds for the checks that fit models.
    n_jobs : int, default=None
        Tasks at a time over the partitions of lazy logs, as in scikit-learn.

    Returns
    -------
    audit : Audit
        Facts about the log, and the findings, the worst first.

    Raises
    ------
    TypeError
        If there are no logs, or the policy learns while it acts.

    Examples
    --------
    >>> from skope_ope import audit
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs = make_bandit_logs(random_state=0)
    >>> audit(logs).ok
    True
    """
    if logs is None:
        policy, logs = None, policy
    elif isinstance(policy, (BanditLogs, SlateLogs, LazyLogs)):
        raise TypeError(
            "the policy comes before the logs: audit(policy, logs), got "
            f"audit({type(policy).__name__}, {type(logs).__name__})."
        )
    if not isinstance(logs, (BanditLogs, SlateLogs, LazyLogs)):
        raise TypeError(
            "logs must be BanditLogs, SlateLogs or LazyLogs, got "
            f"{type(logs).__name__}. The call is audit(logs) or audit(policy, logs)."
        )
    if isinstance(policy, AdaptivePolicy):
        raise TypeError(
            f"{type(policy).__name__} learns while it acts, so its probabilities are "
            "not fixed and cannot be checked against a log. Audit the log alone, or "
            "audit what the policy has learned so far: policy.frozen()."
        )
    if isinstance(logs, LazyLogs):
        refuse_frame(logs)
        few = small_logs(logs, n_jobs)
        if few is None:
            return lazy_audit(policy, logs, random_state, n_jobs)
        with rows_told_by_files(logs, few):
            return audit(policy, few, random_state=random_state)
    if not len(logs):
        raise ValueError("the logs are empty: an audit needs at least one round.")
    policies = {} if policy is None else {"": policy}
    of_log, of_policies = audits(policies, logs, random_state=random_state)
    return of_policies.get("", of_log)


def audits(policies, logs, *, random_state=0):
    """Audit a log, alone and for several policies; the log is checked once."""
    slates = isinstance(logs, SlateLogs)
    facts, findings = _told(SLATE_CHECKS if slates else LOG_CHECKS, logs, random_state)
    of_policies = {}
    for name, policy in policies.items():
        checks = SLATE_POLICY_CHECKS if slates else POLICY_CHECKS
        told, found = _told(checks, policy, logs, random_state)
        of_policies[name] = Audit(facts | told, explained(findings + found), True)
    return Audit(facts, explained(findings)), of_policies


def _told(checks, *asked):
    """Return all facts and findings of some checks."""
    facts, findings = {}, []
    for check in checks:
        told, found = check(*asked)
        facts |= told
        findings += found
    return facts, findings

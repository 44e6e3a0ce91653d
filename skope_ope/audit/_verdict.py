# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The verdict on a value, with the audit of its log."""

from __future__ import annotations

from skope_ope.audit._result import Audit
from skope_ope.evaluators.core._policy_value import PolicyValue
from skope_ope.evaluators.core._verdict import Verdict, VerdictThresholds, verdict_on


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

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Whether a log of slates can answer for a slate policy."""

from dataclasses import replace
from math import isnan, nan

import numpy as np

from skope_ope.audit._policy_checks import (
    tail_findings,
    training_findings,
    weighted_tail,
)
from skope_ope.evaluators.core._diagnostics import Diagnostics
from skope_ope.evaluators.core._sample_weights import combined_weights
from skope_ope.evaluators.core._slate_target import SlateTarget
from skope_ope.evaluators.core._slates import of_weights, overlaps_of_terms
from skope_ope.evaluators.core._support_findings import slate_support_findings
from skope_ope.evaluators.slate._pseudo_inverse import PseudoInverse
from skope_ope.evaluators.slate._slate_ips import SlateIPS
from skope_ope.intervals._tail_shape import UNRELIABLE
from skope_ope.logs._slate_fields import has_slot_rewards
from skope_ope.policies.slate._slate_base import BaseSlatePolicy
from skope_ope.policies.slate._slate_policy import GivenMarginals

NO_LOGGER = "not possible: neither the logging policy nor propensities are known"
# Evaluators that take other weights, or none.
SPARED = {
    "slates": ("PseudoInverse", "SlateDoublyRobust", "mean reward"),
    "slots": ("SlateIPS", "mean reward"),
}
FACT_NAMES = {
    "effective_sample_size": "effective sample size",
    "effective_share": "effective share",
    "max_weight": "largest weight",
    "mean_weight": "mean weight",
    "expected_weight": "mean weight expected",
}


def slate_policy_findings(policy, logs, random_state):
    """Return facts and findings about a slate policy on a log."""
    # The weights are those of whole slates (`SlateIPS`) and, where the logging policy
    # is known, those of slots (`PseudoInverse`).
    target = SlateTarget(policy, logs, may_move=True)
    found = training_findings(policy, logs)
    if target.only_moves:
        told = "not possible: the policy moves what was shown, it has no weights"
        return {"weights of the policy": told}, found
    if logs.logging_policy is None and logs.propensity is None:
        return {"weights of the policy": NO_LOGGER}, found
    facts = {}
    for what, evaluator in _evaluators(target, logs).items():
        told, more = _weight_findings_of(evaluator.fit(logs), target, logs, what)
        facts |= told
        found += more
    return facts, found


def _evaluators(target, logs):
    """Return whose weights are looked at, by what they compare."""
    logger, found = logs.logging_policy, {}
    told = logs.propensity is not None or hasattr(logger, "slate_proba")
    whole = not isinstance(target.policy, GivenMarginals)
    if told and whole and hasattr(target.policy, "slate_proba"):
        found["slates"] = SlateIPS()
    if isinstance(logger, BaseSlatePolicy):
        found["slots"] = PseudoInverse(outside_range="exclude")
    return found


def _weight_findings_of(evaluator, target, logs, what):
    terms = evaluator.slate_terms(target, target.logs)
    positive = terms.positive(logs, combined_weights(logs, None))
    pair = overlaps_of_terms(terms, positive.design)
    entries, found, _ = of_weights(*pair, terms.supported, has_slot_rewards(logs))
    entries = Diagnostics(entries | terms.diagnostics)
    facts = {
        f"{name} ({what})": entries[key]
        for key, name in FACT_NAMES.items()
        if key in entries
    }
    lost = entries.get("unsupported_share", entries.get("outside_range_share", nan))
    if not isnan(lost):
        facts[f"share never shown ({what})"] = lost
    support = [
        replace(one, spares=SPARED[what]) for one in slate_support_findings(lost, what)
    ]
    found = support + [_about_weights(what, one) for one in found]
    if terms.weight is None or not entries.get("effective_sample_size", 0) > 0:
        return facts, found
    counted = np.abs(positive.of(terms.weight))
    shape, error = weighted_tail(counted, positive.of(logs.reward))
    if not isnan(shape):
        name = f"tail shape of weighted rewards ({what}), heavy above {UNRELIABLE}"
        facts[name] = shape
    return facts, found + [
        _about_weights(what, one) for one in tail_findings(shape, error)
    ]


def _about_weights(what, finding):
    """Return a finding that says whose weights it is about: both kinds are checked."""
    text = f"Weights of {what}: {finding.found}"
    return replace(finding, found=text, spares=SPARED[what])

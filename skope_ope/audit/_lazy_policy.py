# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""A policy on lazy logs: sums of all rounds, and what a sample of them shows."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np

from skope_ope.audit._checks import POLICY_CHECKS, SLATE_POLICY_CHECKS
from skope_ope.audit._policy_weights import weight_facts
from skope_ope.evaluators._summarize import summarize
from skope_ope.evaluators.core._drowned import huge_finding, is_huge
from skope_ope.evaluators.core._warnings import findings_of_learned, has_groups
from skope_ope.evaluators.core._weight_findings import overlap_findings
from skope_ope.evaluators.parts._partition_sums import sum_over
from skope_ope.evaluators.static._ips import IPS
from skope_ope.logs import SlateLogs
from skope_ope.logs._validation import plain
from skope_ope.policies._learned_rounds import LearnedRounds, has_learned

NAME = "policy"
OF_SUMS = {
    "learned_rounds",
    "unsupported_mass",
    "low_overlap",
    "mean_weight",
    "constant_weight",
    "impossible_propensity",
}


def lazy_policy_findings(policy, lazy, sample, whole, random_state, n_jobs=None):
    """Return facts and findings about a policy on lazy logs."""
    slates = isinstance(sample, SlateLogs)
    facts, found = {}, []
    for check in SLATE_POLICY_CHECKS if slates else POLICY_CHECKS:
        told, more = check(policy, sample, random_state)
        facts |= told
        found += more
    found = [_in_the_log(one, sample) for one in found]
    if slates or sample.propensity is None:
        of_all = []
        if has_learned(policy):
            learned = sum_over(lazy, _learned, policy, n_jobs)
            of_all = findings_of_learned(learned, has_groups(sample))
            found = [one for one in found if one.name != "learned_rounds"]
        return _of_sample(facts, whole), of_all + found
    told, of_all = _of_all_rounds(policy, lazy, n_jobs)
    rest = {name: fact for name, fact in facts.items() if name not in told}
    of_all += [one for one in found if one.name not in OF_SUMS]
    return told | _of_sample(rest, whole), of_all


def _of_sample(facts, whole):
    """Return facts whose names say that they are not of all rounds."""
    if whole:
        return facts
    return {f"{name}, of the sample": fact for name, fact in facts.items()}


def _in_the_log(finding, sample):
    """Return a finding whose rows are those of the log."""
    rows = sample.row_id.position[np.array(finding.rows, dtype=np.intp)]
    return replace(finding, rows=rows.tolist())


def _learned(logs, policy):
    return LearnedRounds.of(policy, logs, by_position=True) if len(logs) else None


def _of_all_rounds(policy, lazy, n_jobs):
    """Return facts and findings of the weights of all rounds."""
    given = {"evaluators": {"IPS": IPS()}, "n_jobs": n_jobs}
    sums = summarize({NAME: policy}, lazy, **given)._sums
    summary = sums.by_evaluator["IPS"].summary(NAME)
    overlap, tally, log = summary.overlap, summary.tally, sums.log
    target = SimpleNamespace(logged_only=not tally.table, array=None)
    found = []
    if NAME in sums.learned:
        found = findings_of_learned(sums.learned[NAME], has_groups(log))
    if is_huge(overlap.max_w):
        found.append(huge_finding(overlap.max_w, log))
        return {"largest weight": overlap.max_w}, found
    for one in overlap_findings(overlap, log, target):
        if one.name == "unsupported_mass":
            one = replace(one, actions=_never_logged(tally, log))
        found.append(one)
    facts = weight_facts(overlap)
    if tally.table:
        facts["unsupported mass"] = overlap.missing_mass
    return facts, found


def _never_logged(tally, log):
    """Return the never logged actions that the policy wants most."""
    wanted = dict(zip(tally.actions, tally.wanted.sum(axis=0).tolist(), strict=True))
    unseen = [plain(label) for label in log.actions[log._unseen].tolist()]
    unseen.sort(key=lambda label: -wanted.get(label, 0.0))
    return [label for label in unseen[:10] if wanted.get(label, 0.0) > 0]

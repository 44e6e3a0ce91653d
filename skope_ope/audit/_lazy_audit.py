# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Audits of logs that are read part by part: sums of all rounds, and a sample."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
from sklearn.utils import check_random_state

from skope_ope.audit._checks import LAZY_FIRST, LAZY_SAMPLED, LAZY_SLATES_SAMPLED
from skope_ope.audit._model_facts import reward_model_facts
from skope_ope.audit._policy_checks import policy_findings, weight_facts
from skope_ope.audit._result import Audit, explained
from skope_ope.audit._slate_policy_checks import slate_policy_findings
from skope_ope.evaluators._value_summary import summarize
from skope_ope.evaluators.core._drowned import huge_finding, is_huge
from skope_ope.evaluators.core._warnings import findings_of_learned, has_groups
from skope_ope.evaluators.core._weight_findings import overlap_findings
from skope_ope.evaluators.parts._partition_sums import sum_over
from skope_ope.evaluators.static._ips import IPS
from skope_ope.logs import BanditLogs, SlateLogs
from skope_ope.logs._validation import plain
from skope_ope.logs.checks._log_facts import FactSums, facts_of_sums
from skope_ope.logs.checks._order_findings import order_findings_of_sums
from skope_ope.logs.lazy._lazy_rows import all_rows
from skope_ope.policies._learned_rounds import LearnedRounds, has_learned

MOST_SAMPLED = 200_000  # that are looked at one by one


def refuse_frame(lazy):
    """Raise where lazy logs are a frame, whose rounds are nowhere in order."""
    if lazy.partitions is None:
        raise TypeError(
            "an audit needs the order of the rounds, and single rounds. A lazy frame "
            "has neither. Write it to parquet files and scan these, "
            "scan_logs('folder', ...), or audit a sample: "
            "audit(logs.sample(200_000))."
        )


def small_logs(lazy, n_jobs=None):
    """Return lazy logs as ordinary ones where they are few, else None."""
    if lazy.n_rounds == 0:
        raise ValueError("the logs are empty: an audit needs at least one round.")
    # how many a filter keeps the audit itself will tell
    return None if lazy.n_rounds is None else all_rows(lazy, MOST_SAMPLED, n_jobs)


def lazy_audits(policies, lazy, random_state=0, n_jobs=None, *model):
    """Audit lazy logs, alone and for several policies."""
    # Counts, ranges, groups, propensities, times and rewards that are missing at the
    # end are those of all rounds, from one pass. What fits models, looks for copies or
    # asks a policy looks at 200,000 rounds drawn at random; what compares neighbours,
    # at as many from the start on.
    random = check_random_state(random_state)
    lazy = lazy.labelled(n_jobs)
    weight = [name for name in lazy.columns if name == "sample_weight"]  # of slates
    fields = lazy._needing(context=False, columns=weight)
    sums = sum_over(fields, _facts_of_part, None, n_jobs)
    if sums is None:
        raise ValueError("the logs are empty: an audit needs at least one round.")
    n_rounds = sums.log.n
    sample = lazy.sample(min(MOST_SAMPLED, n_rounds), random, n_jobs)._sampled()
    first = lazy.head(MOST_SAMPLED)
    sums.n_features = sample.n_features
    facts, found = facts_of_sums(sums)
    facts = {
        "rounds": n_rounds,
        "looked at one by one": _looked_at(sample, first),
        **facts,
    }
    parts = [_of_sums(sums, sample), *_of_rows(sample, first, random)]
    for told, more in parts:
        if "loggers" in told:
            told["loggers, of the sample"] = told.pop("loggers")
        facts |= told
        found += more
    facts |= reward_model_facts(sample, random, n_jobs, *model)
    whole, of_policies = len(sample) == n_rounds, {}
    for name, policy in policies.items():
        told, more = lazy_policy_findings(policy, lazy, sample, whole, random, n_jobs)
        of_policies[name] = Audit(facts | told, explained(found + more), True)
    return Audit(facts, explained(found)), of_policies


def _facts_of_part(logs, _):
    return FactSums(logs) if len(logs) else None


def _looked_at(sample, first):
    """Say which rounds were looked at."""
    return (
        f"{len(sample):,} rounds drawn at random (columns, copies, leaks, models, the "
        f"policy), and the first {len(first):,} (learning, shifted rows)"
    )


def _of_sums(sums, sample):
    """Return what the sums tell, and the order of the rounds of the sample."""
    facts, found = {}, []
    if sums.log.actions is not None:
        facts, found = sums.log._quick_propensity_findings
    return dict(facts), found + order_findings_of_sums(sums.log, sample)


def _of_rows(sample, first, random):
    """Yield what the checks find that look at rows."""
    single = isinstance(sample, BanditLogs)
    for check in LAZY_SAMPLED if single else LAZY_SLATES_SAMPLED:
        facts, found = check(sample, random)
        yield dict(facts), [_with_rows_of_log(one, sample) for one in found]
    for check in LAZY_FIRST if single else ():
        yield check(first, random)


# -- A policy on lazy logs: sums of all rounds, and what a sample of them shows --------

POLICY_NAME = "policy"
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
    check = slate_policy_findings if slates else policy_findings
    facts, found = check(policy, sample, random_state)
    found = [_with_rows_of_log(one, sample) for one in found]
    if slates or sample.propensity is None:
        of_all = []
        if has_learned(policy):
            learned = sum_over(lazy, _learned_in_part, policy, n_jobs)
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


def _with_rows_of_log(finding, sample):
    """Return a finding whose rows are those of the log."""
    rows = sample.row_id.position[np.array(finding.rows, dtype=np.intp)]
    return replace(finding, rows=rows.tolist())


def _learned_in_part(logs, policy):
    return LearnedRounds.of(policy, logs, by_position=True) if len(logs) else None


def _of_all_rounds(policy, lazy, n_jobs):
    """Return facts and findings of the weights of all rounds."""
    given = {"evaluators": {"IPS": IPS()}, "n_jobs": n_jobs}
    sums = summarize({POLICY_NAME: policy}, lazy, **given)._sums
    summary = sums.by_evaluator["IPS"][POLICY_NAME]
    overlap, tally, log = summary.overlap, summary.tally, sums.log
    target = SimpleNamespace(logged_only=not tally.table, array=None)
    found = []
    if POLICY_NAME in sums.learned:
        found = findings_of_learned(sums.learned[POLICY_NAME], has_groups(log))
    if is_huge(overlap.max_w):
        found.append(huge_finding(overlap.max_w, log))
        return {"largest weight": overlap.max_w}, found
    for one in overlap_findings(overlap, log, target):
        if one.name == "unsupported_mass":
            one = replace(one, actions=_never_logged_of_sums(tally, log))
        found.append(one)
    facts = weight_facts(overlap)
    if tally.table:
        facts["unsupported mass"] = overlap.missing_mass
    return facts, found


def _never_logged_of_sums(tally, log):
    """Return the never logged actions that the policy wants most."""
    wanted = dict(zip(tally.actions, tally.wanted.sum(axis=0).tolist(), strict=True))
    unseen = [plain(label) for label in log.actions[log._unseen].tolist()]
    unseen.sort(key=lambda label: -wanted.get(label, 0.0))
    return [label for label in unseen[:10] if wanted.get(label, 0.0) > 0]

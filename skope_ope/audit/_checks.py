# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The checks of an audit, what each of them needs, and where that is read.

Of logs in memory all is read; of lazy logs sums of all rounds, and some rounds.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from skope_ope.audit import _context_balance, _logger_findings
from skope_ope.audit import _policy_checks as policies
from skope_ope.evaluators._value_summary import summarize
from skope_ope.evaluators.core._drowned import (
    huge_finding,
    huge_weight_finding,
    is_huge,
)
from skope_ope.evaluators.core._engine import terms_of
from skope_ope.evaluators.core._overlap import Support
from skope_ope.evaluators.core._part_weights import LOGGED_PROBA, ActionShares
from skope_ope.evaluators.core._rounds import PositiveRounds, combined_weights
from skope_ope.evaluators.core._slate_target import SlateTarget
from skope_ope.evaluators.core._target import Target, refuse_learning
from skope_ope.evaluators.core._warnings import (
    findings_of_learned,
    has_groups,
    learned_findings,
)
from skope_ope.evaluators.parts._part_sums import sum_over
from skope_ope.evaluators.static._ips import IPS
from skope_ope.logs import SlateLogs
from skope_ope.logs._validation import plain
from skope_ope.logs.checks import (
    _adaptive_logger,
    _context_columns,
    _joined_rows,
    _leaks,
    _log_facts,
    _order,
    _propensity_findings,
    _propensity_fit,
    _slate_logger,
)
from skope_ope.logs.lazy._lazy_logs import all_rows
from skope_ope.logs.sums._group_sums import EVERY_GROUP
from skope_ope.policies._learned_rounds import LearnedRounds, has_learned

ACTIONS, SLATES = "actions", "slates"
ANY_KIND = ACTIONS, SLATES


class Check(NamedTuple):
    """A check of a log, or of a policy on it."""

    # It takes what it needs and a `random_state`, and returns facts by name and a list
    # of `Finding`.
    of: Callable
    needs: str
    kinds: tuple = ANY_KIND  # of logs


# What they need: "sums" of all rounds; the "log" in memory, or its sums beside a sample
# of its rounds; "rows", of which a sample will do; the "first" rounds in their order;
# "all rows"; and of a policy which rounds it has "learned" from, the sums of its
# "weights", and the "policy" on rows, or that there is "no weight". Facts are told in
# this order.
CHECKS = (
    Check(_log_facts.log_facts, "sums"),
    Check(_propensity_findings.propensity_findings, "log", (ACTIONS,)),
    Check(_logger_findings.logger_findings, "rows", (ACTIONS,)),
    Check(_logger_findings.exploration_findings, "rows", (ACTIONS,)),
    Check(_context_columns.column_findings, "rows"),
    Check(_context_columns.group_column_findings, "all rows"),
    Check(_order.order_findings, "log"),
    Check(_adaptive_logger.adaptive_logger_findings, "first", (ACTIONS,)),
    Check(_leaks.action_leak_findings, "rows", (ACTIONS,)),
    Check(_joined_rows.repeated_findings, "rows"),
    Check(_leaks.reward_leak_findings, "rows"),
    Check(_slate_logger.ended_by_reward_findings, "rows", (SLATES,)),
    Check(_slate_logger.pages_without_reward_findings, "rows", (SLATES,)),
    Check(_slate_logger.page_reward_findings, "rows", (SLATES,)),
    Check(_slate_logger.slate_logger_findings, "rows", (SLATES,)),
    Check(_joined_rows.shift_findings, "first", (ACTIONS,)),
    # after leaks, which explain what it finds by name
    Check(_propensity_fit.fitted_propensity_findings, "rows", (ACTIONS,)),
    Check(policies.no_weight_facts, "no weight"),
    Check(policies.learned_rounds_findings, "learned"),
    Check(policies.alike_rounds_findings, "policy"),
    Check(policies.unsupported_findings, "weights", (ACTIONS,)),
    Check(policies.action_findings, "policy", (ACTIONS,)),
    Check(policies.summed_weight_findings, "weights", (ACTIONS,)),
    Check(policies.weighted_reward_findings, "policy", (ACTIONS,)),
    Check(_context_balance.balance_findings, "policy", (ACTIONS,)),
    Check(_context_balance.region_findings, "policy", (ACTIONS,)),
    Check(policies.clipping_findings, "policy", (ACTIONS,)),
    Check(policies.slate_policy_findings, "policy", (SLATES,)),
)


def run_checks(kind, parts, random_state, facts=()):
    """Return facts and findings of all checks that parts of a log allow."""
    facts, findings = dict(facts), []
    for part in parts:
        earlier = set(facts)
        for check in CHECKS:
            if kind in check.kinds and check.needs in part.given:
                told, found = check.of(*part.given[check.needs], random_state)
                facts |= part.named(told, earlier)
                findings += map(part.placed, found)
    return facts, findings


# -- what is read: all of a log in memory, or sums and some rows of lazy logs ----------

MOST_SAMPLED = 200_000  # that are looked at one by one


@dataclass
class AuditPart:
    """What is read of a log at a time."""

    given: dict  # the arguments of checks by what they need
    sample: object = None  # the logs, where these are some rounds of a log
    apart: bool = False  # whether the names of all facts say that they are of some

    def named(self, facts, earlier):
        """Return facts; what a part before has told is here that of a sample."""
        if self.sample is None:
            return facts
        return {
            f"{name}, of the sample" if self.apart or name in earlier else name: fact
            for name, fact in facts.items()
        }

    def placed(self, finding):
        """Return a finding whose rows are those of the log."""
        if self.sample is None:
            return finding
        rows = self.sample.row_id.position[np.array(finding.rows, dtype=np.intp)]
        return replace(finding, rows=rows.tolist())


class MemorySource:
    """Logs in memory: checks get what they need in one part."""

    facts = ()

    def __init__(self, logs, random_state):
        self.rows, self.random = logs, random_state
        self.kind = SLATES if isinstance(logs, SlateLogs) else ACTIONS

    def parts(self):
        """Return what checks of the log read."""
        names = "rows", "first", "all rows"
        given = dict.fromkeys(names, (self.rows,))
        given |= {
            "sums": (_log_facts.FactSums(self.rows, EVERY_GROUP),),
            "log": (self.rows, self.rows),
        }
        return [AuditPart(given)]

    def parts_of(self, policy):
        """Return what checks of a policy read."""
        weight = getattr(self.rows, "sample_weight", None)
        if weight is not None and not weight.any():
            return [AuditPart({"no weight": ()})]
        rounds = policy_rounds(policy, self.rows)
        return [AuditPart(dict.fromkeys(("learned", "weights", "policy"), (rounds,)))]


class FileSource:
    """Lazy logs: sums of all rounds, rounds drawn at random, and the first ones."""

    # Counts, ranges, groups, propensities, times and rewards that are missing at the
    # end are those of all rounds, from one pass. What fits models, looks for copies or
    # asks a policy looks at 200,000 rounds drawn at random; what compares neighbours,
    # at as many from the start on.

    def __init__(self, lazy, random_state, n_jobs=None):
        self.random, self._n_jobs = check_random_state(random_state), n_jobs
        self._lazy = lazy = lazy.labelled(n_jobs)
        weight = [name for name in lazy.columns if name == "sample_weight"]  # of slates
        fields = lazy._needing(context=False, columns=weight)
        self._sums = sums = sum_over(fields, _fact_sums, None, n_jobs)
        if sums is None:
            raise ValueError("the logs are empty: an audit needs at least one round.")
        n = sums.log.n
        self.rows = lazy.sample(min(MOST_SAMPLED, n), self.random, n_jobs)._sampled()
        self._first = lazy.head(MOST_SAMPLED)
        sums.n_features = self.rows.n_features
        self.kind = SLATES if isinstance(self.rows, SlateLogs) else ACTIONS
        looked_at = (
            f"{len(self.rows):,} rounds drawn at random (columns, copies, leaks, "
            f"models, the policy), and the first {len(self._first):,} (learning, "
            "shifted rows)"
        )
        self.facts = {"rounds": n, "looked at one by one": looked_at}

    def parts(self):
        """Return what checks of the log read."""
        return [
            AuditPart({"sums": (self._sums,), "log": (self._sums.log, self.rows)}),
            AuditPart({"rows": (self.rows,)}, self.rows),
            AuditPart({"first": (self._first,)}),
        ]

    def parts_of(self, policy):
        """Return what checks of a policy read."""
        rows, lazy = self.rows, self._lazy
        whole = len(rows) == self._sums.log.n
        given = {"policy": (policy_rounds(policy, rows),)}
        if self.kind == SLATES or rows.propensity is None:
            grouped = has_groups(rows)
            learned = learned_of_files(policy, lazy, grouped, self._n_jobs)
            sums = {"learned": (SimpleNamespace(learned=learned),)}
            given |= {"weights": given["policy"]}
        else:
            found = PolicySums(policy, lazy, self._n_jobs)
            sums = {"learned": (found,), "weights": (found,)}
        return [AuditPart(sums), AuditPart(given, rows, apart=not whole)]


def _fact_sums(logs, _):
    return _log_facts.FactSums(logs) if len(logs) else None


def refuse_frame(lazy):
    """Raise where lazy logs are a frame, whose rounds are nowhere in order."""
    if lazy.partitions is None:
        raise TypeError(
            "an audit needs the order of the rounds, and single rounds. A lazy frame "
            "has neither. Write it to parquet files and scan these, "
            "scan_logs('folder', ...), or audit a sample: audit(logs.sample(200_000))."
        )


def small_logs(lazy, n_jobs=None):
    """Return lazy logs as ordinary ones where they are few, else None."""
    if lazy.n_rounds == 0:
        raise ValueError("the logs are empty: an audit needs at least one round.")
    # how many a filter keeps the audit itself will tell
    return None if lazy.n_rounds is None else all_rows(lazy, MOST_SAMPLED, n_jobs)


# -- a policy on a log -----------------------------------------------------------------


def policy_rounds(policy, logs):
    """Return what checks of a policy read of logs in memory."""
    slates = isinstance(logs, SlateLogs)
    return SlateRounds(policy, logs) if slates else PolicyRounds(policy, logs)


class PolicyOnLogs:
    """A policy and some logs."""

    def __init__(self, policy, logs):
        self.policy, self.all_logs = policy, logs

    @cached_property
    def learned(self):
        """The finding that the policy has learned from some of the rounds."""
        return learned_findings(self.policy, self.all_logs)


class SlateRounds(PolicyOnLogs):
    """A slate policy on the rounds of a log."""

    def __init__(self, policy, logs):
        super().__init__(policy, logs)
        self.target = SlateTarget(policy, logs, may_move=True)


class PolicyRounds(PolicyOnLogs):
    """A policy on the rounds of a log that enter estimates."""

    def __init__(self, policy, logs):
        super().__init__(policy, logs)
        self.target = Target(policy, logs)
        refuse_learning("an audit", self.target)
        self.positive = PositiveRounds(logs, combined_weights(logs, None))
        support, shares = Support(self.positive), ActionShares(self.positive)
        observers = [support, shares]
        given = logs, self.target, None, self.positive, observers
        [self.pi] = terms_of(LOGGED_PROBA, *given)
        self.overlap = support.overlaps[id(self.target)]
        self.wanted, self.unreached = shares.wanted, shares.unreached

    @property
    def logs(self):
        """The rounds that enter."""
        return self.positive.logs

    @property
    def known(self):
        """Whether the propensities are."""
        return self.all_logs.propensity is not None

    @property
    def has_weights(self):
        """Whether the weights are known, and their squares are numbers."""
        return self.known and not is_huge(self.overlap.max_w)

    @cached_property
    def w(self):
        """Weights of the rounds that enter, ndarray."""
        return self.positive.of(self.pi) / self.logs.propensity

    @cached_property
    def omega(self):
        """Their sample weights, of mean one, or None."""
        omega = self.positive.omega
        return None if omega is None else self.positive.of(omega)

    @cached_property
    def counted(self):
        """Weights times sample weights."""
        return self.w if self.omega is None else self.omega * self.w

    def huge_weight(self):
        """Return the finding that a weight leaves the range of floats."""
        return huge_weight_finding(self.logs, self.w)

    def never_logged(self):
        """Return the never logged actions that the policy wants most."""
        if self.wanted is None:
            return ()
        unseen = self.positive.unseen
        order = unseen[np.argsort(-self.wanted[unseen], kind="stable")][:10]
        actions = self.all_logs.actions
        return tuple(plain(actions[k]) for k in order if self.wanted[k] > 0)


class PolicySums:
    """A policy on all rounds of lazy logs: what sums of them tell."""

    known = True

    def __init__(self, policy, lazy, n_jobs=None):
        given = {"evaluators": {"IPS": IPS()}, "n_jobs": n_jobs}
        sums = summarize({"policy": policy}, lazy, **given)._sums
        summary = sums.by_evaluator["IPS"]["policy"]
        self.overlap, self.logs, self._tally = summary.overlap, sums.log, summary.tally
        self.target = SimpleNamespace(logged_only=not self._tally.table, array=None)
        learned = sums.learned.get("policy")
        grouped = has_groups(self.logs)
        self.learned = [] if learned is None else findings_of_learned(learned, grouped)

    def huge_weight(self):
        """Return the finding that a weight leaves the range of floats."""
        return huge_finding(self.overlap.max_w, self.logs)

    def never_logged(self):
        """Return the never logged actions that the policy wants most."""
        tally, logs = self._tally, self.logs
        wanted = tally.wanted.sum(axis=0).tolist()
        wanted = dict(zip(tally.actions, wanted, strict=True))
        unseen = [plain(label) for label in logs.actions[logs._unseen].tolist()]
        unseen.sort(key=lambda label: -wanted.get(label, 0.0))
        return [label for label in unseen[:10] if wanted.get(label, 0.0) > 0]


def learned_of_files(policy, lazy, grouped, n_jobs=None):
    """Return the finding that a policy has learned from some rounds of lazy logs."""
    if not has_learned(policy):
        return []
    learned = sum_over(lazy, _learned_in_part, policy, n_jobs)
    return findings_of_learned(learned, grouped)


def _learned_in_part(logs, policy):
    return LearnedRounds.of(policy, logs, by_position=True) if len(logs) else None

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What the checks of a policy read: its rounds in memory, or sums over files."""

from functools import cached_property
from types import SimpleNamespace

import numpy as np

from skope_ope.evaluators._value_summary import summarize
from skope_ope.evaluators.core._action_shares import LOGGED_PROBA, ActionShares
from skope_ope.evaluators.core._drowned import (
    huge_finding,
    huge_weight_finding,
    is_huge,
)
from skope_ope.evaluators.core._engine import terms_of
from skope_ope.evaluators.core._overlap import Support
from skope_ope.evaluators.core._positive_rounds import PositiveRounds
from skope_ope.evaluators.core._sample_weights import combined_weights
from skope_ope.evaluators.core._slate_target import SlateTarget
from skope_ope.evaluators.core._target import Target, refuse_learning
from skope_ope.evaluators.core._warnings import (
    findings_of_learned,
    has_groups,
    learned_findings,
)
from skope_ope.evaluators.parts._partition_sums import sum_over
from skope_ope.evaluators.static._ips import IPS
from skope_ope.logs._validation import plain
from skope_ope.policies._learned_rounds import LearnedRounds, has_learned

POLICY_NAME = "policy"


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
        sums = summarize({POLICY_NAME: policy}, lazy, **given)._sums
        summary = sums.by_evaluator["IPS"][POLICY_NAME]
        self.overlap, self.logs, self._tally = summary.overlap, sums.log, summary.tally
        self.target = SimpleNamespace(logged_only=not self._tally.table, array=None)
        learned = sums.learned.get(POLICY_NAME)
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

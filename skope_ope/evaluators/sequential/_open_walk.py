# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""A walk of one policy through a part of a log, which comes stretch by stretch."""

from copy import copy
from dataclasses import dataclass

import numpy as np

from skope_ope.evaluators.core._target import Target
from skope_ope.evaluators.sequential._acceptance import UniformStream
from skope_ope.evaluators.sequential._drns_model import EarlierRewards
from skope_ope.evaluators.sequential._history import LogSegment
from skope_ope.evaluators.sequential._history_overlap import history_overlap
from skope_ope.evaluators.sequential._log_facts import LogFacts
from skope_ope.evaluators.sequential._summed_history import RoundsOfPart
from skope_ope.evaluators.sequential._summed_sequential_value import Lessons
from skope_ope.evaluators.sequential._walk_sums import WalkSums, far_offset
from skope_ope.logs._known_range import known_range
from skope_ope.policies._adaptive import AdaptivePolicy
from skope_ope.policies._learned_rounds import LearnedRounds


@dataclass(frozen=True)
class KnownFacts:
    """What an acceptance rule may know of a log that is read in parts."""

    facts: LogFacts  # the facts
    # The smallest p / pi of the policy, where it was asked for
    smallest_ratio: float | None = None

    @property
    def smallest_propensity(self):
        """The smallest logged propensity."""
        return self.facts.smallest_propensity

    @property
    def most_offered(self):
        """The most actions that were ever offered."""
        return self.facts.most_offered


class OpenWalk:
    """A walk that goes on until the last round of its part."""

    def __init__(self, evaluator, policy, facts, task):
        self.evaluator, self.policy = copy(evaluator), policy
        self.facts, self.task, rows = facts, task, task.rows
        self._source = evaluator.reward_model_ if evaluator.requires.model else None
        self._stream = UniformStream(task.state).skip(rows.start)
        known = KnownFacts(facts, task.least)
        self._rule = evaluator._rule(known, rows.stop - rows.start)
        self._walk = self._sums = self._lessons = None
        self._learned = LearnedRounds(0, 0)

    def take(self, start, logs, before):
        """Take the next rounds."""
        target = Target(self.policy, logs)
        if isinstance(self._source, EarlierRewards):
            self.evaluator.reward_model_ = self._source.at(start, logs, before)
        adaptive = isinstance(target.policy, AdaptivePolicy)
        if self._walk is None:
            self._begin(target.policy, logs, adaptive)
        u = self._stream.take(len(logs))
        step = self._learning_step if adaptive else self._known_step
        trace, overlap = step(logs, u, target, RoundsOfPart(logs, self.facts.log))
        self._sums.take(logs, trace, overlap)
        self._learned += LearnedRounds.of(self.policy, logs, by_position=True)

    def _begin(self, policy, logs, adaptive):
        evaluator, task, log = self.evaluator, self.task, self.facts.log
        about = self._rule, task.number, not adaptive
        empty = logs[np.arange(0)]  # a slice would keep the partition alive
        self._walk = evaluator._walk(policy, empty, *about)
        offset = far_offset(log) if evaluator._follows_rewards else 0.0
        given = task.rows, offset, known_range(log)
        self._sums = WalkSums(evaluator, adaptive, *given)
        self._lessons = Lessons(self._walk) if adaptive else None

    def _known_step(self, logs, u, target, positive):
        terms, overlap = self.evaluator._known(target, positive)
        return self._walk.take(logs, u, list(terms)), overlap

    def _learning_step(self, logs, u, target, positive):
        trace = self._walk.take(logs, u, self.evaluator._predictor(logs, 0))
        overlap = told = None
        if logs.propensity is not None:
            segment = LogSegment(slice(0, len(logs)), trace)
            overlap = history_overlap([segment], positive)
        if self.evaluator._tells_weights(target.policy):
            told = np.maximum(1.0, trace.c * trace.pi / logs.propensity)
        self._lessons.take(logs, trace, told)
        return trace, overlap

    def finish(self):
        """Get the sums, the lessons, and which rounds the policy had learned from."""
        return self._sums.finish(), self._lessons, self._learned

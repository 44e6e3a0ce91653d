# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""One pass over a part of a log, for all policies and evaluators.

Evaluators enter a `PartPass` with their jobs; then every policy is asked once per
round, and the terms of all of them are summed as one.
"""

from functools import cached_property
from numbers import Real

import numpy as np

from skope_ope.evaluators.core._blocks import Observer, blocks
from skope_ope.evaluators.core._design import kind_of_sums, tallied_as
from skope_ope.evaluators.core._divergence_sums import (
    LoggerStrata,
    PooledDivergences,
    divergences_of,
    roots_of,
    with_roots,
)
from skope_ope.evaluators.core._engine import Job, offset_of, run
from skope_ope.evaluators.core._halves import in_upper_half
from skope_ope.evaluators.core._largest_deviation import Extremes, WeightedRewardTerms
from skope_ope.evaluators.core._loggers import Loggers
from skope_ope.evaluators.core._part_weights import (
    KINDS_OF_WEIGHTS,
    LOGGERS,
    ROUNDS,
    Wanted,
)
from skope_ope.evaluators.core._slates import add_slates
from skope_ope.evaluators.core._summary import SumsByDesign
from skope_ope.evaluators.core._sums import (
    REWARD,
    WEIGHT,
    JointSums,
    weighted_of,
    weights_of,
)
from skope_ope.evaluators.core._target import (
    Target,
    check_target_on,
    loggers_as_actions,
)
from skope_ope.evaluators.core._weight_bound import propensity_of_actions
from skope_ope.logs import SlateLogs

LONG_BLOCK = 50_000  # rows: more is asked of a block than in memory, call by call


class JobPlan:
    """What several evaluators want of several policies: jobs, weights, extremes."""

    # The rounds are arrays of blocks, see `PartPass`, or columns of a query. A pass
    # says where terms go (`sums_of`) and who takes extremes (`new_extremes`), takes
    # jobs (`add_job`), and has weights of policies observed (`add_weights`), and what
    # they want of arms (`add_wanted`).

    keeps_rounds = False  # the part is the whole, and its rounds can be asked again

    def __init__(self, policies, logs):
        self.policies, self.logs = policies, logs
        self.resolved = {}  # evaluators with a number for "auto", by name and policy
        self.joints, self.ends, self.tallies = {}, {}, {}
        self._targets, self._weights = {}, {}
        self._weighted, self._extremes = {}, {}

    def seen_by(self, evaluator):
        """Return the rounds as an evaluator sees them, one for all."""
        return self.by_logger if evaluator.sampling.arms == "logger" else self.logs

    def enter(self, name, evaluator):
        """Add the jobs of an evaluator on all policies."""
        source = evaluator.reward_model_ if evaluator.requires.model else None
        logs = self.seen_by(evaluator)
        for policy in self.policies:
            target = self.target(policy, logs)
            check_target_on(evaluator, target, logs)
            one = self.resolved.get((name, policy), evaluator)
            self.add((name, policy, None), one, target, source)

    def add(self, owner, evaluator, target, source=None):
        """Add the job of an evaluator on a policy, and return it."""
        policy, sampling, sums = owner[1], evaluator.sampling, self.sums_of(evaluator)
        kind, logs = (kind_of_sums(evaluator), *owner[1:]), self.seen_by(evaluator)
        job = Job(evaluator, target, source, owner, sums)
        seen = *kind, sampling.arms, id(source)
        if seen not in self._extremes:  # the first of those that see the same
            self._extremes[seen] = job.extremes = self.new_extremes()
        self.ends[owner] = self._extremes[seen]
        if sampling.arms is None:
            self.add_weights(evaluator.proposal, policy, target)
        else:
            self.add_wanted(weights_of(tallied_as(evaluator), policy), target, logs)
        if sampling.by == LOGGERS and self.keeps_rounds:
            self.add_weights("own_logger", policy, target)  # diagnostics of each
        if evaluator.requires.divergences is not None:
            self.add_divergences(job)
        self.add_job(job, logs)
        if evaluator.requires.weights:
            if kind not in self._weighted:
                of, owner = WeightedRewardTerms(evaluator.proposal), weighted_of(*kind)
                self._weighted[kind] = Job(of, target, None, owner, sums)
                self.add_job(self._weighted[kind])
            job.weighted = self._weighted[kind]
        return job


class PartPass(JobPlan):
    """What several evaluators want of several policies on the rounds of a part."""

    new_extremes = Extremes

    def __init__(
        self, part, policies=(), sources=(), n_total=None, log=None, keeps_rounds=False
    ):
        super().__init__(policies, part.all_logs)
        self.part, self.keeps_rounds = part, keeps_rounds
        self.sources, self.n_total = dict(sources), n_total
        self.offset = offset_of(self.logs.reward)
        self._log = log
        told = getattr(self.logs, "logger_proba", None) is not None
        self.facts = {None: {"logger_proba": told}}
        self._given, self._passes, self._terms, self.strata = [], {}, [], {}
        self._uppers = {}  # masks of the upper halves that designs have of their own

    @cached_property
    def loggers(self):
        """Who acted."""
        return Loggers(self.part)

    @cached_property
    def yes_no(self):
        """Whether all rewards are 0 or 1."""
        if self._log is not None:
            return self._log._says_yes_and_no or not self._log.n_rewarded
        reward = self.logs.reward
        return bool(((reward == 0) | (reward == 1)).all())

    @property
    def tells_bounds(self):
        """Whether the part tells how large weights may be that it does not hold."""
        logs = self.logs
        if self.keeps_rounds or (logs.reward_range is None and not self.yes_no):
            return False
        return logs.logging_proba is not None or propensity_of_actions(logs) is not None

    def sums_by(self, name, design=None, upper=None):
        """Return the `JointSums` of a design, by its name."""
        # `upper`: the rounds of its upper half, where that is its own
        if name not in self.joints:
            self._uppers[name] = upper
            if design is None:
                design = self.part.design if name == ROUNDS else self.loggers.design
            self.joints[name] = JointSums(design, self.offset)
        return self.joints[name]

    @cached_property
    def by_logger(self):
        """The rounds with loggers in the place of actions."""
        return loggers_as_actions(self.logs)

    def target(self, policy, logs=None, make=Target):
        """Return the target of a policy, one for all evaluators."""
        logs = self.logs if logs is None else logs
        key = policy, make, id(logs)
        if key not in self._targets:
            self._targets[key] = make(self.policies[policy], logs)
        return self._targets[key]

    def source(self, name, evaluator):
        """Return the reward source of an evaluator: one for equal models."""
        if name in self.sources:
            return self.sources[name]
        model = evaluator._model_of_fit
        model = evaluator.reward_model if model is None else model
        for known, source in self._given:
            if known is model or _same(known, model):
                return source
        source = evaluator._given_source(model, self.logs)
        if source is not None:
            self._given.append((model, source))
        return source

    def enter(self, name, evaluator):
        """Add the jobs of an evaluator on all policies."""
        if isinstance(self.logs, SlateLogs):
            add_slates(self, name, evaluator)
        else:
            super().enter(name, evaluator)

    def sums_of(self, evaluator):
        """Return the `JointSums` over the strata of an evaluator."""
        sampling = evaluator.sampling
        if sampling.by == ROUNDS:
            return self.sums_by(ROUNDS)
        if sampling.arms is not None:
            return self._sums_of_arms(evaluator)
        if sampling.name not in self.strata:
            strata = LoggerStrata(self.loggers, sampling.n_folds)
            self.strata[sampling.name] = strata
        return self.sums_by(sampling.name, self.strata[sampling.name].design)

    def _sums_of_arms(self, evaluator):
        """Return those over the rounds of every arm."""
        logs = self.seen_by(evaluator)
        name, code, labels = "actions", logs.action_index, logs.actions
        if evaluator.requires.mixture:  # of loggers, who tell all blocks who acted
            who = self.loggers.logs
            name, code, labels = "arms", who.logger_index, who.loggers
        elif logs is not self.logs:  # a pass of its own
            name = "arms of loggers"
        return self.sums_by(name, self.part.design.with_strata(code, labels.tolist()))

    def add_wanted(self, owner, target, logs):
        """Have observed what a policy wants of all arms."""
        if owner not in self.tallies:
            observer = Wanted(target, logs.actions)
            self.tallies[owner] = observer.tally
            self.pass_over(logs).observers.append(observer)

    def add_divergences(self, job):
        """Add what divergences of the loggers follow from."""
        name = job.evaluator.sampling.name
        strata = self.strata[name]
        if job.evaluator.requires.divergences == "pooled":
            labels = self.loggers.stated_labels
            job.pooled = PooledDivergences(labels, strata.fold, strata.n_folds)
            self.ends[divergences_of(job.key)] = job.pooled
        elif strata.design.omega is not None:
            roots = self.sums_by(f"{name}, roots", with_roots(strata.design))
            about = job.evaluator, job.target, job.source, roots_of(job.key), roots
            self.add_job(Job(*about))

    def add_job(self, job, logs=None):
        """Add a job, over the rounds as it sees them."""
        self.pass_over(self.logs if logs is None else logs).jobs.append(job)

    def pass_over(self, logs):
        """Return the `Pass` over the rounds, as some evaluators see them."""
        if id(logs) not in self._passes:
            self._passes[id(logs)] = Pass(logs)
        return self._passes[id(logs)]

    def add_weights(self, kind, policy, target):
        """Have weights of a policy observed: "logger", "own_logger" or "mixture"."""
        if kind not in self._weights:
            made = self._weights[kind] = KINDS_OF_WEIGHTS[kind](self)
            self.pass_over(self.logs).observers.append(made)
        self._weights[kind].names[id(target)] = policy

    def add_terms(self, owner, sums, terms):
        """Add the terms of all rounds, where they are known by now."""
        self._terms.append((owner, sums, terms))

    def run(self, kept=None, n_jobs=1):
        """Sum what was added; `kept`: what keeps numbers of the rounds."""
        for one in self._passes.values():
            observers, jobs = one.observers, one.jobs
            if "loggers" in self.__dict__:  # they tell the others who acted
                observers = [self.loggers, *observers]
            if kept is not None:
                observers, jobs = observers + kept.bounds_in_pass, jobs + kept.in_pass
            if not self.keeps_rounds:
                observers = [*observers, _Rewards([*jobs, *observers])]
            run(
                one.logs,
                jobs,
                self.part,
                observers,
                self.offset,
                tables=any(see.needs_tables for see in one.observers),
                n_jobs=n_jobs,
                rows=None if self.keeps_rounds else LONG_BLOCK,
            )
            for job in one.jobs:
                job.kept = kept
        if not self.keeps_rounds:  # else bounds of weights are found where asked
            for observer in self._weights.values():
                observer.finish()
        self._sum_terms()
        found = {name: one.finished() for name, one in self.joints.items()}
        self.sums = SumsByDesign(found)

    def release(self):
        """Forget the rounds: what holds each other keeps those of several parts."""
        self.__dict__.clear()

    def _sum_terms(self):
        """Sum the terms that were known beforehand."""
        if not self._terms:
            return
        for name, sums in self.joints.items():
            upper = self._uppers[name]
            upper = in_upper_half(self.logs) if upper is None else upper
            for one in blocks(len(self.logs)):
                if name == ROUNDS:
                    reward = self.logs.reward[one.rows] - self.offset
                    sums.put(REWARD, (reward,), WEIGHT)
                for owner, where, terms in self._terms:
                    if where is sums:
                        sums.put(owner, tuple(term[one.rows] for term in terms))
                half = np.flatnonzero(upper[one.rows])
                sums.add(sums.frame.block(one.low, one.high, half))


class Pass:
    """Jobs and observers of a pass over some rounds."""

    def __init__(self, logs):
        self.logs, self.jobs, self.observers = logs, [], []


class _Rewards(Observer):
    """Sums the logged rewards beside the terms, for differences from the logger."""

    needs_tables = False

    def __init__(self, others):
        self.joints = {one.sums for one in others if isinstance(one.sums, JointSums)}

    def begin(self, block):
        """Put the rewards of a block."""
        for one in self.joints:
            offset = one.offset
            reward = block.reward - offset if offset else block.reward
            one.put(REWARD, (reward,), WEIGHT)


def _same(one, other):
    """Whether two stand for the same predictions: equal numbers or names."""
    return isinstance(one, (str, Real)) and type(one) is type(other) and one == other

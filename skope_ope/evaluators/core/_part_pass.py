# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""One pass over a part of a log, for all policies and evaluators.

Evaluators enter a `PartPass` with their jobs; then every policy is asked once per
round, and the terms of all of them are summed as one.
"""

from functools import cached_property
from math import ceil, log2
from numbers import Real

from skope_ope.evaluators.core._blocks import BLOCK, blocks
from skope_ope.evaluators.core._engine import FAR, run
from skope_ope.evaluators.core._extremes import Extremes
from skope_ope.evaluators.core._halves import WEIGHT
from skope_ope.evaluators.core._largest_deviation import WeightedRewards
from skope_ope.evaluators.core._loggers import Loggers
from skope_ope.evaluators.core._part_weights import KINDS
from skope_ope.evaluators.core._stack import Stack, StackedJob
from skope_ope.evaluators.core._target import Target
from skope_ope.evaluators.core._weight_limits import by_action_alone

ROUNDS, LOGGERS = "rounds", "loggers"  # designs: one sample, or one per logger
LONG_BLOCK = 50_000  # rows: more is asked of a block than in memory, call by call
REWARD = ("reward",)  # owner of the logged rewards


class PartPass:
    """What several evaluators want of several policies on the rounds of a part."""

    def __init__(self, part, policies, sources, n_total, log):
        self.part, self.logs = part, part.all_logs
        self.policies, self.sources, self.n_total = policies, sources, n_total
        self.offset = offset_of(self.logs.reward)
        self._log = log
        self.stacks, self.places, self.ends, self.tallies = {}, {}, {}, {}
        self.combines = {}  # of slates: functions of the means, by owner
        self._targets, self._given, self._views = {}, [], {}
        self._passes, self._weights, self._terms = {}, {}, []
        self._weighted = set()

    @cached_property
    def loggers(self):
        """Who acted."""
        return PartLoggers(self.part)

    @cached_property
    def yes_no(self):
        """Whether all rewards are 0 or 1."""
        if self._log is not None:
            return self._log._says_yes_and_no or not self._log.n_rewarded
        reward = self.logs.reward
        return bool(((reward == 0) | (reward == 1)).all())

    @cached_property
    def by_action(self):
        """Propensities of the actions, where they belong to these alone."""
        return by_action_alone(self.logs)

    @property
    def tells_limits(self):
        """Whether the part tells how large weights may be that it does not hold."""
        logs = self.logs
        bounded = logs.reward_range is not None or self.yes_no
        return bounded and (
            logs.logging_proba is not None or self.by_action is not None
        )

    def stack(self, name, design=None):
        """Return the `Stack` of a design, by its name."""
        if name not in self.stacks:
            design = self.part.design if design is None else design
            self.stacks[name] = Stack(design, self.offset)
        return self.stacks[name]

    def stack_of_loggers(self):
        """Return the one whose strata are the loggers."""
        return self.stack(LOGGERS, self.loggers.design)

    def seen_as(self, view):
        """Return the rounds as a function of the logs shows them, one for all."""
        if view not in self._views:
            self._views[view] = view(self.logs)
        return self._views[view]

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

    def add(self, owner, formula, stack, target, source=None):
        """Add the job of an evaluator on a policy."""
        job = StackedJob(formula, target, source, owner=owner, stack=stack)
        job.extremes, job.takes_extremes = Extremes(), True
        self.ends[owner] = job.extremes
        self.add_job(job)
        weighted = "weighted", formula._weight_kind, owner[-1]
        if formula._uses_weights and weighted not in self._weighted:
            self._weighted.add(weighted)
            rewards = WeightedRewards(formula)
            self.add_job(StackedJob(rewards, target, None, owner=weighted, stack=stack))

    def add_job(self, job, logs=None):
        """Add a job, over the rounds as it sees them."""
        self.pass_over(self.logs if logs is None else logs).jobs.append(job)

    def pass_over(self, logs):
        """Return the `Pass` over the rounds, as some evaluators see them."""
        return self._passes.setdefault(id(logs), Pass(logs))

    def add_weights(self, kind, policy, target):
        """Have weights of a policy observed: "plain", "loggers" or "mixture"."""
        if kind not in self._weights:
            made = self._weights[kind] = KINDS[kind](self)
            self.pass_over(self.logs).observers.append(made)
        self._weights[kind].names[id(target)] = policy

    def add_terms(self, owner, stack, terms):
        """Add the terms of all rounds, where they are known by now."""
        self._terms.append((owner, stack, terms))

    def run(self):
        """Sum what was added."""
        for one in self._passes.values():
            observers = one.observers
            if "loggers" in self.__dict__:  # they tell the others who acted
                observers = [self.loggers, *observers]
            run(
                one.logs,
                one.jobs,
                self.part,
                [*observers, _Rewards(one.stacks)],
                self.offset,
                tables=any(getattr(see, "needs_tables", False) for see in observers),
                rows=LONG_BLOCK,
            )
            for job in one.jobs:
                job.finish(self)
        for observer in self._weights.values():
            observer.finish()
        self._sum_terms()
        for name, stack in self.stacks.items():
            stack.flush()
            for owner, numbers in stack.places.items():
                self.places[name if owner == REWARD else owner] = name, numbers

    def release(self):
        """Forget the rounds: what holds each other keeps those of several parts."""
        self.__dict__.clear()

    def _sum_terms(self):
        """Sum the terms that were known beforehand."""
        if not self._terms:
            return
        for name, stack in self.stacks.items():
            for one in blocks(len(self.logs)):
                block = stack.design.block(one.low, one.high)
                if name == ROUNDS:
                    reward = self.logs.reward[one.rows] - self.offset
                    stack.put(REWARD, block, (reward,), WEIGHT)
                for owner, where, terms in self._terms:
                    if where is stack:
                        some = tuple(term[one.rows] for term in terms)
                        stack.put(owner, block, some)


class Pass:
    """Jobs and observers of a pass over some rounds."""

    def __init__(self, logs):
        self.logs, self.jobs, self.observers = logs, [], []

    @property
    def stacks(self):
        """Where the terms go, each once."""
        some = [job.stack for job in self.jobs]
        some += [one.stack for one in self.observers if one.stack is not None]
        return {id(stack): stack for stack in some}.values()


class PartLoggers(Loggers):
    """Tells the blocks who acted; what a policy does, others see."""

    stack = None

    def see(self, key, target):
        """Nothing is to be done."""


class _Rewards:
    """Sums the logged rewards beside the terms, for differences from the logger."""

    needs_tables = False

    def __init__(self, stacks):
        self.stacks = list(stacks)

    def begin(self, block):
        """Put the rewards of a block."""
        for stack in self.stacks:
            offset = stack.offset
            reward = block.reward - offset if offset else block.reward
            stack.put(REWARD, block, (reward,), WEIGHT)

    def see(self, key, target):
        """Nothing is to be done."""


def offset_of(reward):
    """Return what is subtracted from rewards that lie far from zero, or 0."""
    # Parts of a log find the same number, as long as their rewards are alike: a
    # multiple of a power of two that is about as large as their range.
    low, high = float(reward[:BLOCK].min()), float(reward[:BLOCK].max())
    middle = low + (high - low) / 2
    if not abs(middle) > FAR * (high - low):
        return 0.0
    if not high > low:
        return middle
    step = 2.0 ** ceil(log2(high - low))
    return step * round(middle / step)


def _same(one, other):
    """Whether two stand for the same predictions: equal numbers or names."""
    return isinstance(one, (str, Real)) and type(one) is type(other) and one == other

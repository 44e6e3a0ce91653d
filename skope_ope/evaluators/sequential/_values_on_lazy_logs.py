# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Values of sequential evaluators on logs that are read part by part.

One pass over the columns tells what must be known beforehand; then every policy,
evaluator and part with a history of its own is a simulation, and these run at the same
time.
"""

from copy import copy
from dataclasses import dataclass
from functools import reduce
from math import inf
from operator import add

import numpy as np

from skope_ope._parallel import merge_parts, named, task_count
from skope_ope.evaluators.core._drowned import beyond_floats
from skope_ope.evaluators.core._engine import terms_of
from skope_ope.evaluators.core._target import Target
from skope_ope.evaluators.core._warnings import warnings_of_rounds
from skope_ope.evaluators.sequential._acceptance import UniformStream, stream_state
from skope_ope.evaluators.sequential._drns_model import (
    EarlierMeans,
    MadeInPass,
    later_rounds_warning,
)
from skope_ope.evaluators.sequential._history import (
    JUST_PI,
    History,
    RoundsOfPart,
    Stretch,
)
from skope_ope.evaluators.sequential._log_facts import OrderedLogFacts, smallest_ratio
from skope_ope.logs.lazy._partitions import read_partitions
from skope_ope.policies._adaptive import AdaptivePolicy
from skope_ope.policies._learned_rounds import LearnedRounds
from skope_ope.reward_models._cross_fit import MeanReward
from skope_ope.reward_models._part_models import part_models


def sequential_values(
    policies,
    evaluators,
    lazy,
    *,
    sources=None,
    n_jobs=None,
    verbose=0,
    counted=None,
    states=None,
):
    """Go through a lazy log once for every policy, evaluator and part of it."""
    check_in_order(", ".join(evaluators), lazy)
    lazy = lazy.labelled(n_jobs=n_jobs)
    for evaluator in evaluators.values():
        evaluator._validate_params()
    columns = lazy._needing(context=False, columns=())
    facts = facts_of(columns.partitions, evaluators, n_jobs, verbose)
    sources = dict(sources or {})
    for name, evaluator in evaluators.items():
        if not evaluator.requires.model:
            continue
        known = name in sources
        own = is_one_mean(sources[name]) if known else evaluator.reward_model is None
        if own and (facts.propensities_drift or evaluator._takes_earlier(None)):
            check_no_groups(facts.log)
            sources[name] = MadeInPass()
        elif not known:
            sources |= part_models({name: evaluator}, None, None, lazy, n_jobs=n_jobs)
    found = Simulations(policies, evaluators, lazy.partitions, facts, sources, states)
    return found.values(n_jobs, verbose, counted)


def is_one_mean(source):
    """Whether a source predicts one mean reward for all actions, by fold."""
    models = list(getattr(source, "models_", {}).values())
    return bool(models) and all(
        isinstance(one, MeanReward) and not one.by_action for one in models
    )


def check_in_order(who, lazy):
    """Raise where lazy logs have no order in which to take their rounds."""
    if lazy.partitions is None:
        raise TypeError(
            f"{who} takes rounds in the order of time, and a lazy frame has no "
            "order. Sort the frame by time, write it to parquet files, and scan "
            "these."
        )


def check_no_groups(log):
    """Raise where rounds of groups have no mean reward of earlier rounds."""
    if log.groups is not None:
        raise ValueError(
            "reward_model=None is the mean reward of earlier rounds if the logger "
            "learned or the folds follow time. With groups this mean is not known when "
            "a log is read in parts. Pass a number, the name of a column, or "
            "FrozenEstimator(model) of earlier rounds as reward_model. Or scan the log "
            "without its groups."
        )


def facts_of(partitions, evaluators, n_jobs=None, verbose=0):
    """Return the `OrderedLogFacts` of a log, which the evaluators have checked."""
    n = task_count(len(partitions)) if partitions else 0
    tasks = [partitions[rows] for rows in even_parts(len(partitions), n)]
    settings = {"n_jobs": n_jobs, "verbose": verbose}
    facts = merge_parts(_facts, tasks, list(evaluators.values()), **settings)
    if facts is None or not facts.n_rounds:
        raise ValueError("the logs are empty: an estimate needs at least one round.")
    if facts.log._weighs_unevenly:
        raise ValueError(no_weights(next(iter(evaluators.values()))))
    return facts


def _facts(part, evaluators):
    """Return the facts of a partition."""
    logs = part.read()
    if logs is not None and len(logs):
        for evaluator in evaluators:
            evaluator._check_kind(logs)
            evaluator.check_logs(logs)
    drift = any(evaluator.requires.model for evaluator in evaluators)
    return OrderedLogFacts(logs).without_rounds(drift)


@dataclass(frozen=True)
class Simulation:
    """A simulation in a part of the log, ready to travel to another process."""

    evaluator: str  # their names
    policy: str  # their names
    number: int  # number of the part
    rows: slice  # its rows
    state: object  # where the uniform numbers of the whole log come from
    # The smallest p / pi of the policy, where the evaluator asks for it
    least: float | None = None

    @property
    def name(self):
        """What messages call it."""
        what = self.evaluator
        return what if self.policy is None else f"{what} of {self.policy!r}"


STRETCH = 200_000  # rounds that are taken at once, with a dozen arrays each


class Simulations:
    """Simulations in a log of which the facts are known."""

    def __init__(self, policies, evaluators, partitions, facts, sources, states=None):
        self.states = states or {}
        self.policies, self.partitions, self.facts = policies, partitions, facts
        self.evaluators = {
            name: self._ready(name, evaluator, sources)
            for name, evaluator in evaluators.items()
        }

    def _ready(self, name, evaluator, sources):
        """Return a copy of an evaluator that has what it knows after a fit."""
        out = copy(evaluator)
        out.actions_ = self.facts.log.actions
        if out.requires.model:
            out.reward_model_ = sources[name]
        return out

    def values(self, n_jobs=None, verbose=0, counted=None):
        """Return the values by evaluator and policy."""
        n_rounds = self.facts.n_rounds
        head = self._head()
        for policy, what in self.policies.items():
            if hasattr(what, "__array__") or isinstance(what, (list, tuple)):
                raise TypeError(
                    f"policy {policy!r} is an array, and a log that is read in "
                    "parts cannot match its rows. Name its columns in "
                    "scan_logs(..., columns={'pi': [...]}) and pass 'pi'."
                )
            target = Target(what, head)
            learns = isinstance(target.policy, AdaptivePolicy)
            for evaluator in self.evaluators.values():
                evaluator._check_settings(learns, target, n_rounds)
        settings = {"n_jobs": n_jobs, "verbose": verbose}
        asking = [
            name
            for name, one in self.evaluators.items()
            if getattr(one, "cmax", None) == "target"
        ]
        least = self._least_ratios(settings) if asking else None
        tasks = []
        for name, evaluator in self.evaluators.items():
            state = self.states.get(name)
            if state is None:
                state = stream_state(evaluator.random_state, n_rounds)
            for policy in self.policies:
                known = least[policy] if name in asking else None
                for number, rows in enumerate(even_parts(n_rounds, evaluator.n_splits)):
                    tasks.append(
                        (Simulation(name, policy, number, rows, state, known),)
                    )
        found = {}
        for task, *history in merge_parts(_simulated, tasks, self, **settings):
            found.setdefault((task.evaluator, task.policy), []).append(history)
        return {
            name: {
                policy: self._value(name, policy, found[name, policy], counted)
                for policy in self.policies
            }
            for name in self.evaluators
        }

    def _head(self):
        """Return the first round, a copy that does not keep its partition alive."""
        for _, logs in read_partitions(self.partitions):
            if logs is not None:
                return logs[np.arange(1)]
        raise ValueError("the files changed while they were read. Scan them again.")

    def _least_ratios(self, settings):
        """Return the smallest p / pi by policy, 1 where it wants nothing."""
        tasks = [(part,) for part in self.partitions]
        found = merge_parts(_ratios, tasks, (self.policies, self.facts), **settings)
        least = {name: min(one[name] for one in found) for name in self.policies}
        return {name: one if one < inf else 1.0 for name, one in least.items()}

    def _value(self, name, policy, found, counted):
        """Return the value of a policy from its simulations."""
        evaluator, facts = self.evaluators[name], self.facts
        parts, learned = zip(*found, strict=True)
        with beyond_floats():
            history = History(evaluator, parts, facts)
            value = evaluator._value(history, self.policies[policy], counted)
        warned = warnings_of_rounds(reduce(add, learned), facts.log)
        return value._with_warnings([*warned, *self._model_warnings(evaluator)])

    def _model_warnings(self, evaluator):
        """Get a warning where a model of later rounds predicts those of a learner."""
        # In memory a fit warns of that.
        folds = evaluator.requires.model and hasattr(evaluator.reward_model_, "models_")
        if not (folds and self.facts.propensities_drift):
            return []
        remedy = (
            "Pass FrozenEstimator(model) of earlier rounds, or reward_model=None, "
            "the mean reward of earlier rounds."
        )
        return [later_rounds_warning(remedy)]

    def history_of(self, task):
        """Return the history in the rows of a task, and what the policy had learned."""
        policy, facts, rows = self.policies[task.policy], self.facts, task.rows
        evaluator = self.evaluators[task.evaluator]
        given = evaluator.reward_model_ if evaluator.requires.model else None
        stream = UniformStream(task.state).skip(rows.start)
        state, learned = None, LearnedRounds(0, 0)
        for part, start, rounds, before in self._rounds(rows):
            try:
                logs, source = rounds.pop(), given
                if isinstance(given, MadeInPass):
                    source = EarlierMeans(logs, facts, start, before)
                u = stream.take(len(logs))
                stretch = Stretch(logs, facts, Target(policy, logs), u, source)
                if state is None:
                    about = rows, task.number, False, task.least
                    state = evaluator._begin(stretch, facts, *about)
                with beyond_floats():
                    state = evaluator.advance(stretch, state)
                learned += LearnedRounds.of(policy, logs, by_position=True)
                del logs, stretch  # before the next partition is read
            except Exception as error:
                raise named(error, part.name) from error
        return state.finish(), learned

    def _rounds(self, rows):
        """Yield stretches of some rows, and for each the part in which it lies."""
        # Its first row, a list of its rounds, and the sum of the rewards of all rounds
        # before. A caller that pops the rounds frees a partition before the next one is
        # read.
        start, reward, some = 0, 0.0, []
        sizes = zip(self.facts.sizes, self.facts.reward_sums, strict=True)
        for part, (size, total) in zip(self.partitions, sizes, strict=True):
            low, high = max(rows.start - start, 0), min(rows.stop - start, size)
            if low < high:
                some.append((part, start, low, high, size, reward))
            start, reward = start + size, reward + total
        reading = read_partitions([part for part, *_ in some])
        for part, start, low, high, size, reward in some:
            _, logs = next(reading)
            found = 0 if logs is None else len(logs)
            if found != size:
                raise ValueError(
                    f"{part.name} had {size} rounds, and now has {found}: the "
                    "files changed while they were read. Scan them again."
                )
            for first in range(low, high, STRETCH):
                stop = min(first + STRETCH, high)
                before = reward + float(logs.reward[:first].sum())
                rounds = [logs if stop - first == size else logs[first:stop]]
                yield part, start + first, rounds, before
            del logs


def _simulated(task, simulations):
    """Return what a simulation found, in a list to which others add theirs."""
    return [(task, *simulations.history_of(task))]


def _ratios(part, given):
    """Return the least ratios of the policies in a partition, in a list."""
    policies, facts = given
    logs, found = part.read(), dict.fromkeys(policies, inf)
    if logs is None or not len(logs):
        return [found]
    for name, policy in policies.items():
        about = logs, Target(policy, logs), None, RoundsOfPart(logs, facts)
        found[name] = smallest_ratio(*terms_of(JUST_PI, *about), logs.propensity, inf)
    return [found]


def no_weights(evaluator):
    """Return why an evaluator refuses sample weights."""
    return (
        f"{type(evaluator).__name__} builds a history of rounds, which takes no "
        "sample_weight. Use a static evaluator, or logs without weights."
    )


def even_parts(n_rounds, n_parts):
    """Return the rows of consecutive parts of nearly the same size."""
    bounds = np.linspace(0, n_rounds, n_parts + 1).astype(int).tolist()
    return [slice(*bounds[i : i + 2]) for i in range(n_parts)]

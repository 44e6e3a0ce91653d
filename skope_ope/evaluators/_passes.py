# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Values of several policies by several evaluators, with what they can share."""

from functools import partial

from skope_ope._parallel import run_tasks
from skope_ope.evaluators.core._jobs import evaluate_jobs, prepared_job
from skope_ope.evaluators.core._positive_rounds import PositiveRounds
from skope_ope.evaluators.core._sample_weights import combined_weights
from skope_ope.evaluators.core._target import Target
from skope_ope.evaluators.core._warnings import rounds_warnings
from skope_ope.evaluators.static._base import StaticEvaluator
from skope_ope.evaluators.static._direct_simulation import simulates
from skope_ope.logs import BanditLogs


def values_of(
    policies, evaluators, shared, sample_weight=None, n_jobs=None, keep=False
):
    """Return the value of every (policy, evaluator)."""
    # Evaluators that take part in one pass over the rounds share it; the others are
    # fitted once each, so that all policies meet the same random numbers.
    logs = shared.logs
    positive = PositiveRounds(logs, combined_weights(logs, sample_weight))
    together, apart = _divided(policies, evaluators, logs)
    found = _in_one_pass(together, policies, shared, positive, n_jobs, keep)
    for walks in (False, True) if apart else ():
        some = [
            pair
            for pair in apart
            if evaluators[pair[1]].__sklearn_tags__().order_dependent == walks
        ]
        found |= _by_themselves(
            some, policies, evaluators, shared, sample_weight, n_jobs, walks
        )
    return {
        (policy, name): found[policy, name]._at(logs)
        for policy in policies
        for name in evaluators
    }


def _divided(policies, evaluators, logs):
    """Return who shares a pass, by policy, and the pairs of those that do not."""
    together, apart = {}, []
    for policy, given in policies.items():
        # slates have targets of their own
        target = Target(given, logs) if isinstance(logs, BanditLogs) else None
        part = {}
        for name, evaluator in evaluators.items():
            if target is not None and _takes_part(evaluator, target):
                part[name] = evaluator
            else:
                apart.append((policy, name))
        if part:
            together[policy] = target, part
    return together, apart


def _takes_part(evaluator, target):
    """Whether a pass that is shared with other evaluators can value a policy."""
    return isinstance(evaluator, StaticEvaluator) and not simulates(evaluator, target)


def _in_one_pass(together, policies, shared, positive, n_jobs, keep):
    """Return the values of those that share a pass over the rounds."""
    if not together:
        return {}
    jobs = {
        (policy, name): prepared_job(evaluator, target, positive, shared)
        for policy, (target, part) in together.items()
        for name, evaluator in part.items()
    }
    values = evaluate_jobs(list(jobs.values()), positive, n_jobs, keep)
    warned = {p: rounds_warnings(policies[p], shared.logs) for p in together}
    return {
        (policy, name): value._with_warnings(warned[policy])
        for (policy, name), value in zip(jobs, values, strict=True)
    }


def _by_themselves(
    pairs, policies, evaluators, shared, sample_weight, n_jobs, processes
):
    """Return the values of evaluators that make a separate pass."""
    # Walks through a log are loops of the interpreter: they need processes.
    names = list(dict.fromkeys(name for _, name in pairs))
    prefer = "processes" if processes else "threads"
    fits = [partial(shared.fitted, evaluators[name]) for name in names]
    fitted = dict(zip(names, run_tasks(fits, n_jobs, prefer=prefer), strict=True))
    # on the rounds of fit, which are those of the table
    calls = [
        partial(fitted[name]._result, policies[policy], None, sample_weight)
        for policy, name in pairs
    ]
    return dict(zip(pairs, run_tasks(calls, n_jobs, prefer=prefer), strict=True))

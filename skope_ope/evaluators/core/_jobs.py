# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Values of several jobs on rounds in memory, from one pass; and their rounds."""

from functools import partial

from skope_ope.evaluators.core._auto import RowsInMemory
from skope_ope.evaluators.core._drowned import beyond_floats
from skope_ope.evaluators.core._known_of_sums import known_of_sums
from skope_ope.evaluators.core._largest_deviation import WeightedRounds
from skope_ope.evaluators.core._logger_mixture import LoggerMixture
from skope_ope.evaluators.core._part_pass import PartPass
from skope_ope.evaluators.core._plain_weights import (
    plain_weights_of,
)
from skope_ope.evaluators.core._policy_value import PolicyValue
from skope_ope.evaluators.core._requires import check_refittable
from skope_ope.evaluators.core._rows_of_pass import (
    BoundOfJob,
    RowsOfPass,
    rows_of_job,
)
from skope_ope.evaluators.core._summary import Summary, summary_of
from skope_ope.evaluators.core._sums import weights_of
from skope_ope.evaluators.core._tally import RoundCounts
from skope_ope.evaluators.core._target import check_target

MOST_POLICIES = 32  # of a pass: there are products of the terms of any two of them


def evaluate_jobs(jobs, positive, n_jobs=1, keep=False):
    """Return values: of (evaluator, policy, model), or those and an outcome, each."""
    targets, found = list(dict.fromkeys(id(target) for _, target, *_ in jobs)), {}
    for start in range(0, len(targets), MOST_POLICIES):
        some = set(targets[start : start + MOST_POLICIES])
        here = [k for k, (_, target, *_) in enumerate(jobs) if id(target) in some]
        whole = passed([jobs[k] for k in here], positive, n_jobs, keep)
        with beyond_floats():
            for k, job in zip(here, whole.jobs, strict=True):
                found[k] = _value_of(job, whole)
        whole.release()
    return [found[k] for k in range(len(jobs))]


def passed(jobs, positive, n_jobs=1, keep=False):
    """Return the pass over rounds in memory that jobs share, with their `Job`."""
    n = positive.n
    whole = PartPass(positive, n_total=n, keeps_rounds=True)
    whole.jobs = [
        whole.add((number, id(target), *(outcome or [None])), evaluator, target, source)
        for number, (evaluator, target, source, *outcome) in enumerate(jobs)
    ]
    whole.run(RowsOfPass(whole.jobs, positive, keep), n_jobs)
    whole.counts, whole.overlaps, whole.weighted = RoundCounts.of(positive), {}, {}
    return whole


def prepared_job(evaluator, target, positive, models=None):
    """Return what a pass takes: an evaluator, its policy, and what predicts rewards."""
    # `models`: what evaluators of one call share; None: those of fit.
    check_target(evaluator, target)
    source = _source_of(evaluator, target, positive, models)
    rows = RowsInMemory(target, source, positive)
    return evaluator.resolved(positive.facts, rows), target, source


def _source_of(evaluator, target, positive, models):
    """Return what predicts the rewards for an evaluator, or None."""
    requires = evaluator.requires
    if not requires.model:
        return None
    if not requires.refits:
        return (
            evaluator.reward_model_ if models is None else models.source_for(evaluator)
        )
    logs = positive.all_logs
    if models is None:
        rows, model, cv = evaluator.logs_, evaluator.model_to_refit_, evaluator.cv
    else:
        rows, (model, cv) = logs, models.model_of(evaluator)
        check_refittable(evaluator, model, cv)
    # It follows the policy on the rounds of fit, whatever is evaluated.
    of_fit = target if rows is logs else target.on(rows, type(evaluator).__name__)
    return evaluator.fit_reward_model(rows, model, cv, of_fit)


def _value_of(job, whole):
    """Return the value of a job, from the pass over rounds in memory."""
    evaluator, positive, summary = job.evaluator, whole.part, _summary_of(job, whole)
    estimate, known = known_of_sums(evaluator, summary, positive.logs)
    rows = summary.rows
    if estimate.offset != job.offset:
        rows = rows_of_job(job, estimate.offset)
    out = PolicyValue(
        estimate,
        rows,
        estimator=type(evaluator).__name__,
        plain_weights=partial(plain_weights_of, evaluator, rows, summary.bound),
        leaves_bias_out=evaluator.leaves_bias_out or positive.leaves_bias_out,
        **known,
    )
    out._joint, out._owner = whole.sums, job.key
    if evaluator.proposal == "mixture" and len(whole.loggers) > 1:
        who = whole.loggers
        out._mixture = LoggerMixture(who.index, who.proba, who.shares)
    return out


def _summary_of(job, whole):
    """Return the `Summary` of a job, from the pass over rounds in memory."""
    evaluator, (_, policy, _) = job.evaluator, job.key
    out = summary_of(whole, evaluator, job.key)
    out.job, out.bound, out.rows = job, BoundOfJob(job), rows_of_job(job)
    if evaluator.sampling.by == "loggers":
        owner = weights_of("own_logger", policy)
        given = out.sums, out.counts, whole.sums.of(owner), whole.tallies[owner]
        out.of_loggers = Summary(None, *given)
    elif evaluator.proposal == "logger":  # one for all evaluators
        if whole.overlaps.get(policy) is None:
            whole.overlaps[policy] = out.overlap
        out.overlap = whole.overlaps[policy]
    one = job.weighted
    if one is not None:  # those of one kind are shared
        if one.key not in whole.weighted:
            about = rows_of_job(one), whole.sums, one.key
            whole.weighted[one.key] = WeightedRounds(*about)
        out.weighted = whole.weighted[one.key]
    return out

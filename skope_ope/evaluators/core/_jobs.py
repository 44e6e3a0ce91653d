# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Values of several jobs on rounds in memory, from one pass; and their rounds."""

from functools import partial

from skope_ope.evaluators.core._auto import RowsInMemory
from skope_ope.evaluators.core._blocks import Observer
from skope_ope.evaluators.core._design import PLAIN_WEIGHT, weight_of
from skope_ope.evaluators.core._drowned import beyond_floats
from skope_ope.evaluators.core._engine import (
    NOTHING,
    Extract,
    Job,
    TermStore,
    run,
)
from skope_ope.evaluators.core._known_of_sums import known_of_sums
from skope_ope.evaluators.core._largest_deviation import WeightedRounds
from skope_ope.evaluators.core._loggers import LoggerMixture, Loggers
from skope_ope.evaluators.core._part_pass import PartPass
from skope_ope.evaluators.core._plain_weights import (
    plain_weights_of,
)
from skope_ope.evaluators.core._policy_value import PolicyValue
from skope_ope.evaluators.core._requires import check_refittable
from skope_ope.evaluators.core._rows import FormulaTerms, Rows
from skope_ope.evaluators.core._summary import Summary, summary_of
from skope_ope.evaluators.core._sums import weights_of
from skope_ope.evaluators.core._tally import RoundCounts
from skope_ope.evaluators.core._target import check_target
from skope_ope.evaluators.core._weight_bound import BoundInPass
from skope_ope.logs._row_container import known_range

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


# -- rounds that can be asked again ---------------------------------------------------
# Round values, and intervals from bounds of weights, follow from the weight of every
# round and from what the model says of its logged action and of the policy. Where a
# policy or a model predicts, the pass that gives the values keeps these; where tables
# stand for both, they are looked up when they are first wanted, once for all evaluators
# of a policy.
class RowsOfPass:
    """Weights and model values of the logged actions, for the jobs of one pass."""

    def __init__(self, jobs, positive, wanted=False):
        self.positive, self.logs = positive, positive.all_logs
        self.n = len(self.logs)
        # whether who acted enters the weights
        self._by_logger = any(job.evaluator.proposal != "logger" for job in jobs)
        self._stores, self._bounds = {}, {}
        # those with a model first: they have the weights of the others, too
        asked = [one for one in jobs if one.source is not None]
        asked += [one for one in jobs if one.source is None]
        stores = [self._store_of(one) for one in asked if wanted or _predicts(one)]
        self.in_pass = list(dict.fromkeys(stores))
        self.bounds_in_pass = []
        logs = self.logs
        if logs.propensity is not None and logs.loggers is None and known_range(logs):
            self._bound_in_pass()

    def _bound_in_pass(self):
        """Let the bounds of the weights of policies that predict be found."""
        for target in {id(one.target): one.target for one in self.in_pass}.values():
            if target.policy is None or target.answers_alone(self.logs):
                continue
            tells_all = not target.logged_only
            bound = self._bounds[id(target), False] = BoundInPass(self.logs, tells_all)
            if bound.needs_tables:
                self.bounds_in_pass.append(_BoundOf(id(target), bound))

    def _store_of(self, job):
        """Return what keeps the numbers of a job: `Job` whose sums are their store."""
        key = id(job.target), weight_of(job.evaluator), id(job.source)
        found = self._stores.get(key)
        if found is None and job.source is None:  # one with a model has the weights
            found = next((s for k, s in self._stores.items() if k[:2] == key[:2]), None)
        if found is None:
            parts, sums = Extract(partial(_parts, key[1])), TermStore(self.n)
            found = self._stores[key] = Job(parts, job.target, job.source, sums=sums)
        return found

    def holds(self, job):
        """Whether the numbers of a job are known without one more pass."""
        return self._store_of(job).sums.terms is not None

    def numbers(self, job, rows=slice(None)):
        """Return weights, probabilities, and model values of actions and policy."""
        # Those of some rows; what is not known is None.
        store = self._store_of(job)
        if store.sums.terms is None:
            self._run(store)
        terms = [one[rows] for one in store.sums.terms]
        if weight_of(job.evaluator) is PLAIN_WEIGHT:  # the same division as in the pass
            p = self.logs.propensity
            with beyond_floats():
                w = None if p is None else terms[0] / p[rows]
                terms.insert(0, w if w is None else self.positive.weights(w, rows))
        return terms if job.source is not None else [*terms[:2], None, None]

    def logged_proba(self, job, rows):
        """Return the policy's probabilities of logged actions, None if not known."""
        return self.numbers(job, rows)[1] if self.holds(job) else None

    def bound(self, job):
        """Return the `WeightBound` of the policy of a job."""
        # loggers that are told apart may have other largest weights than all as one
        several = job.design.n_strata > 1
        key = id(job.target), several
        if key not in self._bounds:
            tells_all = not (several or job.target.logged_only)
            bound = self._bounds[key] = BoundInPass(self.logs, tells_all)
            if bound.needs_tables:
                self._run(self._store_of(job), [bound])
        return self._bounds[key].bound

    def _run(self, store, bounds=()):
        again = Job(store.evaluator, store.target, store.source, sums=store.sums)
        if store.sums.terms is not None:  # it stays as it was seen: bounds alone ask
            again = Job(NOTHING, store.target, None, sums=TermStore(self.n))
        loggers = [Loggers(self.positive)] if self._by_logger else []
        observers = [*loggers, *bounds]
        run(self.logs, [again], self.positive, observers, tables=bool(bounds))


class _BoundOf(Observer):
    """Shows a bound what its own policy does, in a pass with others."""

    reads = True  # workers may read what it needs of a table, see `Ahead`

    def __init__(self, key, bound):
        self.key, self.bound = key, bound

    def see(self, key, target):
        """Hand on what the policy does."""
        if key == self.key:
            found = target.read.get(id(self))
            self.bound.take(self.read(key, target) if found is None else found)

    def read(self, key, target):
        """Return what the bound reads of a block; in a worker, which hands it back."""
        return self.bound.read(target) if key == self.key else None


def _parts(weight, rounds):
    w = () if weight is PLAIN_WEIGHT else (weight(rounds),)
    return [part for part in (*w, rounds.pi, rounds.q, rounds.v) if part is not None]


def _predicts(job):
    """Whether a pass has to ask a policy or a model, and no table."""
    source = job.source
    looked_up = source is None or hasattr(source, "table_of")
    asks = not looked_up and getattr(source, "asks_models", True)
    return job.target.policy is not None or asks


class BoundOfJob:
    """What the rounds of a job know of weights that were not logged, where asked."""

    def __init__(self, job):
        self.job = job

    def largest(self, spare):
        """Return the largest weight, 0 where it is not known."""
        return self.job.kept.bound(self.job).largest(spare)

    @property
    def source(self):
        """Where it comes from."""
        return self.job.kept.bound(self.job).source


def rows_of_job(job, offset=None):
    """Return the `Rows` of a job, of rewards less its own or another offset."""
    offset = job.offset if offset is None else offset
    terms = FormulaTerms(job.evaluator, job.kept, job, offset, job.outcome)
    return Rows(job.design, terms, logs=job.kept.logs)

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The rounds of a pass, a few numbers of each, which can be asked again.

Round values, and intervals from bounds of weights, follow from the weight of every
round and from what the model says of its logged action and of the policy. Where a
policy or a model predicts, the pass that gives the values keeps these; where tables
stand for both, they are looked up when they are first wanted, once for all evaluators
of a policy.
"""

from functools import partial

from skope_ope.evaluators.core._blocks import Observer
from skope_ope.evaluators.core._drowned import beyond_floats
from skope_ope.evaluators.core._engine import (
    NOTHING,
    Extract,
    Job,
    TermStore,
    run,
)
from skope_ope.evaluators.core._loggers import Loggers
from skope_ope.evaluators.core._proposal import PLAIN_WEIGHT, weight_of
from skope_ope.evaluators.core._rows import FormulaTerms, Rows
from skope_ope.evaluators.core._weight_bound import BoundInPass
from skope_ope.logs._known_range import known_range


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

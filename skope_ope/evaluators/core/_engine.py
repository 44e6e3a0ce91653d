# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""One pass over the rounds for any number of policies, models and evaluators.

Rows are taken in blocks that fit the cache. Nothing of shape (n_rounds, n_actions)
is made: of the policy and of the model only the logged action's entry and the row's
dot product are needed. Sums of blocks merge, so chunks may have any size.
"""

from dataclasses import dataclass
from functools import cached_property
from math import isfinite

import numpy as np

from skope_ope.evaluators.core._entering import Entering
from skope_ope.evaluators.core._loggers import Loggers, OverlapByLogger
from skope_ope.evaluators.core._moments import dot
from skope_ope.evaluators.core._overlap import Overlap
from skope_ope.logs._validation import check_distributions, check_finite

BLOCK = 20_000  # rows: with fewer, calls take as long as what they do
CHUNK_ENTRIES = 1 << 20  # probabilities asked of a policy or a model at once


class Rounds:
    """Per-round arrays of a block, the arguments of every formula.

    Attributes
    ----------
    pi : ndarray
        Probabilities of the logged actions under the policy.
    w : ndarray or None
        Importance weights pi(a|x) / p of the logged actions.
    r : ndarray
        Rewards.
    q : ndarray or None
        Model value of the logged action.
    v : ndarray or None
        Model value of the policy, sum_a pi(a|x) q(x, a).
    n_rounds : int
        Number of rounds in all blocks.
    shift : float
        Known lower bound of the rewards where it is negative, otherwise 0.
    loggers : LoggerRounds or None
        Who acted, for evaluators that ask.
    b : ndarray or None
        Weights pi(a|x) / (probability under all loggers), likewise.
    """

    def __init__(self, pi, w, r, q, v, n_rounds, shift, loggers=None, b=None):
        self.pi, self.w, self.r, self.q, self.v = pi, w, r, q, v
        self.n_rounds, self.shift = n_rounds, shift
        self.loggers, self.b = loggers, b

    def less(self, offset):
        """Return the block with rewards and model values less `offset`."""
        if offset == 0:
            return self
        q = None if self.q is None else self.q - offset
        v = None if self.v is None else self.v - offset
        r = self.r - offset
        rest = (self.n_rounds, self.shift, self.loggers, self.b)
        return Rounds(self.pi, self.w, r, q, v, *rest)

    @cached_property
    def residual(self):
        """What the model leaves unexplained, r - q."""
        return self.r - self.q


@dataclass
class Job:
    """One evaluator on one policy with one model; `sink.add` receives its terms.

    What is added to all rewards is added to the value of some evaluators. They are
    given rewards and model values less `offset`, where rewards are far from zero: the
    digits that tell them apart would otherwise be lost in the squares.
    """

    evaluator: object
    target: object
    source: object
    sink: object
    offset: float = 0.0

    def take(self, start, rounds, omega=None):
        """Hand the terms of a block to the sink."""
        self.sink.add(start, self.evaluator._terms(rounds), omega)


class Extract:
    """Stands in for an evaluator where per-round arrays themselves are wanted.

    Parameters
    ----------
    pick : callable
        Takes `Rounds` and returns arrays.
    """

    _shifts = False

    def __init__(self, pick, by_logger=False, pools_loggers=False):
        self._terms = pick
        self._by_logger, self._pools_loggers = by_logger, pools_loggers


class TermStore:
    """A sink that keeps the terms of all rounds, shape (n_terms, n_rounds)."""

    def __init__(self, n_rounds):
        self.n_rounds = n_rounds
        self.terms = None

    def add(self, start, terms, omega=None):
        """Store the terms of a block."""
        if self.terms is None:
            self.terms = np.empty((len(terms), self.n_rounds))
        for row, term in zip(self.terms, terms, strict=True):
            row[start : start + len(term)] = term


class LoggedEntries:
    """What tables of all actions hold for the logged ones of a block."""

    def __init__(self, codes, offsets):
        self.codes, self.offsets = codes, offsets[: len(codes)]

    @cached_property
    def _flat(self):
        return self.offsets + self.codes

    def of(self, table):
        """Entry of the logged action of every row."""
        if table.strides[0] == 0:  # the same row for all rounds
            return table[0].take(self.codes)
        if table.flags.c_contiguous:
            return table.ravel().take(self._flat)
        return table[np.arange(len(table)), self.codes]


def run(logs, jobs, sample_weight=None):
    """Hand every job the terms of its evaluator, block by block.

    Parameters
    ----------
    logs : BanditLogs
        The rounds.
    jobs : list of Job
        What is wanted of them.
    sample_weight : ndarray of shape (n_rounds,), default=None
        Weights with mean one, for the sinks.

    Returns
    -------
    overlaps : dict
        For every target, by identity, the `Overlap` of its weights with the logs;
        only its unsupported mass where the propensities are unknown. Where an
        evaluator asks for the loggers, its attribute `loggers` tells the same of
        each of them.
    """
    n_rounds, n_actions = len(logs), logs.n_actions
    targets = {id(job.target): job.target for job in jobs}
    jobs_of = {key: [j for j in jobs if id(j.target) == key] for key in targets}
    sources = {id(j.source): j.source for j in jobs if j.source is not None}
    predict = {key: source.bind(logs) for key, source in sources.items()}
    overlaps = {key: Overlap() for key in targets}
    entering = Entering(logs, sample_weight)
    loggers = None
    if any(job.evaluator._by_logger for job in jobs):
        pools = any(job.evaluator._pools_loggers for job in jobs)
        loggers = Loggers(entering, pools)
        for overlap in overlaps.values():
            overlap.loggers = OverlapByLogger(loggers, Overlap())
    shift = min(logs.reward_range[0], 0.0) if logs.reward_range else 0.0
    offset = far_from_zero(logs.reward[:BLOCK])
    for job in jobs:
        job.offset = offset if job.evaluator._shifts else 0.0
    # Many actions: not less than a block, for a model is asked action by action.
    chunk = max(CHUNK_ENTRIES // n_actions // BLOCK, 1) * BLOCK
    asked = predict or any(target.policy is not None for target in targets.values())
    offsets = np.arange(0, min(BLOCK, n_rounds) * n_actions, n_actions)
    for start in range(0, n_rounds, chunk):
        stop = min(start + chunk, n_rounds)
        rounds = logs  # arrays need no cut of them
        if asked and stop - start < n_rounds:
            rounds = logs[start:stop]
        q_chunks = {key: call(rounds, start) for key, call in predict.items()}
        pi_chunks = {
            key: target.chunk(rounds, start, stop) for key, target in targets.items()
        }
        for low in range(start, stop, BLOCK):
            high = min(low + BLOCK, stop)
            rows = slice(low - start, high - start)
            logged = LoggedEntries(logs.action_index[low:high], offsets)
            r = logs.reward[low:high]
            p = None if logs.propensity is None else logs.propensity[low:high]
            omega = None if sample_weight is None else sample_weight[low:high]
            counted = None if omega is None else entering.omega[low:high]
            acted = None if loggers is None else loggers.rounds(low, high)
            q_logged = {}
            for key, target in targets.items():
                pi = np.asarray(pi_chunks[key][rows], dtype=np.float64)
                if target.logged_only:
                    pi_logged, missing = check_logged(pi, low), 0.0
                else:
                    available = (
                        None if logs.available is None else logs.available[low:high]
                    )
                    check_distributions("policy", pi, available, low)
                    pi_logged = logged.of(pi)
                    at = slice(low, high)
                    missing = _missing_mass(pi, pi_logged, p, entering, at, counted)
                w = None if p is None else pi_logged / p
                b = None
                if acted is not None:  # their sums make up those of all
                    b = pi_logged / acted.mixture if loggers.pools else None
                    whole = None if target.logged_only else pi
                    weights = (pi_logged, w, b, whole)
                    overlaps[key].loggers.add(acted, *weights, missing, counted)
                if w is None or acted is not None:
                    overlaps[key].add_mass(high - low, missing)
                else:
                    overlaps[key].add(w, missing, counted)
                blocks = {}
                for job in jobs_of[key]:
                    name, source = (id(job.source), job.offset), id(job.source)
                    if name not in blocks:
                        q = v = None
                        if job.source is not None:
                            q_hat = np.asarray(q_chunks[source][rows], dtype=np.float64)
                            v = _model_value(pi, q_hat, low)
                            if source not in q_logged:  # it is in the cache by now
                                q_logged[source] = logged.of(q_hat)
                            q = q_logged[source]
                        block = Rounds(pi_logged, w, r, q, v, n_rounds, shift, acted, b)
                        blocks[name] = block.less(job.offset)
                    job.take(low, blocks[name], omega)
    for overlap in overlaps.values():
        overlap.n = entering.n
        if loggers is not None:
            overlap.add_up()
            overlap.loggers.mixture.n = entering.n
    return overlaps


def far_from_zero(reward):
    """Return the middle of rewards that lie far from zero for their spread, or 0."""
    low, high = float(reward.min()), float(reward.max())
    middle = low + (high - low) / 2
    return middle if abs(middle) > 5 * (high - low) else 0.0


def _model_value(pi, q, first_row):
    """Return the model value of the policy in every row, sum_a pi(a|x) q(x, a)."""
    v = np.einsum("ij,ij->i", pi, q)
    if not isfinite(dot(v, v)):  # then one of the entries may be at fault
        check_finite("reward_model", q, first_row)
    return v


def _missing_mass(pi, pi_logged, p, entering, rows, omega):
    """(Weighted) sum of the policy's mass on what the logger could not have done."""
    proba, unseen = entering.all_logs.logging_proba, entering.unseen
    if proba is not None:
        mu = proba[rows]
        if mu.min() > 0:
            return 0.0
        if omega is None:  # a sum over fewer entries is faster
            return float(pi[mu == 0].sum())
        missing = (pi * (mu == 0)).sum(axis=1)
    else:
        certain = p is not None and p.max() >= 1  # other actions had probability 0
        if not certain and not unseen.size:
            return 0.0
        missing = pi[:, unseen].sum(axis=1)
        if certain:
            missing = np.where(p >= 1, 1 - pi_logged, missing)
    return float(missing.sum()) if omega is None else dot(omega, missing)


def check_logged(pi, first_row):
    """Probabilities of the logged actions lie in [0, 1]."""
    if not (pi.min() >= 0 and pi.max() <= 1 + 1e-9):  # NaN fails, too
        row = int(np.flatnonzero(~((pi >= 0) & (pi <= 1 + 1e-9)))[0])
        raise ValueError(
            "policy must hold probabilities of the logged actions in [0, 1], got "
            f"{pi[row]:.6g} at row {row + first_row}."
        )
    return pi


def terms_of(evaluator, logs, target, source, sample_weight=None):
    """Return the terms of all rounds, ndarray of shape (n_terms, n_rounds)."""
    job = Job(evaluator, target, source, TermStore(len(logs)))
    run(logs, [job], sample_weight)
    return job.sink.terms

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""One pass over the rounds for any number of policies, models and evaluators.

Rows are taken in blocks that fit the cache. Nothing of shape (n_rounds, n_actions)
is made: of the policy and of the model only the logged action's entry and the row's
dot product are needed. Sums of blocks merge, so chunks may have any size.
"""

from dataclasses import dataclass
from functools import cached_property
from math import isfinite, sqrt

import numpy as np

from skope_ope.logs._validation import check_distributions, check_finite

BLOCK = 10_000  # rows; longer dot products would wake BLAS threads
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
    """

    def __init__(self, pi, w, r, q, v, n_rounds, shift):
        self.pi, self.w, self.r, self.q, self.v = pi, w, r, q, v
        self.n_rounds, self.shift = n_rounds, shift

    def less(self, offset):
        """Return the block with rewards and model values less `offset`."""
        if offset == 0:
            return self
        q = None if self.q is None else self.q - offset
        v = None if self.v is None else self.v - offset
        r = self.r - offset
        return Rounds(self.pi, self.w, r, q, v, self.n_rounds, self.shift)

    @cached_property
    def residual(self):
        """What the model leaves unexplained, r - q."""
        return self.r - self.q


class Overlap:
    """Sums of the importance weights of one policy, and its unsupported mass."""

    def __init__(self):
        self.n = 0
        self.sum_w = self.sum_w2 = self.max_w = self.missing = self.sum_gap2 = 0.0

    def add(self, w, missing, omega=None):
        """Add the weights of a block, times sample weights of mean one."""
        self.n += len(w)
        if omega is not None:
            gap = omega * (w - 1)
            w = omega * w
            self.sum_gap2 += float(gap.dot(gap))
        total, square = float(w.sum()), float(w.dot(w))
        if omega is None:
            self.sum_gap2 += square - 2 * total + len(w)
        self.sum_w += total
        self.sum_w2 += square
        self.max_w = max(self.max_w, float(w.max()))
        self.missing += missing

    @property
    def effective_sample_size(self):
        """(sum w)^2 / sum w^2, NaN where all weights are zero."""
        return self.sum_w * self.sum_w / self.sum_w2 if self.sum_w2 else float("nan")

    @property
    def missing_mass(self):
        """Mean probability of actions that the logger could not take."""
        return self.missing / self.n

    @property
    def mean_weight(self):
        """Mean of w; its expectation is one where the policy is supported."""
        return self.sum_w / self.n

    @property
    def mean_weight_z(self):
        """(mean w - 1) in standard errors."""
        if self.n < 2:
            return float("nan")
        gap = self.mean_weight - 1
        variance = (self.sum_gap2 - self.n * gap * gap) / (self.n - 1)
        if variance <= 1e-14 * self.sum_w2 / self.n:
            return 0.0 if abs(gap) < 1e-9 else float("nan")
        return gap / sqrt(variance / self.n)


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


class Extract:
    """Stands in for an evaluator where per-round arrays themselves are wanted.

    Parameters
    ----------
    pick : callable
        Takes `Rounds` and returns arrays.
    """

    _shifts = False

    def __init__(self, pick):
        self._terms = pick


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
        None where the propensities are unknown.
    """
    n_rounds, n_actions = len(logs), logs.n_actions
    targets = {id(job.target): job.target for job in jobs}
    jobs_of = {key: [j for j in jobs if id(j.target) == key] for key in targets}
    sources = {id(j.source): j.source for j in jobs if j.source is not None}
    predict = {key: source.bind(logs) for key, source in sources.items()}
    overlaps = {
        key: Overlap() if logs.propensity is not None else None for key in targets
    }
    shift = min(logs.reward_range[0], 0.0) if logs.reward_range else 0.0
    offset = far_from_zero(logs.reward[:BLOCK])
    for job in jobs:
        job.offset = offset if job.evaluator._shifts else 0.0
    # Many actions: not less than a block, for a model is asked action by action.
    chunk = max(CHUNK_ENTRIES // n_actions // BLOCK, 1) * BLOCK
    offsets = np.arange(0, min(BLOCK, n_rounds) * n_actions, n_actions)
    for start in range(0, n_rounds, chunk):
        stop = min(start + chunk, n_rounds)
        rounds = logs if stop - start == n_rounds else logs[start:stop]
        q_chunks = {key: call(rounds, start) for key, call in predict.items()}
        pi_chunks = {
            key: target.chunk(rounds, start, stop) for key, target in targets.items()
        }
        for low in range(start, stop, BLOCK):
            high = min(low + BLOCK, stop)
            rows = slice(low - start, high - start)
            codes = logs.action_index[low:high]
            flat = offsets[: high - low] + codes
            r = logs.reward[low:high]
            p = None if logs.propensity is None else logs.propensity[low:high]
            omega = None if sample_weight is None else sample_weight[low:high]
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
                    pi_logged = _pick(pi, codes, flat)
                    missing = _missing_mass(pi, pi_logged, p, logs, slice(low, high))
                w = None if p is None else pi_logged / p
                if w is not None:
                    overlaps[key].add(w, missing, omega)
                blocks = {}
                for job in jobs_of[key]:
                    name, source = (id(job.source), job.offset), id(job.source)
                    if name not in blocks:
                        q = v = None
                        if job.source is not None:
                            q_hat = np.asarray(q_chunks[source][rows], dtype=np.float64)
                            v = _model_value(pi, q_hat, low)
                            if source not in q_logged:  # it is in the cache by now
                                q_logged[source] = _pick(q_hat, codes, flat)
                            q = q_logged[source]
                        block = Rounds(pi_logged, w, r, q, v, n_rounds, shift)
                        blocks[name] = block.less(job.offset)
                    job.sink.add(low, job.evaluator._terms(blocks[name]), omega)
    return overlaps


def far_from_zero(reward):
    """Return the middle of rewards that lie far from zero for their spread, or 0."""
    low, high = float(reward.min()), float(reward.max())
    middle = low + (high - low) / 2
    return middle if abs(middle) > 5 * (high - low) else 0.0


def _pick(table, codes, flat):
    """Entry of the logged action of every row."""
    if table.strides[0] == 0:  # the same row for all rounds
        return table[0].take(codes)
    if table.flags.c_contiguous:
        return table.ravel().take(flat)
    return table[np.arange(len(table)), codes]


def _model_value(pi, q, first_row):
    """Return the model value of the policy in every row, sum_a pi(a|x) q(x, a)."""
    v = np.einsum("ij,ij->i", pi, q)
    if not isfinite(v.dot(v)):  # then one of the entries may be at fault
        check_finite("reward_model", q, first_row)
    return v


def _missing_mass(pi, pi_logged, p, logs, rows):
    """Sum of the policy's mass on actions that the logger could not have taken."""
    if logs.logging_proba is not None:
        mu = logs.logging_proba[rows]
        return float(pi[mu == 0].sum()) if mu.min() == 0 else 0.0
    certain = p is not None and p.max() >= 1  # other actions had probability 0
    if not certain and not logs.unseen.size:
        return 0.0
    missing = pi[:, logs.unseen].sum(axis=1)
    if certain:
        missing = np.where(p >= 1, 1 - pi_logged, missing)
    return float(missing.sum())


def check_logged(pi, first_row):
    """Probabilities of the logged actions lie in [0, 1]."""
    if not (pi.min() >= 0 and pi.max() <= 1 + 1e-9):  # NaN fails, too
        row = int(np.flatnonzero(~((pi >= 0) & (pi <= 1 + 1e-9)))[0])
        raise ValueError(
            "policy must hold probabilities of the logged actions in [0, 1], got "
            f"{pi[row]:.6g} at row {row + first_row}."
        )
    return pi


def terms_of(evaluator, logs, target, source):
    """Return the terms of all rounds, ndarray of shape (n_terms, n_rounds)."""
    job = Job(evaluator, target, source, TermStore(len(logs)))
    run(logs, [job])
    return job.sink.terms

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

from skope_ope.evaluators._moments import Moments
from skope_ope.logs._validation import check_distributions, check_finite

BLOCK = 8192  # rows; longer dot products would wake BLAS threads
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

    @cached_property
    def residual(self):
        """What the model leaves unexplained, r - q."""
        return self.r - self.q


class Overlap:
    """Sums of the importance weights of one policy, and its unsupported mass."""

    def __init__(self):
        self.n = 0
        self.sum_w = self.sum_w2 = self.max_w = self.missing = 0.0

    def add(self, w, missing):
        """Add the weights of a block."""
        self.n += len(w)
        self.sum_w += float(w.sum())
        self.sum_w2 += float(w.dot(w))
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
        variance = (self.sum_w2 - self.sum_w * self.mean_weight) / (self.n - 1)
        if variance <= 1e-14 * self.sum_w2 / self.n:
            return 0.0 if abs(self.mean_weight - 1) < 1e-9 else float("nan")
        return (self.mean_weight - 1) / sqrt(variance / self.n)


@dataclass
class Job:
    """One evaluator on one policy with one model; `sink.add` receives its terms."""

    evaluator: object
    target: object
    source: object
    sink: object


class TermStore:
    """A sink that keeps the terms of all rounds, shape (n_terms, n_rounds)."""

    def __init__(self, n_rounds):
        self.n_rounds = n_rounds
        self.terms = None

    def add(self, start, terms):
        """Store the terms of a block."""
        if self.terms is None:
            self.terms = np.empty((len(terms), self.n_rounds))
        for row, term in zip(self.terms, terms, strict=True):
            row[start : start + len(term)] = term


def run(logs, jobs, sample_weight=None):
    """Hand every job the terms of its evaluator, block by block.

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
    unseen = np.flatnonzero(logs.action_counts == 0)
    shift = min(logs.reward_range[0], 0.0) if logs.reward_range else 0.0
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
                    missing = _missing_mass(pi, logs, unseen, low, high)
                w = None if p is None else pi_logged / p
                if w is not None:
                    overlaps[key].add(w, missing)
                blocks = {}
                for job in jobs_of[key]:
                    name = id(job.source)
                    if name not in blocks:
                        q = v = None
                        if job.source is not None:
                            q_hat = np.asarray(q_chunks[name][rows], dtype=np.float64)
                            v = _model_value(pi, q_hat, low)
                            if name not in q_logged:  # right after: it is in the cache
                                q_logged[name] = _pick(q_hat, codes, flat)
                            q = q_logged[name]
                        blocks[name] = Rounds(pi_logged, w, r, q, v, n_rounds, shift)
                    terms = job.evaluator._terms(blocks[name])
                    if omega is not None:
                        terms = (*(omega * term for term in terms), omega)
                    job.sink.add(low, terms)
    return overlaps


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
    if not isfinite(v.sum()):  # then one of the entries may be at fault
        check_finite("reward_model", q, first_row)
    return v


def _missing_mass(pi, logs, unseen, low, high):
    """Sum of the policy's mass on actions that the logger could not have taken."""
    if logs.logging_proba is not None:
        mu = logs.logging_proba[low:high]
        return float(pi[mu == 0].sum()) if mu.min() == 0 else 0.0
    return float(pi[:, unseen].sum()) if unseen.size else 0.0


def check_logged(pi, first_row):
    """Probabilities of the logged actions lie in [0, 1]."""
    if not (pi.min() >= 0 and pi.max() <= 1 + 1e-9):  # NaN fails, too
        row = int(np.flatnonzero(~((pi >= 0) & (pi <= 1 + 1e-9)))[0])
        raise ValueError(
            "policy must hold probabilities of the logged actions in [0, 1], got "
            f"{pi[row]:.6g} at row {row + first_row}."
        )
    return pi


def moments_of(evaluator, logs, target, source, sample_weight=None):
    """Return the Moments and the Overlap of a single job."""
    job = Job(evaluator, target, source, Moments())
    overlaps = run(logs, [job], sample_weight)
    return job.sink, overlaps[id(target)]


def terms_of(evaluator, logs, target, source, sample_weight=None):
    """Return the terms of all rounds, ndarray of shape (n_terms, n_rounds)."""
    job = Job(evaluator, target, source, TermStore(len(logs)))
    run(logs, [job], sample_weight)
    return job.sink.terms

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""One pass over the rounds for any number of policies, models and evaluators.

Rows are taken in blocks that fit the cache. Nothing of shape (n_rounds, n_actions)
is made: of the policy and of the model only the logged action's entry and the row's
dot product are needed. Sums of blocks merge, so chunks may have any size.
"""

from dataclasses import dataclass

import numpy as np

from skope_ope.evaluators._moments import Moments
from skope_ope.logs._validation import check_distributions

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

    __slots__ = ("n_rounds", "pi", "q", "r", "shift", "v", "w")

    def __init__(self, pi, w, r, q, v, n_rounds, shift):
        self.pi, self.w, self.r, self.q, self.v = pi, w, r, q, v
        self.n_rounds, self.shift = n_rounds, shift


class Overlap:
    """Sums of the importance weights of one policy, and its unsupported mass."""

    def __init__(self):
        self.n = 0
        self.sum_w = self.sum_w2 = self.max_w = self.missing = 0.0

    def add(self, w, missing):
        """Add the weights of a block."""
        self.n += len(w)
        self.sum_w += w.sum()
        self.sum_w2 += w.dot(w)
        self.max_w = max(self.max_w, w.max())
        self.missing += missing

    @property
    def effective_sample_size(self):
        """(sum w)^2 / sum w^2, NaN where all weights are zero."""
        return float(self.sum_w**2 / self.sum_w2) if self.sum_w2 else float("nan")

    @property
    def missing_mass(self):
        """Mean probability of actions that the logger could not take."""
        return float(self.missing / self.n)

    @property
    def mean_weight(self):
        """Mean of w; its expectation is one where the policy is supported."""
        return float(self.sum_w / self.n)

    @property
    def mean_weight_z(self):
        """(mean w - 1) in standard errors."""
        if self.n < 2:
            return float("nan")
        variance = (self.sum_w2 - self.sum_w**2 / self.n) / (self.n - 1)
        if variance <= 1e-14 * self.sum_w2 / self.n:
            return 0.0 if abs(self.mean_weight - 1) < 1e-9 else float("nan")
        return float((self.mean_weight - 1) / np.sqrt(variance / self.n))


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
    sources = {id(j.source): j.source for j in jobs if j.source is not None}
    predict = {key: source.bind(logs) for key, source in sources.items()}
    overlaps = {
        key: Overlap() if logs.propensity is not None else None for key in targets
    }
    unseen = np.flatnonzero(logs.action_counts == 0)
    shift = min(logs.reward_range[0], 0.0) if logs.reward_range else 0.0
    chunk = max(CHUNK_ENTRIES // n_actions // BLOCK, 1) * BLOCK
    offsets = np.arange(min(BLOCK, n_rounds)) * n_actions
    ones = np.ones(n_actions)
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
            flat = offsets[: high - low] + logs.action_index[low:high]
            r = logs.reward[low:high]
            p = None if logs.propensity is None else logs.propensity[low:high]
            omega = None if sample_weight is None else sample_weight[low:high]
            q_logged = {
                key: _pick(q[rows], flat, f"reward model, row {low}")
                for key, q in q_chunks.items()
            }
            for key, target in targets.items():
                pi = pi_chunks[key][rows]
                if target.logged_only:
                    pi_logged = check_logged(pi, low)
                    missing = 0.0
                else:
                    available = (
                        None if logs.available is None else logs.available[low:high]
                    )
                    check_distributions("policy", pi, available, low)
                    pi_logged = _pick(pi, flat)
                    missing = _missing_mass(pi, pi_logged, logs, unseen, low, high)
                w = None if p is None else pi_logged / p
                if w is not None:
                    overlaps[key].add(w, missing)
                values = {}
                for job in jobs:
                    if job.target is not target:
                        continue
                    q = v = None
                    if job.source is not None:
                        name = id(job.source)
                        if name not in values:
                            values[name] = (pi * q_chunks[name][rows]) @ ones
                        q, v = q_logged[name], values[name]
                    block = Rounds(pi_logged, w, r, q, v, n_rounds, shift)
                    terms = job.evaluator._terms(block)
                    if omega is not None:
                        terms = (*(omega * term for term in terms), omega)
                    job.sink.add(low, terms)
    return overlaps


def _pick(table, flat, name=None):
    """Entry of the logged action of every row."""
    if table.flags.c_contiguous:
        return table.ravel().take(flat)
    rows = np.arange(len(table))
    return table[rows, flat - rows * table.shape[1]]


def _missing_mass(pi, pi_logged, logs, unseen, low, high):
    """Sum of the policy's mass on actions that the logger could not have taken."""
    if logs.logging_proba is not None:
        return float(pi[logs.logging_proba[low:high] == 0].sum())
    missing = 0.0
    if unseen.size:
        missing = pi[:, unseen].sum(axis=1)
    if logs.propensity is not None:
        certain = logs.propensity[low:high] >= 1  # the others had probability 0
        if certain.any():
            missing = np.where(certain, 1 - pi_logged, missing)
    return float(np.sum(missing))


def check_logged(pi, first_row):
    """Probabilities of the logged actions lie in [0, 1]."""
    bad = ~((pi >= 0) & (pi <= 1 + 1e-9))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
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

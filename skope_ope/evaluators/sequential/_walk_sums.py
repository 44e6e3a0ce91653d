# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Sums over the rounds of a walk, which are dropped when they were taken.

What grows with the log are numbers of the accepted rounds alone.
"""

from copy import copy
from dataclasses import replace
from math import inf, isfinite

import numpy as np

from skope_ope.evaluators.core._design import design_of
from skope_ope.evaluators.core._drowned import huge_weight_finding, is_huge
from skope_ope.evaluators.core._engine import FAR
from skope_ope.evaluators.core._summary import N_BUCKETS
from skope_ope.evaluators.core._sums import sums_of_rounds
from skope_ope.evaluators.sequential._history_overlap import (
    RatioSums,
    Violations,
    joined,
    shortened,
)
from skope_ope.evaluators.sequential._term_moments import TermMoments

MANY_CLUSTERS = 100_000  # more are summed by hash buckets


class WalkSums:
    """What the value of a history needs of its rounds."""

    def __init__(self, evaluator, adaptive, rows, offset=0.0, limits=None):
        self._limits = limits if evaluator._tells_spread(adaptive) else None
        self.moments, self._open_moments = [], None
        self.rows, self.offset = rows, offset
        self._evaluator, self._at = evaluator, rows.start
        self.values, self.weights, self.stops = [], [], []
        self._accepted, self.n_accepted = np.empty(1024, dtype=np.intp), 0
        self._in_history = 0  # accepted rounds of the open trajectory
        self._open, self._pending = np.zeros(2), 0.0
        self.ones, self._open_ones = 0, 0
        self._spreads = evaluator._tells_spread(adaptive)
        self.spread = self._pending_spread = None
        self.overlap = self.ratios = self.violations = None
        self.model_range = inf, -inf
        self.final_ratio = None
        self._largest, self._weighted, self.huge = 0.0, 0.0, None

    def take(self, logs, trace, overlap):
        """Take the next rounds, what happened to them, and sums of their weights."""
        if self.offset:
            moved = (None if x is None else x - self.offset for x in (trace.v, trace.q))
            trace = replace(trace, **dict(zip("vq", moved, strict=True)))
        reward, p = logs.reward - self.offset, logs.propensity
        pieces = self._pieces(trace.accepted, len(logs))
        terms = np.zeros((2, len(logs))) if self._spreads else None
        for rows, accepted, complete in pieces:
            self._take_piece(trace, logs, reward, p, rows, accepted, complete, terms)
        self._keep(trace.accepted)
        self.final_ratio = float(trace.c[-1])
        if self._spreads and len(self.values) < 2:
            self._add_spread(logs, terms, trace.accepted)
        else:
            self.spread = self._pending_spread = None
        if overlap is not None:
            known = self.overlap
            overlap = overlap if known is None else joined(known, overlap)
            self.overlap = shortened(overlap, MANY_CLUSTERS, N_BUCKETS)
        if p is not None:
            self._see_ratios(logs, trace, trace.pi / p)
        known = [x for x in trace.model_values if x is not None]
        low, high = self.model_range
        for values in known:
            low = min(low, float(values.min()) + self.offset)
            high = max(high, float(values.max()) + self.offset)
        self.model_range = low, high
        self._at += len(logs)

    def _pieces(self, accepted, n):
        """Return rows, accepted rows and whether it ends there, by trajectory."""
        horizon = self._evaluator.horizon
        if horizon is None:
            return [(slice(0, n), accepted, False)]
        pieces, start, first = [], 0, 0
        for last in range(horizon - self._in_history, len(accepted) + 1, horizon):
            stop = int(accepted[last - 1]) + 1
            pieces.append((slice(start, stop), accepted[first:last], True))
            start, first = stop, last
        pieces.append((slice(start, n), accepted[first:], False))
        return pieces

    def _take_piece(self, trace, logs, reward, p, rows, accepted, complete, terms):
        evaluator = self._evaluator
        places, above, below = evaluator._terms(trace, reward, p, rows, accepted)
        if terms is not None and not self.values:
            terms[0, rows][places], terms[1, rows][places] = above, below
        self._add_moments(trace, p, rows, accepted, above, below)
        if evaluator._counts_blocks:
            # rounds after the last accepted one count when another one is accepted
            if len(accepted):
                end = int(accepted[-1]) + 1 - rows.start
                self._open[0] += self._pending + float(above[:end].sum())
                self._pending = float(above[end:].sum())
            else:
                self._pending += float(above.sum())
            self._open[1] += float(below.sum())
        else:
            self._open += float(above.sum()), float(below.sum())
        self._in_history += len(accepted)
        self._open_ones = _more_ones(self._open_ones, logs.reward[accepted])
        if complete:
            self._close(self._at + rows.stop)

    def _add_moments(self, trace, p, rows, accepted, above, below):
        if self._open_moments is None:
            total = float(below.sum())
            origin = float(above.sum()) / total if total else 0.0
            self._open_moments = TermMoments(origin)
        corners = []
        if self._limits is not None and not self.values:
            terms = self._evaluator._terms
            for end in self._limits:
                reward = np.full(len(trace.pi), end - self.offset)
                corners.append(terms(trace, reward, p, rows, accepted)[1])
        self._open_moments.add(above, below, corners)

    def _close(self, stop):
        """End the open trajectory after a row."""
        self.moments.append(self._open_moments)
        self._open_moments = None
        above, below = self._open.tolist()
        self.values.append(above / below + self.offset if below else float("nan"))
        self.weights.append(below)
        self.stops.append(stop)
        known = self.ones is not None and self._open_ones is not None
        self.ones = self.ones + self._open_ones if known else None
        self._open[:], self._pending = 0.0, 0.0
        self._in_history = self._open_ones = 0

    def _add_spread(self, logs, terms, accepted):
        """Add the terms of the first trajectory; those of other rounds are zero."""
        evaluator, design = self._evaluator, design_of(logs)
        n = len(logs)
        if not evaluator._counts_blocks or self.values:
            self.spread = _plus(self.spread, self._pending_spread)
            self.spread = _plus(self.spread, _sums_of(design, terms, slice(0, n)))
            self._pending_spread = None
            return
        end = int(accepted[-1]) + 1 if len(accepted) else 0
        if end:
            self.spread = _plus(self.spread, self._pending_spread)
            self.spread = _plus(self.spread, _sums_of(design, terms, slice(0, end)))
            self._pending_spread = None
        if end < n:
            more = _sums_of(design, terms, slice(end, n))
            self._pending_spread = _plus(self._pending_spread, more)

    def _see_ratios(self, logs, trace, w):
        groups = () if logs.group is None else (logs.groups, logs.group_index)
        found = RatioSums(trace.c), Violations(trace.c, w, *groups)
        if self.ratios is not None:
            found = self.ratios + found[0], self.violations + found[1]
        self.ratios, violations = found
        self.violations = violations.bounded(MANY_CLUSTERS, N_BUCKETS)
        self._weighted += float(w @ logs.reward)
        if is_huge(w.max()) and self._largest < w.max():
            self._largest = float(w.max())
            self.huge = huge_weight_finding(logs, w, first_row=self._at)

    def finish(self):
        """End the walk after the last round; return self, ready to travel."""
        evaluator = self._evaluator
        if evaluator.horizon is None:
            self._close(self.rows.stop)
        if self._pending_spread is not None:
            # a history that never went on: its last rounds count nothing
            rest = emptied(self._pending_spread)
            self.spread, self._pending_spread = _plus(self.spread, rest), None
        self._accepted.resize(self.n_accepted, refcheck=False)
        self.accepted = self._accepted
        self.forms_sums = isfinite(self._weighted)
        self._accepted = self._evaluator = None
        return self

    def _keep(self, accepted):
        """Keep the accepted rows of a part, in an array that grows where it is."""
        start, self.n_accepted = self.n_accepted, self.n_accepted + len(accepted)
        if self.n_accepted > len(self._accepted):
            size = max(self.n_accepted, len(self._accepted) * 3 // 2)
            self._accepted.resize(size, refcheck=False)
        np.add(accepted, self._at, out=self._accepted[start : self.n_accepted])


def _more_ones(ones, reward):
    """Add accepted rewards to a sum of ones; None where others are among them."""
    if ones is None or not ((reward == 0) | (reward == 1)).all():
        return None
    return ones + int(reward.sum())


def _sums_of(design, terms, rows):
    """Return the `JointSums` of the terms of some rows of a part."""
    if rows.stop - rows.start < design.n_rounds:
        design = design.take(np.arange(rows.start, rows.stop))
        terms = terms[:, rows]
    return sums_of_rounds(design, terms).joint.finished()


def _plus(sums, more):
    """Return the sums of both; either may be None."""
    if sums is None or more is None:
        return more if sums is None else sums
    out = sums + more
    clusters = out.frame.clusters
    if clusters is not None and len(clusters) > MANY_CLUSTERS:
        out = out.bucketed(N_BUCKETS)
    return out


def far_offset(log):
    """Return the middle of rewards that lie far from zero for their spread, or 0."""
    low, high = log.reward_low, log.reward_high
    middle = low + (high - low) / 2
    return middle if abs(middle) > FAR * (high - low) else 0.0


def emptied(sums):
    """Return the sums of the same rounds, where all terms are zero."""
    out = copy(sums)
    out.origin = np.zeros(len(sums.origin))
    out.first, out.second = np.zeros_like(sums.first), np.zeros_like(sums.second)
    out.first[..., -1] = sums.first[..., -1]
    out.second[..., -1, -1] = sums.second[..., -1, -1]
    if sums.totals is not None:
        out.totals = np.zeros_like(sums.totals)
        out.totals[-1] = sums.totals[-1]
    return out.finished()

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""The pseudoinverse of second moments, applied to slot marginals.

A distribution's :math:`\Gamma` acts separately on means over types of candidates and on
what differs from them (see `DistributionBatch`): the matrices here have n_slots times
n_types rows, however many candidates there are. Rounds that share a distribution share
its inverse.
"""

from copy import copy
from typing import NamedTuple

import numpy as np

from skope_ope.evaluators.slate._support import chunk_rows

CUTOFF = 1e-10  # of the largest eigenvalue: what is below is zero
# below this, of the largest eigenvalue, eigenvalues are looked at one by one. Far above
# the cutoff: a probe finds the smallest one only roughly
CLEAR = 1e-5
N_PROBES = 2


class Solved(NamedTuple):
    r"""What the second moments make of slot marginals q, by round."""

    table: np.ndarray  # :math:`\Gamma^+ q`, candidates in the order of the distribution
    # :math:`\|(I - \Gamma\Gamma^+) q\|`, zero where q lies in the range
    residual: np.ndarray
    marginals: np.ndarray  # slot marginals of the distribution


class Operators(NamedTuple):
    """Matrices of distributions with types of equal sizes, and their inverses."""

    sizes: np.ndarray
    types: np.ndarray
    mean: np.ndarray  # (n_distributions, n_slots n_types, n_slots n_types)
    within: np.ndarray  # (n_distributions, n_types of two or more, n_slots, n_slots)
    mean_inverse: np.ndarray | None  # None: to be solved
    within_inverse: np.ndarray
    marginals: np.ndarray  # (n_distributions, n_slots, n_types), of one candidate

    def of(self, number):
        """Operators of one distribution."""
        one = slice(number, number + 1)
        return Operators(self.sizes, self.types, *(part[one] for part in self[2:]))


def solved(logger, target, logs):
    """Yield the solutions of some rounds at a time."""
    kept = {}
    for rows in by_distribution(logger, logs):
        rounds = logs[rows]
        drawn = logger.distributions(rounds)
        q = drawn.marginals(target.marginals(rounds))
        yield rows, drawn.slates(rounds.slate), q, solve(drawn, q, kept)


def by_distribution(logger, logs):
    """Yield rounds in parts for which tables are made at once, by distribution."""
    # No distribution is in two parts, unless it is all that there is in them: the
    # operators of a single distribution are all that need to be kept from one part for
    # the next, however many distributions there are and however large their operators.
    n_rounds, step = len(logs), chunk_rows(logs)
    parts = [slice(i, min(i + step, n_rounds)) for i in range(0, n_rounds, step)]
    if len(parts) < 2:
        yield from parts
        return
    codes = np.empty(n_rounds, dtype=np.uint64)
    for part in parts:
        drawn = logger.distributions(logs[part])
        codes[part] = drawn.codes()[drawn.index]
    order = np.argsort(codes, kind="stable")
    codes = codes[order]
    begins = np.flatnonzero(np.append(True, codes[1:] != codes[:-1]))
    if len(begins) in (1, n_rounds):  # in order, they need not be copied
        yield from parts
        return
    ends = np.append(begins[1:], n_rounds)
    start = 0
    while start < n_rounds:
        fits = np.searchsorted(ends, start + step, side="right") - 1
        here = np.searchsorted(ends, start, side="right")  # the first distribution
        end = ends[max(fits, here)]
        for i in range(start, end, step):  # more than once only for a single one
            yield order[i : min(i + step, end)]
        start = end


def solve(distributions, q, kept):
    """Apply the pseudoinverses of the rounds' distributions to their marginals."""
    out = Solved(np.empty(q.shape), np.empty(len(q)), np.empty(q.shape))
    if len(distributions) == 1:
        key = distributions.items.tobytes()
        if key not in kept:
            kept.clear()
            (batch,) = distributions.batches()
            kept[key] = _operators(batch, invert=True)
        _apply(kept[key], slice(None), q, out)
        return out
    kept.clear()
    order = np.argsort(distributions.index, kind="stable")
    counts = np.bincount(distributions.index, minlength=len(distributions))
    rows_of = np.split(order, np.cumsum(counts)[:-1])
    for once in (True, False):
        some = np.flatnonzero((counts == 1) == once)
        if not len(some):
            continue
        part = copy(distributions)
        part.items = distributions.items[some]
        for batch in part.batches():
            numbers = some[batch.numbers]
            operators = _operators(batch, invert=not once)
            if once:
                rows = np.concatenate([rows_of[number] for number in numbers])
                _apply(operators, rows, q, out, one_each=True)
                continue
            for place, number in enumerate(numbers):
                _apply(operators.of(place), rows_of[number], q, out)
    return out


def _operators(batch, invert):
    """Matrices of a batch of distributions: means over types, and within types."""
    same, pairs = batch.moments
    sizes = batch.sizes
    n_distributions, n_slots, _, n_types = same.shape
    each = np.arange(n_types)
    within = same - pairs[..., each, each]  # S_jkt - P_jktt
    mean = pairs * np.sqrt(np.outer(sizes, sizes))
    mean[..., each, each] += within
    mean = mean.transpose(0, 1, 3, 2, 4).reshape(n_distributions, n_slots * n_types, -1)
    within = within[..., sizes > 1].transpose(0, 3, 1, 2)
    slots = np.arange(n_slots)
    return Operators(
        sizes,
        batch.types,
        mean,
        within,
        pseudoinverse(mean) if invert else None,
        pseudoinverse(within),
        same[:, slots, slots],
    )


def pseudoinverse(matrices):
    """Pseudoinverses of symmetric matrices, tiny eigenvalues being zero."""
    if not matrices.size:
        return matrices
    values, vectors = np.linalg.eigh((matrices + matrices.swapaxes(-1, -2)) / 2)
    kept = values > CUTOFF * np.maximum(values[..., -1:], 0)
    inverse = np.divide(1.0, values, out=np.zeros_like(values), where=kept)
    return (vectors * inverse[..., None, :]) @ vectors.swapaxes(-1, -2)


def _apply(operators, rows, q, out, one_each=False):
    """Fill in the solutions of rows: all of one distribution, or each of its own."""
    sizes, types = operators.sizes, operators.types
    n_slots = q.shape[1]
    starts = np.cumsum(sizes) - sizes
    q = q[rows]
    root = np.sqrt(sizes)
    distinct = len(sizes) == len(types)
    sums = q if distinct else q @ (types[:, None] == np.arange(len(sizes)))
    u = (sums / root).reshape(len(q), -1)
    if one_each:
        y = _solve_each(operators, u)
        residual = u - (operators.mean @ y[:, :, None])[:, :, 0]
    else:
        y = u @ operators.mean_inverse[0]
        residual = u - y @ operators.mean[0]
    square = (residual**2).sum(axis=1)
    table = y.reshape(len(q), n_slots, -1) / root
    if not distinct:
        table = table[:, :, types]
    for place, kind in enumerate(np.flatnonzero(sizes > 1)):
        part = slice(starts[kind], starts[kind] + sizes[kind])
        gap = q[:, :, part] - sums[:, :, kind, None] / sizes[kind]
        z = operators.within_inverse[:, place] @ gap
        table[:, :, part] += z
        gap -= operators.within[:, place] @ z
        square += np.einsum("nja,nja->n", gap, gap)
    out.table[rows] = table
    out.residual[rows] = np.sqrt(square)
    out.marginals[rows] = operators.marginals[:, :, types]


def _solve_each(operators, u):
    r"""Solve one system per distribution without its pseudoinverse."""
    # With N as of `_null_vectors`, and :math:`\Gamma N = 0`, the matrix :math:`\Gamma +
    # N N^T` is regular if and only if there are no more null vectors than N spans; then
    # its inverse is :math:`\Gamma^+` on the range of :math:`\Gamma`. Whether it is
    # regular is seen from what the inverse makes of random vectors: their parts along
    # an eigenvector of a tiny eigenvalue become huge. (u itself has no such part where
    # it lies in the range, so that a solution of moderate size may be off by any null
    # vector.) All other distributions are solved by their eigenvalues.
    null, alive = _null_vectors(operators)
    full = operators.mean + null @ null.swapaxes(1, 2)
    entries = np.arange(full.shape[1])
    full[:, entries, entries] += ~alive
    probes = np.random.RandomState(0).normal(size=(full.shape[1], N_PROBES))
    right = np.empty((*u.shape, 1 + N_PROBES))
    right[:, :, 0] = np.where(alive, u, 0.0)
    right[:, :, 1:] = probes
    try:
        solved = np.linalg.solve(full, right)
    except np.linalg.LinAlgError:
        solved = np.full(right.shape, np.inf)
    y = np.where(alive, solved[:, :, 0], 0.0)
    with np.errstate(invalid="ignore", over="ignore"):
        largest = np.trace(operators.mean, axis1=1, axis2=2)  # eigenvalue, at most
        found = np.abs(solved[:, :, 1:]).max(axis=(1, 2)) * CLEAR * largest < 1
        left = np.abs(right[:, :, 0] - (operators.mean @ y[:, :, None])[:, :, 0])
        found &= left.max(axis=1) < 1e-12 * (1 + np.abs(y).max(axis=1))
        found &= np.abs(operators.mean @ null).max(axis=(1, 2), initial=0) < 1e-12
    if not found.all():
        inverse = pseudoinverse(operators.mean[~found])
        y[~found] = (inverse @ u[~found, :, None])[:, :, 0]
    return y


def _null_vectors(operators):
    r"""Vectors that :math:`\Gamma` takes to zero, as far as the marginals tell."""
    # A slot that is always filled has a candidate in every slate, and a candidate that
    # is always shown has a slot: their indicators sum to one with every slate, and the
    # differences of these indicators to zero.
    marginals, sizes = operators.marginals, operators.sizes
    n_distributions, n_slots, n_types = marginals.shape
    alive = marginals > 0
    sums = [(marginals * sizes).sum(axis=2), marginals.sum(axis=1)]
    always = np.abs(np.concatenate(sums, axis=1) - 1) < 1e-12
    some = np.flatnonzero(always.any(axis=0))
    always = always[:, some]
    slots, types = some[some < n_slots], some[some >= n_slots] - n_slots
    each = np.zeros((n_slots, n_types, len(some)))
    each[slots, :, np.arange(len(slots))] = np.sqrt(sizes)
    each[:, types, np.arange(len(slots), len(some))] = 1 / np.sqrt(sizes[types])
    ones = (alive[..., None] & always[:, None, None]) * each
    ones = ones.reshape(n_distributions, n_slots * n_types, -1)
    mean = ones.sum(axis=2) / np.maximum(always.sum(axis=1), 1)[:, None]
    null = (ones - mean[..., None]) * always[:, None]
    length = np.sqrt((null**2).sum(axis=1, keepdims=True))
    null /= np.where(length > 1e-6, length, np.inf)
    return null, alive.reshape(n_distributions, -1)

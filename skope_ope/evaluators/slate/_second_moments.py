# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""The pseudoinverse of second moments, applied to slot marginals.

A law's :math:`\Gamma` acts separately on means over types of candidates and on what
differs from them (see `LawBatch`): the matrices here have n_slots times n_types rows,
however many candidates there are, and none is made per round where rounds share a law.
"""

from copy import copy
from typing import NamedTuple

import numpy as np

from skope_ope.evaluators.slate._tables import chunks

CUTOFF = 1e-10  # of the largest eigenvalue: what is below is zero
CACHE_BYTES = 2**25  # of operators that later rounds may need again
LARGE = 1e8  # entries of a solution that show a singular matrix


class Solved(NamedTuple):
    r"""What the second moments make of slot marginals q, by round.

    Attributes
    ----------
    table : ndarray of shape (n_rounds, n_slots, n_candidates)
        :math:`\Gamma^+ q`, candidates in the order of the law.
    residual : ndarray of shape (n_rounds,)
        :math:`\|(I - \Gamma\Gamma^+) q\|`, zero where q lies in the range.
    marginals : ndarray of shape (n_rounds, n_slots, n_candidates)
        Slot marginals of the law.
    """

    table: np.ndarray
    residual: np.ndarray
    marginals: np.ndarray


class Operators(NamedTuple):
    """Matrices of laws with types of the same sizes, and their pseudoinverses."""

    sizes: np.ndarray
    types: np.ndarray
    mean: np.ndarray  # (n_laws, n_slots n_types, n_slots n_types)
    within: np.ndarray  # (n_laws, n_types of two or more, n_slots, n_slots)
    mean_inverse: np.ndarray | None  # None: to be solved
    within_inverse: np.ndarray
    marginals: np.ndarray  # (n_laws, n_slots, n_types), of one candidate

    def of(self, law):
        """Operators of one law."""
        one = slice(law, law + 1)
        return Operators(self.sizes, self.types, *(part[one] for part in self[2:]))

    @property
    def nbytes(self):
        """Bytes that they take."""
        return sum(part.nbytes for part in self[2:])


def solved(logger, target, logs):
    """Yield the solutions of consecutive rounds.

    Parameters
    ----------
    logger : BaseSlatePolicy
        Gives the laws.
    target : TargetOfSlates
        Gives the marginals.
    logs : SlateLogs
        The rounds.

    Yields
    ------
    rows : slice
        Which rounds.
    slates : ndarray of int of shape (n_rows, n_slots)
        The logged slates, candidates in the order of the law.
    q : ndarray of shape (n_rows, n_slots, n_candidates)
        The target's marginals, in that order.
    solution : Solved
    """
    cache = {}
    for rows, rounds, q in chunks(target, logs):
        laws = logger.laws(rounds)
        q = laws.marginals(q)
        yield rows, laws.slates(rounds.slate), q, solve(laws, q, cache)


def solve(laws, q, cache):
    """Apply the pseudoinverses of the rounds' laws to their marginals.

    Parameters
    ----------
    laws : SlateLaws
        The laws of the rounds.
    q : ndarray of shape (n_rounds, n_slots, n_candidates)
        Vectors, candidates in the order of the laws.
    cache : dict
        Operators of laws that were met before; new ones are added.

    Returns
    -------
    solution : Solved
    """
    out = Solved(np.empty(q.shape), np.empty(len(q)), np.empty(q.shape))
    order = np.argsort(laws.index, kind="stable")
    counts = np.bincount(laws.index, minlength=len(laws))
    rows_of = np.split(order, np.cumsum(counts)[:-1])
    shared = 2 * len(laws) <= len(q) or len(q) == 1
    keys = [law.tobytes() for law in laws.items] if shared else []
    known = np.array([key in cache for key in keys], dtype=bool)
    for law in np.flatnonzero(known):
        _apply(cache[keys[law]], rows_of[law], q, out)
    new = np.flatnonzero(~known) if shared else np.arange(len(laws))
    if not len(new):
        return out
    missing = copy(laws)
    missing.items = laws.items[new]
    room = CACHE_BYTES - sum(operators.nbytes for operators in cache.values())
    for batch in missing.batches():
        numbers = new[batch.laws]
        once = (counts[numbers] == 1).all() and len(numbers) > 1
        operators = _operators(batch, invert=not once)
        if once:
            rows = order[np.cumsum(counts)[numbers] - 1]
            _apply(operators, rows, q, out, one_each=True)
            continue
        for place, law in enumerate(numbers):
            one = operators.of(place)
            _apply(one, rows_of[law], q, out)
            if shared and one.nbytes <= room:
                cache[keys[law]] = Operators(*map(np.copy, one))
                room -= one.nbytes
    return out


def _operators(batch, invert):
    """Matrices of a batch of laws: means over types, and within types."""
    same, pairs = batch.moments
    sizes = batch.sizes
    n_laws, n_slots, _, n_types = same.shape
    each = np.arange(n_types)
    within = same - pairs[..., each, each]  # S_jkt - P_jktt
    mean = pairs * np.sqrt(np.outer(sizes, sizes))
    mean[..., each, each] += within
    mean = mean.transpose(0, 1, 3, 2, 4).reshape(n_laws, n_slots * n_types, -1)
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
    """Pseudoinverses of symmetric matrices, tiny eigenvalues being zero.

    Parameters
    ----------
    matrices : ndarray of shape (..., n, n)
        Second moments.

    Returns
    -------
    inverses : ndarray of shape (..., n, n)
    """
    if not matrices.size:
        return matrices
    values, vectors = np.linalg.eigh((matrices + matrices.swapaxes(-1, -2)) / 2)
    kept = values > CUTOFF * np.maximum(values[..., -1:], 0)
    inverse = np.divide(1.0, values, out=np.zeros_like(values), where=kept)
    return (vectors * inverse[..., None, :]) @ vectors.swapaxes(-1, -2)


def _apply(operators, rows, q, out, one_each=False):
    """Fill in the solutions of rows: all of one law, or each of its own."""
    sizes, types = operators.sizes, operators.types
    n_slots = q.shape[1]
    starts = np.cumsum(sizes) - sizes
    q = q[rows]
    root = np.sqrt(sizes)
    sums = q if len(sizes) == len(types) else np.add.reduceat(q, starts, axis=2)
    u = (sums / root).reshape(len(q), -1)
    if one_each:
        y = _solve_each(operators, u)
        residual = u - (operators.mean @ y[:, :, None])[:, :, 0]
    else:
        y = u @ operators.mean_inverse[0]
        residual = u - y @ operators.mean[0]
    square = (residual**2).sum(axis=1)
    table = (y.reshape(len(q), n_slots, -1) / root)[:, :, types]
    for place, kind in enumerate(np.flatnonzero(sizes > 1)):
        part = slice(starts[kind], starts[kind] + sizes[kind])
        gap = q[:, :, part] - sums[:, :, kind, None] / sizes[kind]
        z = operators.within_inverse[:, place] @ gap
        table[:, :, part] += z
        square += ((gap - operators.within[:, place] @ z) ** 2).sum(axis=(1, 2))
    out.table[rows] = table
    out.residual[rows] = np.sqrt(square)
    out.marginals[rows] = operators.marginals[:, :, types]


def _solve_each(operators, u):
    r"""Solve one system per law without its pseudoinverse.

    Slots that are always filled make :math:`\Gamma` annihilate :math:`(c_j 1)_j` with
    :math:`\sum_j c_j = 0`; candidates that are never shown, their own entries. Where
    that is all, :math:`\Gamma + N N^T` is regular and agrees with :math:`\Gamma` on
    its range. Where it is not, the solution shows it, and the eigenvalues decide.
    """
    alive = operators.marginals > 0
    weight = (alive * np.sqrt(operators.sizes)).astype(float)
    n_laws, n_slots, n_types = weight.shape
    scale = np.sqrt((weight**2).sum(axis=(1, 2), keepdims=True) / n_slots)
    null = np.zeros((n_laws, n_slots, n_types, n_slots))
    slots = np.arange(n_slots)
    null[:, slots, :, slots] = (weight / np.maximum(scale, 1)).transpose(1, 0, 2)
    null -= null.mean(axis=3, keepdims=True)
    null = null.reshape(n_laws, n_slots * n_types, n_slots)
    alive = alive.reshape(n_laws, -1)
    full = operators.mean + null @ null.swapaxes(1, 2)
    entries = np.arange(full.shape[1])
    full[:, entries, entries] += ~alive
    right = np.where(alive, u, 0.0)
    try:
        y = np.linalg.solve(full, right[:, :, None])[:, :, 0]
    except np.linalg.LinAlgError:
        y = np.full(u.shape, np.inf)
    y = np.where(alive, y, 0.0)
    with np.errstate(invalid="ignore"):
        left = np.abs(right - (operators.mean @ y[:, :, None])[:, :, 0]).max(axis=1)
    doubtful = ~((left < 1e-9) & (np.abs(y).max(axis=1) < LARGE))
    if doubtful.any():
        inverse = pseudoinverse(operators.mean[doubtful])
        y[doubtful] = (inverse @ right[doubtful, :, None])[:, :, 0]
    return y

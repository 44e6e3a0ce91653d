# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""Weights of the pseudoinverse estimator, :math:`W = q^T \Gamma^+ 1_s`.

Uniform rankings and slots that are filled independently have closed forms; all other
distributions go through their second moments.

A distribution's :math:`\Gamma` acts separately on means over types of candidates and on
what differs from them (see `DistributionBatch`): the matrices here have n_slots times
n_types rows, however many candidates there are. Rounds that share a distribution share
its inverse.
"""

from copy import copy
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from skope_ope.evaluators.core._slate_target import method
from skope_ope.evaluators.slate._base import (
    ROUNDS_OF_BLOCK,
    chunk_rows,
    chunks,
    form_of,
    knows_all,
    offered_counts,
    offered_here,
    recorded,
)
from skope_ope.logs._validation import EMPTY
from skope_ope.policies.slate._empirical_slate_policy import EmpiricalSlatePolicy
from skope_ope.policies.slate._ranking_distribution import RankingDistribution
from skope_ope.policies.slate._slate_base import BaseSlatePolicy, entries

MAY_BE_EMPTY = 1e-9  # probability above which a slot is empty now and then
IMPOSSIBLE = 1e6  # of the largest entry: what an assignment must not take
CUTOFF = 1e-10  # of the largest eigenvalue: what is below is zero
# below this, of the largest eigenvalue, eigenvalues are looked at one by one. Far above
# the cutoff: a probe finds the smallest one only roughly
CLEAR = 1e-5
N_PROBES = 2


class RoundWeights(NamedTuple):
    r"""Weights of the logged slates, and what they rest on, by round."""

    weight: np.ndarray  # :math:`q^T \Gamma^+ 1_s`
    # :math:`\|(I - \Gamma\Gamma^+) q\|`; None where it cannot be known
    residual: np.ndarray
    # Contribution of every slot, less its mean under the logger; None where they were
    # not asked for
    parts: np.ndarray
    # Mean of the weight under the logger, :math:`q^T \Gamma^+ E_\mu[1_s]`; None where
    # it is one in all rounds, as it is if the logger and the policy always fill one
    # slot at least
    expected: np.ndarray | None = None


def round_weights(logger, target, logs, with_parts=False):
    """Weights of all rounds."""
    form = form_of(logger, logs)
    if form == "product":
        return _product_weights(logger, target, logs, with_parts)
    if form == "uniform":
        *found, mean = uniform_weights(target, logs, with_parts)
        return RoundWeights(*found, _unless_one(mean))
    if not isinstance(logger, BaseSlatePolicy):
        raise TypeError(
            "the probabilities of pairs of slots and candidates are not known for "
            f"{type(logger).__name__}. Derive the logging policy from "
            "BaseSlatePolicy, or use one of this package, such as "
            "PlackettLuceSlatePolicy or EmpiricalSlatePolicy."
        )
    n_rounds, n_slots = logs.slate.shape
    weight, residual, expected = np.empty((3, n_rounds))
    parts = np.empty((n_rounds, n_slots)) if with_parts else None
    for rows, slates, _, solution in solved(logger, target, logs):
        shown = entries(solution.table, slates)
        weight[rows] = shown.sum(axis=1)
        mean = np.einsum("nja,nja->nj", solution.marginals, solution.table)
        expected[rows] = mean.sum(axis=1)
        if with_parts:
            parts[rows] = shown - mean
        residual[rows] = solution.residual
    return RoundWeights(weight, residual, parts, _unless_one(expected))


def _unless_one(expected):
    """Return means of weights, those that are one but for rounding as None."""
    expected = np.where(np.abs(expected - 1) < MAY_BE_EMPTY, 1.0, expected)
    return None if (expected == 1).all() else expected


def _product_weights(logger, target, logs, with_parts):
    r""":math:`W = \sum_j \pi_j(s_j) / \mu_j(s_j) - (l - 1)\, t`."""
    # The l slots are those that the logger fills, and t is the probability with which
    # the policy fills one of them: one, unless it leaves slots empty.
    pi, mu = target.marginal_proba(logs), recorded(logger, logs)
    if mu is None:
        mu = logger.marginal_proba(logs)
    elif (logs.slate == EMPTY).any():  # a column may hold anything there
        mu = np.where(logs.slate == EMPTY, 1.0, mu)
    n_slots = logs.n_slots
    weight, ones = np.empty(len(logs)), np.ones(n_slots)
    for start in range(0, len(logs), ROUNDS_OF_BLOCK):
        rows = slice(start, start + ROUNDS_OF_BLOCK)
        weight[rows] = (pi[rows] / mu[rows]) @ ones
    weight -= n_slots - 1
    residual, empty = _product_range(logger, target, logs)
    parts = pi / mu - 1 if with_parts else None
    expected = None
    if empty is not None and empty.any():
        filled = logs.slate != EMPTY
        weight += np.maximum(filled.sum(axis=1) - 1, 0) * empty
        expected = _unless_one(1 - filled.any(axis=1) * empty)
        if with_parts:
            parts += filled * empty[:, None]
    return RoundWeights(weight, residual, parts, expected)


def _product_range(logger, target, logs):
    """Get the distance from the range, and how likely the policy's slots are empty."""
    # Independent slots are always filled or never. Outside are what they never show,
    # and policies that leave one slot empty more often than another.
    if not knows_all(logger, target, logs):
        return None, None
    wanted = target.slates
    if wanted is not None and not ((wanted == EMPTY) & (logs.slate != EMPTY)).any():
        never = method(logger, "marginal_proba")(logs, wanted) == 0
        return np.sqrt(never.sum(axis=1)), None
    residual, empty = np.empty(len(logs)), np.empty(len(logs))
    for rows, rounds, q in chunks(target, logs):
        mu = method(logger, "slot_marginals")(rounds)
        filled = mu.any(axis=2)
        share = q.sum(axis=2) * filled
        mean = share.sum(axis=1) / np.maximum(filled.sum(axis=1), 1)
        gap = (share - mean[:, None]) * filled
        never = np.where(mu == 0, q, 0.0)
        width = np.maximum((mu > 0).sum(axis=2), 1)
        residual[rows] = np.sqrt((never**2).sum(axis=(1, 2)) + (gap**2 / width).sum(1))
        empty[rows] = np.where(np.abs(1 - mean) > 1e-9, 1 - mean, 0.0)
    return residual, empty


def second_moment(logger, target, logs, used=None):
    r"""Mean of :math:`q^T \Gamma^+ q` over the rounds, and the largest weight."""
    total = largest = 0.0
    if used is None:
        used = np.ones(len(logs), dtype=bool)
    if not used.any():
        return float("nan"), float("nan")
    if form_of(logger, logs) == "uniform" and _full(target) and logs.offered is None:
        n_slots, m = logs.n_slots, logs.max_candidates
        largest = 1.0 + (n_slots if n_slots < m else m - 1) * (m - 1)
        return largest, largest
    ranking = isinstance(logger._for(logs), RankingDistribution)
    listed = isinstance(logger, EmpiricalSlatePolicy)
    shown = logger._lists_of(logs) if listed else None
    for rows, _, q, solution in solved(logger, target, logs):
        table, marginals = solution.table[used[rows]], solution.marginals[used[rows]]
        total += float(np.einsum("nja,nja->", q[used[rows]], table))
        if listed:
            own = np.arange(len(logs))[rows][used[rows]]
            pairs = ((z, shown[row]) for z, row in zip(table, own, strict=True))
            sums = (np.abs(_sums_of_slates(z, slates)).max() for z, slates in pairs)
        else:
            pairs = zip(table, marginals, strict=True)
            sums = (_largest_sum(z, mu, ranking) for z, mu in pairs)
        largest = max(largest, *sums, 0.0)
    return total / int(used.sum()), float(largest)


def knows_largest(logger, logs):
    """Tell whether `second_moment` finds the largest weight, not a bound on it."""
    # It does where the slates are listed, where slots are filled independently, and
    # where any ranking of one set of candidates may be shown. Elsewhere it combines
    # what slots show that may never meet: in mixtures, and in rankings whose candidates
    # differ by slot.
    if isinstance(logger, EmpiricalSlatePolicy) or form_of(logger, logs) == "product":
        return True
    one_set = logs.offered is None or logs.offered.ndim == 2
    return one_set and isinstance(logger._for(logs), RankingDistribution)


def _sums_of_slates(z, slates):
    """Return the sums of the entries of slates, empty slots being worth nothing."""
    entry = z[np.arange(slates.shape[1]), slates]
    return np.where(slates == EMPTY, 0.0, entry).sum(axis=1)


def _full(target):
    """Tell whether every round of a deterministic policy shows different candidates."""
    if target.slates is None:
        return False
    shown = np.sort(target.slates, axis=1)
    return shown[:, 0].min() >= 0 and not (shown[:, 1:] == shown[:, :-1]).any()


def mean_of_weights(logger, target, logs):
    """Mean weight under a logger whose moments are means over draws."""
    # The expectation is over fresh draws, as many as the moments were taken from.
    total = 0.0
    fresh = logger._redrawn()
    for rows, _, _, solution in solved(logger, target, logs):
        drawn = fresh.distributions(logs[rows])
        marginals = drawn.slot_marginals()[drawn.index]
        total += float(np.einsum("nja,nja->", marginals, solution.table))
    return total / len(logs)


def _largest_sum(z, mu, ranking):
    """Largest absolute sum of one entry per slot, or of none where it may be empty."""
    rows = mu.any(axis=1)
    if not rows.any():
        return 0.0
    empty = mu[rows].sum(axis=1) < 1 - MAY_BE_EMPTY
    if empty.any():  # a column of its own, that is worth nothing, for every such slot
        z = np.hstack([z[rows], np.zeros((len(empty), len(empty)))])
        possible = np.hstack([mu[rows] > 0, np.diag(empty)])
    else:
        z, possible = z[rows], mu[rows] > 0
    if not ranking:  # slots taken alone
        high = np.where(possible, z, -np.inf).max(axis=1).sum()
        low = np.where(possible, z, np.inf).min(axis=1).sum()
        return float(max(high, -low))
    penalty = IMPOSSIBLE * (1 + np.abs(z).max())
    sums = []
    for sign in (1, -1):
        cost = np.where(possible, -sign * z, penalty)
        slots, shown = linear_sum_assignment(cost)
        sums.append(sign * z[slots, shown][possible[slots, shown]].sum())
    return float(max(sums))


def uniform_weights(target, logs, with_parts):
    r"""Weights where l of m candidates are shown, in any order."""
    # With the target's slot marginals q, their sums over slots :math:`c_a` and over
    # candidates :math:`t_j`, and :math:`T = \sum_j t_j`, the pseudoinverse gives
    #
    # .. math::
    #
    #     (\Gamma^+ q)_{ja} = \frac{T}{l^2}
    #     + (m-1)\Big[q_{ja} - \frac{c_a}{l} - \frac{t_j}{m} + \frac{T}{lm}\Big]
    #     + \frac{m(m-1)}{(m-l)\,l} \Big[c_a - \frac{T}{m}\Big],
    #
    # without the last term where l = m. For a policy that fills every slot, the weight
    # is :math:`1 + (m-1)[S - (l-P)/(m-l)]` with :math:`S = \sum_j q_{j s_j}` and
    # :math:`P = \sum_j c_{s_j}`.
    #
    # Outside of the range are policies that fill one slot more often than another and,
    # where l = m and the logger shows every candidate, one candidate more often than
    # another.
    n_rounds, n_slots = logs.slate.shape
    n_offered = offered_counts(logs)
    weight, residual, expected = np.empty((3, n_rounds))
    parts = np.empty((n_rounds, n_slots)) if with_parts else None
    matches = _matches_of_marginals if target.slates is None else _deterministic_matches
    for part_of_rounds in matches(target, logs, n_offered):
        rows, m, exists, own, shown, filled, lost, squares = part_of_rounds
        m = np.maximum(m, 1)  # without candidates, all that follows is zero
        n_filled = np.minimum(m, n_slots)  # slots of a slate
        total = filled.sum(axis=0)
        gap = (filled - total / n_filled) * exists
        part = own - shown / n_filled
        part -= gap / m
        part *= m - 1
        rest = np.maximum(m - n_filled, 1) * n_filled
        part += np.where(m > n_filled, m * (m - 1) / rest, 0.0) * (shown - total / m)
        if not exists.all():
            part *= logs.slate[rows].T != EMPTY
        expected[rows] = total / n_filled
        weight[rows] = expected[rows] + part.sum(axis=0)
        uneven = np.where(m > n_filled, 0.0, (squares - total**2 / m) / n_filled)
        square = (gap**2).sum(axis=0) / m + (lost**2).sum(axis=0) + uneven
        residual[rows] = np.sqrt(np.maximum(square, 0.0))
        if with_parts:
            parts[rows] = part.T
    return weight, residual, parts, expected


def _matches_of_marginals(target, logs, n_offered):
    """Yield rows, m, slots, q and c at logged slates, t, t of empty slots."""
    # All but the first two have the shape (n_slots, n_rows). Last comes the sum of the
    # squares of c, by row.
    for rows, rounds, q in chunks(target, logs):
        m, exists = offered_here(n_offered, rows, logs.n_slots)
        filled = q.sum(axis=2).T
        if not exists.all():
            q = q * exists.T[:, :, None]
        total = q.sum(axis=1)
        squares = (total**2).sum(axis=1)
        total = np.broadcast_to(total[:, None], q.shape)
        own, shown = entries(q, rounds.slate).T, entries(total, rounds.slate).T
        yield rows, m, exists, own, shown, filled * exists, filled * ~exists, squares


def _deterministic_matches(target, logs, n_offered):
    """Yield what `_matches_of_marginals` does, without tables of candidates."""
    # candidates fit into few bytes: comparisons of all pairs of slots are fast
    kind = np.int16 if logs.max_candidates < 2**15 else np.int32
    n_slots = logs.n_slots
    for start in range(0, len(logs), ROUNDS_OF_BLOCK):
        rows = slice(start, start + ROUNDS_OF_BLOCK)
        m, exists = offered_here(n_offered, rows, n_slots)
        logged = np.ascontiguousarray(logs.slate[rows].T, dtype=kind)
        wanted = np.ascontiguousarray(target.slates[rows].T, dtype=kind)
        lost = (wanted != EMPTY) & ~exists
        wanted[lost | (wanted == EMPTY)] = EMPTY - 1  # empty slots do not match
        own = (logged == wanted).astype(float)
        shown = np.zeros(logged.shape, dtype=np.int16)
        for other in range(n_slots):
            shown += logged == wanted[other]
        filled, lost = (wanted >= 0).astype(float), lost.astype(float)
        squares = filled.sum(axis=0)
        for slot in range(1, n_slots if (m <= n_slots).any() else 0):
            twice = (wanted[:slot] == wanted[slot]) & (wanted[slot] >= 0)
            squares += 2 * twice.sum(axis=0)
        yield rows, m, exists, own, shown.astype(float), filled, lost, squares


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

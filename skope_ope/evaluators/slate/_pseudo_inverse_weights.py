# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""Weights of the pseudoinverse estimator, :math:`W = q^T \Gamma^+ 1_s`.

Uniform rankings and slots that are filled independently have closed forms; all other
distributions go through their second moments, see `_second_moments`.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from skope_ope.evaluators.core._slate_target import method
from skope_ope.evaluators.slate._second_moments import solved
from skope_ope.evaluators.slate._support import chunks, form_of, knows_all, recorded
from skope_ope.evaluators.slate._uniform_rankings import BLOCK, uniform_weights
from skope_ope.logs._validation import EMPTY
from skope_ope.policies.slate._empirical_slate_policy import EmpiricalSlatePolicy
from skope_ope.policies.slate._ranking_distribution import RankingDistribution
from skope_ope.policies.slate._slate_base import BaseSlatePolicy, entries

MAY_BE_EMPTY = 1e-9  # probability above which a slot is empty now and then
IMPOSSIBLE = 1e6  # of the largest entry: what an assignment must not take


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
        return _product(logger, target, logs, with_parts)
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


def _product(logger, target, logs, with_parts):
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
    for start in range(0, len(logs), BLOCK):
        rows = slice(start, start + BLOCK)
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
            sums = (np.abs(_sums_of(z, slates)).max() for z, slates in pairs)
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


def _sums_of(z, slates):
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

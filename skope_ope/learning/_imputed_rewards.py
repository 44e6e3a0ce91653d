# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""Rewards of slots, imputed from the rewards of whole slates.

With the second moments :math:`\Gamma_x` of the logger, :math:`r\,\Gamma_x^+ 1_s` has
the mean :math:`\Gamma_x^+ \Gamma_x \phi_x` wherever the reward is a sum over slots: the
part of :math:`\phi_x` that slates of the logger can tell, which gives all of these
slates their value. It is linear in :math:`r\,1_s`, so that only the sums of that are
kept, one table per query, however many rounds were logged.
"""

from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from skope_ope.evaluators.core._slate_target import method
from skope_ope.evaluators.slate._base import check_logged_slates
from skope_ope.evaluators.slate._second_moments import by_distribution, solve
from skope_ope.logs._slate_fields import EMPTY, column_weights
from skope_ope.policies.slate._slate_tables import distinct_rows, offered_slots

UNIFORM_BYTES = 2**25  # of one table (rounds, candidates), where nothing is inverted


class Queries(NamedTuple):
    """Distinct sets of candidates among rounds."""

    first: np.ndarray  # A round of every query
    index: np.ndarray  # query of every round
    features: np.ndarray  # features of the candidates
    # Who can be shown where; the last slots of a query with too few candidates show
    # nobody
    offered: np.ndarray


def queries_of(logs, n_slots, user):
    """Find the queries: rounds with equal features of equal candidates."""
    features = logs.item_features
    if features is None:
        raise ValueError(
            f"{user} learns from the features of candidates, and the logs have none: "
            "pass SlateLogs(..., item_features=...)."
        )
    offered = offered_slots(logs, n_slots)
    tables = [] if len(offered) == 1 else [offered.reshape(len(logs), -1)]
    if features.ndim == 3:
        tables.append(features.reshape(len(logs), -1))
    elif len(features) != logs.max_candidates:
        tables.append(logs.item_id)
    index = np.zeros(len(logs), dtype=np.intp)
    for table in tables:
        first, other = distinct_rows(table)
        index = index * len(first) + other
    _, first, index = np.unique(index, return_index=True, return_inverse=True)
    rounds = logs[first]
    features = rounds._per_candidate(rounds.item_features)
    features = np.broadcast_to(features, (len(first), *features.shape[1:]))
    offered = offered_slots(rounds, n_slots)
    n_offered = offered.any(axis=1).sum(axis=1)[:, None, None]
    fillable = np.arange(n_slots)[:, None] < n_offered
    shape = (len(first), n_slots, offered.shape[2])
    offered = np.broadcast_to(offered & fillable, shape)
    return Queries(first, index.reshape(-1), features, offered)


def distinct_laws(logs, query):
    """Return rounds of every pair of a query and a logging distribution."""
    # rounds of one query may have several distributions, and each of them in several
    # orders of the candidates
    drawn = logs.logging_policy.distributions(logs)
    orders, order = distinct_rows(drawn.order)
    keys = (query * len(drawn) + drawn.index) * len(orders) + order
    _, first, index = np.unique(keys, return_index=True, return_inverse=True)
    return first, index.reshape(-1)


class ImputedRewards:
    """Mean imputed reward of every slot and candidate, query by query."""

    def __init__(self, user):
        self.user = user
        self.n_slots, self.n_rounds = None, 0
        self.repeats, self.examples = False, []
        self._number = {}

    def add(self, logs):
        """Add the rounds of a batch of logs."""
        self._check(logs)
        weight = column_weights(logs)
        if weight is not None and not weight.all():
            logs = logs[np.flatnonzero(weight)]  # a query of such rounds has no mean
        form = logs.logging_policy.closed_form(logs)
        self.repeats |= form == "product" or _some_repeat(logs.slate)
        if form == "uniform":
            step = max(1, UNIFORM_BYTES // (8 * logs.max_candidates))
            for start in range(0, len(logs), step):
                self._add_uniform(logs[start : start + step])
        else:
            kept = {}
            for rows in by_distribution(logs.logging_policy, logs):
                self._add(logs[rows], kept)
        self.n_rounds += len(logs)

    def mean(self):
        """Return the means, of shape (n_queries, n_slots, n_candidates)."""
        return self.totals / self.counts[:, None, None]

    def _check(self, logs):
        logger = logs.logging_policy
        if logger is None:
            raise ValueError(
                f"{self.user} needs the policy that chose the logged slates. Pass "
                "SlateLogs(..., logging_policy=...). If all rankings were equally "
                "likely, use "
                "logs.replace(logging_policy=UniformSlatePolicy(n_slots))."
            )
        if not hasattr(logger, "distributions"):
            raise TypeError(
                f"the logging_policy {type(logger).__name__} does not give the "
                "probabilities of pairs of slots and candidates. Derive it from "
                "BaseSlatePolicy, or wrap it in SampledSlatePolicy, which takes "
                "means over draws."
            )
        check_logged_slates(logs)
        shape = (logs.n_slots, logs.max_candidates)
        if self.n_slots is None:
            self.n_slots, self.n_candidates = shape
        elif shape != (self.n_slots, self.n_candidates):
            raise ValueError(
                "batches of logs must have the same numbers of slots and candidates, "
                f"got {shape} after {(self.n_slots, self.n_candidates)}. The field "
                "`candidates` says which ones a round lacks."
            )

    def _add_uniform(self, rounds):
        queries = queries_of(rounds, self.n_slots, self.user)
        sums = _query_sums(rounds, queries.index, len(queries.first))
        offered = offered_slots(rounds[queries.first], self.n_slots)[:, 0]
        imputed = _apply_uniform(sums, offered)
        self._gather(rounds, queries, queries.first, imputed, queries.offered)

    def _add(self, rounds, kept):
        queries = queries_of(rounds, self.n_slots, self.user)
        first, index = distinct_laws(rounds, queries.index)
        sums = _query_sums(rounds, index, len(first))
        imputed = _apply_inverse(sums, rounds[first], kept)
        shown = method(rounds.logging_policy, "slot_marginals")(rounds[first]) > 0
        self._gather(rounds, queries, first, imputed, shown)

    def _gather(self, rounds, queries, first, imputed, shown):
        """Add sums, which belong to the queries of some rounds."""
        known = len(self._number)
        numbers = self._numbers(queries)
        new = numbers >= known
        if new.any():
            self.examples.append((numbers[new], rounds[queries.first[new]]))
        np.add.at(self.totals, numbers[queries.index[first]], imputed)
        np.logical_or.at(self.shown, numbers[queries.index[first]], shown)
        met, weight = numbers[queries.index], column_weights(rounds)
        self.counts += np.bincount(met, weight, minlength=len(self.counts))

    def _numbers(self, queries):
        """Return the numbers of queries among all, and number new ones."""
        known = len(self._number)
        tables = zip(queries.features, queries.offered, strict=True)
        keys = (_key_of(features, offered) for features, offered in tables)
        numbers = np.array(
            [self._number.setdefault(key, len(self._number)) for key in keys]
        )
        new = np.flatnonzero(numbers >= known)
        fields = {
            "features": queries.features[new],
            "offered": queries.offered[new],
            "totals": np.zeros((len(new), self.n_slots, self.n_candidates)),
            "shown": np.zeros((len(new), self.n_slots, self.n_candidates), dtype=bool),
            "counts": np.zeros(len(new)),
        }
        for name, values in fields.items():
            old = [getattr(self, name)] if known else []
            setattr(self, name, np.concatenate([*old, values]))
        return numbers


def _some_repeat(slates):
    """Tell whether a slate shows a candidate twice."""
    ordered = np.sort(slates, axis=1)
    return bool(((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != EMPTY)).any())


def _key_of(*tables):
    """Return 16 bytes that tell tables apart: their own bytes would fill the memory."""
    digest = blake2b(digest_size=16)
    for table in tables:
        digest.update(np.ascontiguousarray(table))
    return digest.digest()


def _query_sums(rounds, index, n_sums):
    """Return sums of r 1_s, of shape (n_sums, n_slots, n_candidates)."""
    shape = (n_sums, rounds.n_slots, rounds.max_candidates)
    rows, slots = np.nonzero(rounds.slate != EMPTY)
    cells = np.ravel_multi_index((index[rows], slots, rounds.slate[rows, slots]), shape)
    weight = column_weights(rounds)
    gain = rounds.reward if weight is None else rounds.reward * weight
    weights = gain[rows]
    return np.bincount(cells, weights, minlength=np.prod(shape)).reshape(shape)


def _apply_inverse(sums, rounds, kept):
    """Apply the rounds' pseudoinverses to vectors in their ranges."""
    drawn = rounds.logging_policy.distributions(rounds)
    table = solve(drawn, drawn.marginals(sums), kept).table
    place = np.broadcast_to(drawn.place, (len(sums), drawn.place.shape[1]))
    return np.take_along_axis(table, place[:, None], axis=2)


def _apply_uniform(sums, offered):
    r"""Apply the pseudoinverse of uniform rankings."""
    # With m candidates and l filled slots it takes :math:`1_s` to
    #
    # .. math::
    #
    #     \frac 1 l + (m-1) \Bigl[1(s_j = a) - \frac{c_a}{l}\Bigr]
    #     + \frac{m(m-1)}{m-l} \Bigl[\frac{c_a}{l} - \frac 1 m\Bigr],
    #
    # :math:`c_a` being 1 where a is in s, without the last term where l = m. Of sums of
    # :math:`r\,1_s` every slot sums to the same sum of r.
    n_slots = sums.shape[1]
    m = offered.sum(axis=1)[:, None, None]
    length = np.minimum(n_slots, m)
    shown = sums.sum(axis=1, keepdims=True) / np.maximum(length, 1)
    total = sums[:, :1].sum(axis=2, keepdims=True)
    out = total / np.maximum(length, 1) + (m - 1) * (sums - shown)
    spare = np.where(m > length, m * (m - 1) / np.maximum(m - length, 1), 0.0)
    out += spare * (shown - total / np.maximum(m, 1))
    filled = np.arange(n_slots)[:, None] < length
    return np.where(offered[:, None] & filled, out, 0.0)

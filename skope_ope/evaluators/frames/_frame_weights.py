# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Importance weights of a policy on the rounds of a lazy frame.

What asks also returns what reads the answers. The same is known as `PartWeights` finds
out in memory.
"""

from math import inf

import numpy as np

from skope_ope.evaluators.core._extremes import Extremes
from skope_ope.evaluators.core._loggers import SURE
from skope_ope.evaluators.core._part_weights import LOGGERS, ROUNDS
from skope_ope.evaluators.core._sums import weights_of
from skope_ope.evaluators.core._tally import Tally, places_in
from skope_ope.evaluators.core._weight_bound import (
    FROM_ACTIONS,
    FROM_LOGGER,
    WeightBound,
    bins_of,
)
from skope_ope.evaluators.frames._columns import total, where


def ask_weights(whole, kind, policy, target):
    """Ask for weights: "logger", "own_logger" or "mixture"; return what reads them."""
    rounds, own = whole.rounds, kind == "own_logger"
    role = "logger" if own and rounds.loggers is not None else None
    labels = [None] if role is None else rounds.loggers
    several = kind != "logger" and rounds.has_several_loggers
    w, owner = target.b if kind == "mixture" else target.w, weights_of(kind, policy)
    readers = []
    if w is not None:
        bound = whole.about.bound  # mostly none is larger
        small = w if bound is None else np.minimum(w, bound)
        whole.sums_by(LOGGERS if own else ROUNDS).put(owner, (w, small))
        readers.append(_ask_extremes(whole, w, role))
        if target.table is not None and not several:
            readers.append(_ask_limits(whole, target))
    if target.table is not None:
        readers.append(_ask_missing(whole, kind, target, several))

    def read(found):
        answers, actions = found.answers, found.counts.actions
        present = answers.strata(role)[0].tolist()
        tally = Tally(labels, actions, target.table is not None)
        found.tallies[owner], found.extremes[owner] = tally, Extremes()
        if w is not None:
            found.ends[owner] = WeightBound(None, found.counts.n)
        for reader in readers:
            reader(found, owner, tally, (role, places_in(labels, present), present))

    return read


def _ask_extremes(whole, w, role):
    asking, rounds = whole.asking, whole.rounds
    weight, p = rounds.counted(w), rounds.counted(rounds.p)
    counted = rounds.weighed(w)
    used = rounds.query.define(where(counted != 0.0, rounds.reward, None))
    least, low, smallest = map(asking.least, (weight, used, p))
    largest, high, heaviest = map(asking.largest, (weight, used, counted))

    def read(found, owner, tally, by):
        answers, (_, rows, present) = found.answers, by
        tally.largest[rows] = answers.largest(heaviest, role)
        tally.lowest = min(0.0, answers.least(least))
        tally.reward_range = answers.least(low), answers.most(high)
        pairs = zip(present, answers.largest(largest, role).tolist(), strict=True)
        known = {label: weight for label, weight in pairs if weight > -inf}
        smallest_p = answers.least(smallest)
        found.extremes[owner] = Extremes(known, propensity=smallest_p)

    return read


def _ask_missing(whole, kind, target, several):
    """Ask for what the policy wants and the logger could not do, or did not."""
    asking, rounds = whole.asking, whole.rounds
    proba, told = rounds.logger_proba, rounds.logging_proba
    sums, lost, gaps = {}, [], []

    def ask(name, found, code=...):
        sums[name, code] = asking.sum(rounds.weighed(found))

    if told is not None and (kind != "mixture" or not several):
        pairs = zip(told, target.table, strict=True)
        ask("told", total([where(mu <= 0.0, pi, 0.0) for mu, pi in pairs]))
    else:
        certain = None if rounds.p is None else rounds.p >= 1.0
        if kind == "mixture" and several:
            certain = rounds.mixture > 1 - SURE
        if certain is not None:
            ask("certain", where(certain, 1.0 - target.pi, 0.0))
        each = rounds.loggers if kind == "own_logger" and proba is None else None
        for code in whole.first.lacking(rounds.actions, each):
            mass = target.table[code]
            if certain is not None:
                ask("wanted_there", where(certain, mass, 0.0), code)
                mass = where(certain, 0.0, mass)
            ask("wanted", mass, code)
        if kind == "own_logger" and several and proba is not None:
            lost = [rounds.weighed(where(one <= 0.0, target.b, 0.0)) for one in proba]
            lost = [*map(asking.sum, [*lost, rounds.weighed(target.b)])]
    if kind == "mixture" and several:
        gaps = [*map(asking.least, [*proba, *(told or [])])]
    sure = [asking.largest(one) for one in proba] if gaps else []

    def read(found, owner, tally, by):
        answers, (role, rows, _) = found.answers, by
        for (name, code), asked in sums.items():
            getattr(tally, name)[rows, code] = answers.of(asked, role)
        if lost:
            *tally.lost[:], tally.sum_b = map(answers.total, lost)
        tally.gaps = any(answers.least(one) <= 0 for one in gaps)
        tally.gaps |= any(answers.most(one) >= 1 for one in sure)

    return read


def _ask_limits(whole, target):
    """Ask how large weights may be that were not logged."""
    # Of a logging distribution no more than the largest weight is known: all that the
    # policy does may have it.
    asking, rounds = whole.asking, whole.rounds
    limit, most, mass = [], [], []
    if rounds.logging_proba is not None:
        pairs = zip(rounds.logging_proba, target.table, strict=True)
        ratios = [where(mu > 0.0, pi / mu, 0.0) for mu, pi in pairs]
        limit = [asking.largest(rounds.counted(one)) for one in ratios]
    elif whole.first.may_belong_to_actions:
        shown = [*map(rounds.counted, target.table)]
        most, mass = [*map(asking.largest, shown)], [*map(asking.sum, shown)]

    def read(found, owner, tally, by):
        answers, bound = found.answers, found.ends[owner]
        if limit:
            bound.source, bound.n_binned = FROM_LOGGER, bound.n
            bound.found = max(map(answers.most, limit))
            bound.bins, bound.mass = bins_of([bound.found]), np.array([float(bound.n)])
        elif most and found.propensity is not None:
            bound.source = FROM_ACTIONS
            columns = map(answers.most, most), map(answers.total, mass)
            rows = zip(found.propensity.tolist(), *columns, strict=True)
            bound.actions = dict(zip(found.counts.actions, rows, strict=True))

    return read

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Importance weights of a policy on the rounds of a lazy frame.

What asks also returns what reads the answers. The same is known as `PartWeights` finds
out in memory.
"""

import numpy as np

from skope_ope.evaluators.core._loggers import SURE
from skope_ope.evaluators.core._part_weights import LOGGERS, ROUNDS, masses
from skope_ope.evaluators.core._tally import Tally, places_in
from skope_ope.evaluators.core._weight_bound import (
    FROM_ACTIONS,
    FROM_LOGGER,
    WeightBound,
    bins_of,
)
from skope_ope.evaluators.frames._columns import total, where


def ask_weights(whole, kind, owner, target):
    """Ask for weights of a policy; return what reads their `Tally` and their bound."""
    rounds, asking, table = whole.logs, whole.asking, target.table
    sums = whole.sums_by(LOGGERS if kind == "own_logger" else ROUNDS)
    several = kind != "logger" and rounds.has_several_loggers
    w, bound, role = target.b if kind == "mixture" else target.w, _no_bound, sums.frame
    if w is not None:
        most = whole.about.bound  # mostly none is larger
        sums.put(owner, (w, w if most is None else np.minimum(w, most)))
        counted = rounds.weighed(w)
        used = rounds.query.define(where(counted != 0.0, rounds.reward, None))
        heaviest = asking.largest(rounds.counted(counted))
        ends, rewards = whole.ask_ends(w), whole.ask_ends(used)
        whole.weights.append(ends)
        if table is not None and not several:
            bound = _ask_bound(whole, table)
    fill = None if table is None else _ask_missing(whole, kind, target, several)

    def read(found):
        answers, labels = found.answers, [None] if role is None else rounds.loggers
        tally = Tally(labels, found.counts.actions, table is not None)
        rows = places_in(labels, answers.strata(role)[0].tolist())
        if w is not None:
            tally.largest[rows] = answers.largest(heaviest, role)
            tally.lowest = min(0.0, ends(answers)[0])
            tally.reward_range = rewards(answers)
        if fill is not None:
            fill(tally, rows, answers, role)
        return tally

    return read, bound


def ask_wanted(whole, target, logs):
    """Ask what a policy wants of all arms; return what reads the `Tally` of it."""
    sums = [whole.asking.sum(logs.weighed(one)) for one in target.table]
    largest = whole.asking.largest(logs.weighed(target.pi))

    def read(found):
        counts, answers = found.counts, found.answers
        arms = counts.actions if logs.role == "action" else counts.loggers
        tally = Tally([None], arms)
        tally.wanted[0] = [answers.total(one) for one in sums]
        tally.largest[0] = answers.most(largest)
        return tally

    return read


def _ask_missing(whole, kind, target, several):
    """Ask for what the policy wants and the logger could not do, or did not."""
    asking, rounds = whole.asking, whole.logs
    proba, told = rounds.logger_proba, rounds.logging_proba
    sums, lost, gaps = {}, [], []

    def ask(name, code, mass):
        sums[name, code] = asking.sum(rounds.weighed(mass))

    if told is not None and (kind != "mixture" or not several):
        pairs = zip(told, target.table, strict=True)
        ask("told", ..., total([where(mu <= 0.0, pi, 0.0) for mu, pi in pairs]))
    else:
        certain = None if rounds.p is None else rounds.p >= 1.0
        if kind == "mixture" and several:
            certain = rounds.mixture > 1 - SURE
        each = rounds.loggers if kind == "own_logger" and proba is None else None
        lacking = whole.first.lacking(rounds.actions, each)
        for name, code, mass in masses(target, certain, [[code] for code in lacking]):
            ask(name, code, mass)
        if kind == "own_logger" and several and proba is not None:
            lost = [rounds.weighed(where(one <= 0.0, target.b, 0.0)) for one in proba]
            lost = [*map(asking.sum, [*lost, rounds.weighed(target.b)])]
    if kind == "mixture" and several:
        gaps = [*map(asking.least, [*proba, *(told or [])])]
    sure = [asking.largest(one) for one in proba] if gaps else []

    def fill(tally, rows, answers, role):
        for (name, code), asked in sums.items():
            getattr(tally, name)[rows, code] = answers.of(asked, role)
        if lost:
            *tally.lost[:], tally.sum_b = map(answers.total, lost)
        tally.gaps = any(answers.least(one) <= 0 for one in gaps)
        tally.gaps |= any(answers.most(one) >= 1 for one in sure)

    return fill


def _ask_bound(whole, table):
    """Ask how large weights may be that were not logged; return what reads it."""
    # Of a logging distribution no more than the largest weight is known: all that the
    # policy does may have it.
    asking, rounds = whole.asking, whole.logs
    told = rounds.logging_proba
    if told is not None:
        pairs = zip(told, table, strict=True)
        ratios = [where(mu > 0.0, pi / mu, 0.0) for mu, pi in pairs]
        largest = [asking.largest(rounds.counted(one)) for one in ratios]
    elif whole.first.may_belong_to_actions:
        shown = [*map(rounds.counted, table)]
        largest, mass = [*map(asking.largest, shown)], [*map(asking.sum, shown)]
    else:
        return _no_bound

    def read(found):
        n, most = found.counts.n, [*map(found.answers.most, largest)]
        if told is not None:
            out = WeightBound(FROM_LOGGER, n)
            out.found, out.n_binned = max(most), n
            out.bins, out.mass = bins_of([out.found]), np.array([float(n)])
            return out
        if found.propensity is None:
            return _no_bound(found)
        out = WeightBound(FROM_ACTIONS, n)
        columns = found.propensity.tolist(), most, map(found.answers.total, mass)
        out.actions = dict(
            zip(found.counts.actions, zip(*columns, strict=True), strict=True)
        )
        return out

    return read


def _no_bound(found):
    return WeightBound(None, found.counts.n)

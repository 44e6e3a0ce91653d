# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Importance weights of a policy on the rounds of a lazy frame: what is asked of them.

The same is known of them as `PartWeights` finds out in memory.
"""

from math import inf

import numpy as np

from skope_ope.evaluators.core._extremes import Extremes
from skope_ope.evaluators.core._loggers import SURE
from skope_ope.evaluators.core._part_weights import LOGGERS, ROUNDS
from skope_ope.evaluators.core._sums import weights_of
from skope_ope.evaluators.core._tally import Tally
from skope_ope.evaluators.core._weight_bound import (
    FROM_ACTIONS,
    FROM_LOGGER,
    WeightBound,
    bins_of,
)
from skope_ope.evaluators.frames._columns import total, where


class FrameWeights:
    """Weights of a policy against the propensities, or against the loggers' mixture."""

    def __init__(self, whole, kind, policy, target):
        self.whole, self.kind, self.target = whole, kind, target
        self.w = target.b if kind == "mixture" else target.w
        self.role = "logger" if kind == "own_logger" and whole.counts.loggers else None
        self.several = len(whole.counts.loggers or [None]) > 1
        asking, rounds = whole.asking, whole.rounds
        self._asked = {}
        if self.w is not None:
            sums = whole.sums_by(ROUNDS)
            if kind == "own_logger":
                sums = whole.sums_by(LOGGERS)
            small = self.w  # mostly none is larger than the bound
            if whole.about.has_large_weights:
                small = np.minimum(self.w, whole.counts.n**0.5)
            sums.put(weights_of(kind, policy), (self.w, small))
            self._ask_extremes(asking, rounds)
        self.limited = None
        if target.table is not None:
            self._ask_missing(asking, rounds)
            if self.w is not None and (kind == "logger" or not self.several):
                self._ask_limits(asking, rounds)

    def _define(self, found):
        return self.whole.query.define(found)

    def _ask_extremes(self, asking, rounds):
        w, omega, asked = self.w, rounds.omega, self._asked
        counted = self._define(self.whole.counted(w))
        asked["least"], asked["largest"] = (
            asking.least(counted),
            asking.largest(counted),
        )
        whole = w if omega is None else self._define(omega * w)
        asked["heaviest"] = asking.largest(whole)
        used = self._define(where(whole != 0.0, rounds.reward, None))
        asked["low"], asked["high"] = asking.least(used), asking.largest(used)
        p = self._define(self.whole.counted(rounds.p))
        asked["propensity"] = asking.least(p)

    def _ask_missing(self, asking, rounds):
        """Ask for what the policy wants and the logger could not do, or did not."""
        asked, target, counts = self._asked, self.target, self.whole.counts
        told = rounds.logging_proba is not None
        if self.kind == "mixture":
            told = told and not self.several
        if told:
            pairs = zip(rounds.logging_proba, target.table, strict=True)
            mass = total([where(mu <= 0.0, pi, 0.0) for mu, pi in pairs])
            asked["told"] = asking.sum(self._weighed(mass))
        else:
            self._ask_lacking(asking, rounds, counts)
        if self.kind == "logger" or not self.several or rounds.logger_proba is None:
            return
        if self.kind == "mixture":
            self._ask_gaps(asking, rounds)
        elif not told:
            b = self._weighed(target.b)
            asked["lost"] = [
                asking.sum(where(proba <= 0.0, b, 0.0)) for proba in rounds.logger_proba
            ]
            asked["sum_b"] = asking.sum(b)

    def _ask_lacking(self, asking, rounds, counts):
        target, asked = self.target, self._asked
        certain = None
        if self.kind == "mixture" and self.several:
            certain = rounds.mixture() > 1 - SURE
        elif rounds.p is not None:
            certain = rounds.p >= 1.0
        if certain is not None:
            mass = self._define(where(certain, 1.0 - target.pi, 0.0))
            asked["certain"] = asking.sum(self._weighed(mass))
        each = self.kind == "own_logger" and rounds.logger_proba is None
        asked["wanted"], asked["there"] = {}, {}
        for code in counts.lacking(each):
            mass = self._weighed(target.table[code])
            if certain is None:
                asked["wanted"][code] = asking.sum(mass)
                continue
            asked["wanted"][code] = asking.sum(where(certain, 0.0, mass))
            asked["there"][code] = asking.sum(where(certain, mass, 0.0))

    def _ask_limits(self, asking, rounds):
        """Ask how large weights may be that were not logged."""
        table, counted = self.target.table, self.whole.counted
        if rounds.logging_proba is not None:
            self.limited = FROM_LOGGER
            self._asked["limit"] = [
                asking.largest(self._define(counted(where(mu > 0.0, pi / mu, 0.0))))
                for mu, pi in zip(rounds.logging_proba, table, strict=True)
            ]
        elif self.whole.counts._propensity_by_action is not None:
            self.limited = FROM_ACTIONS
            shown = [self._define(counted(pi)) for pi in table]
            self._asked["limits"] = [(asking.largest(x), asking.sum(x)) for x in shown]

    def _ask_gaps(self, asking, rounds):
        some = [*rounds.logger_proba, *(rounds.logging_proba or [])]
        self._asked["gaps"] = [asking.least(one) for one in some]
        self._asked["sure"] = [asking.largest(one) for one in rounds.logger_proba]

    def _weighed(self, found):
        omega = self.whole.rounds.omega
        return self._define(found if omega is None else omega * found)

    # -- answers -----------------------------------------------------------------
    def taken(self, strata):
        """Return the `Tally`, the `Extremes` and the `WeightBound`."""
        counts, asked = self.whole.counts, self._asked
        labels = counts.loggers if self.role else [None]
        by, whole = strata[self.role], strata[None]
        rows = np.array([labels.index(one) for one in by.labels or [None]], dtype=int)
        tally = Tally(labels, counts.actions, self.target.table is not None)
        extremes, known = Extremes(), None
        if self.w is not None:
            tally.largest[rows] = by.largest(asked["heaviest"])
            tally.lowest = min(0.0, float(whole.least(asked["least"])[0]))
            tally.reward_range = self._range_of_used(whole)
            largest = by.largest(asked["largest"]).tolist()
            pairs = zip(by.labels or [None], largest, strict=True)
            extremes.weights = {label: w for label, w in pairs if w > -inf}
            extremes.propensity = float(whole.least(asked["propensity"])[0])
            known = self._bound(whole)
        for name in ("told", "certain"):
            if name in asked:
                getattr(tally, name)[rows] = by.of(asked[name])
        for name, array in (("wanted", tally.wanted), ("there", tally.wanted_there)):
            for code, answer in asked.get(name, {}).items():
                array[rows, code] = by.of(answer)
        if "lost" in asked:
            tally.lost[:] = [whole.of(name)[0] for name in asked["lost"]]
            tally.sum_b = float(whole.of(asked["sum_b"])[0])
        if "gaps" in asked:
            tally.gaps = any(whole.least(name)[0] <= 0 for name in asked["gaps"])
            tally.gaps |= any(whole.largest(name)[0] >= 1 for name in asked["sure"])
        return tally, extremes, known

    def _bound(self, whole):
        """Return the `WeightBound`."""
        # Of a logging distribution no more than the largest weight is known: all that
        # the policy does may have it.
        n, asked, counts = int(whole.of("n")[0]), self._asked, self.whole.counts
        out = WeightBound(self.limited, n)
        if "limit" in asked:
            found = [float(whole.largest(name)[0]) for name in asked["limit"]]
            out.found, out.n_binned = max(found), n
            out.bins, out.mass = bins_of([out.found]), np.array([float(n)])
        elif "limits" in asked:
            most = [float(whole.largest(name)[0]) for name, _ in asked["limits"]]
            mass = [float(whole.of(name)[0]) for _, name in asked["limits"]]
            columns = counts._propensity_by_action.tolist(), most, mass
            rows = zip(*columns, strict=True)
            out.actions = dict(zip(counts.actions, rows, strict=True))
        return out

    def _range_of_used(self, whole):
        """Return the range of the rewards whose weight is not zero."""
        asked = self._asked
        low, high = whole.least(asked["low"]), whole.largest(asked["high"])
        return float(low[0]), float(high[0])


class FrameWanted:
    """What a policy wants of all arms, logged or not."""

    def __init__(self, whole, target, arms):
        asking, query, omega = whole.asking, whole.query, whole.rounds.omega
        self.arms = arms
        columns = [*target.table, target.pi]
        if omega is not None:
            columns = [query.define(omega * one) for one in columns]
        *table, pi = columns
        self._wanted, self._largest = [*map(asking.sum, table)], asking.largest(pi)

    def taken(self, strata):
        """Return the `Tally` alone."""
        tally, whole = Tally([None], self.arms), strata[None]
        tally.wanted[0] = [whole.of(name)[0] for name in self._wanted]
        tally.largest[0] = whole.largest(self._largest)[0]
        return tally, None, None

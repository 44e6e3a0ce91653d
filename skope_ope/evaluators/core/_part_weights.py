# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Observers of what policies want of actions, and of their weights, in part of a log.

Each kind of weights is summed with its bounded form, as `Overlap` needs them: against
the propensities of one logger, of every logger by itself, or of their mixture.
"""

import numpy as np

from skope_ope._parallel import dot
from skope_ope.evaluators.core._blocks import Observer
from skope_ope.evaluators.core._engine import Extract, terms_of
from skope_ope.evaluators.core._loggers import SURE_LOGGER, label_list
from skope_ope.evaluators.core._mean_weight import bounded
from skope_ope.evaluators.core._overlap import Support
from skope_ope.evaluators.core._rounds import PositiveRounds, combined_weights
from skope_ope.evaluators.core._sums import weights_of
from skope_ope.evaluators.core._tally import Tally, both_ranges
from skope_ope.evaluators.core._weight_bound import BoundInPass, WeightBound
from skope_ope.logs._validation import plain

ROUNDS, LOGGERS = "rounds", "loggers"  # designs: one sample, or one per logger
UNKNOWN_LENGTH = 1_000_000  # rounds of a log, where their number is not known


class PartWeights(Observer):
    """Observes weights against the propensities, of one sample."""

    kind = "logger"
    reads = True  # workers may read what it needs of a table, see `Ahead`

    def __init__(self, whole):
        self.whole, self.names, self.part = whole, {}, whole.part
        n_total = whole.n_total
        self.n_total = UNKNOWN_LENGTH if n_total is None else n_total
        self.actions = self.part.all_logs.actions.tolist()
        self.labels, self.sums = self._strata()
        self.lacking, self.bounds = self._lacking(), {}
        several = self.kind != "logger" and len(label_list(self.part.all_logs)) > 1
        # whether weights that the part does not hold can be bounded
        self.tells_bounds = not several and self.whole.tells_bounds

    def _strata(self):
        """Return the labels of the loggers that are told apart, and their sums."""
        return [None], self.whole.sums_by(ROUNDS)

    @property
    def needs_tables(self):
        """Whether all policies are asked for all actions."""
        lacks = len(self.lacking) > 0 and not self.whole.keeps_rounds
        return lacks or self.tells_bounds

    def _lacking(self):
        """Return the codes of actions that a logger never took in this part."""
        return self.part.unseen

    def see(self, key, target):
        """Add what a policy does in a block."""
        if key not in self.names:
            return
        owner = weights_of(self.kind, self.names[key])
        tallies, read = self.whole.tallies, target.read.get(id(self))
        if owner not in tallies:
            tallies[owner] = Tally(self.labels, self.actions, self._knows_all(target))
            if self.tells_bounds:
                logs = self.part.all_logs
                self.bounds[owner] = BoundInPass(logs, is_whole=False)
        if owner in self.bounds:
            self.bounds[owner].see(key, target)
        tally, w = tallies[owner], self.weights(target)
        if w is not None:
            small = bounded(w, self.n_total, target.block.extremes(w)[1])
            self.sums.put(owner, (w, small))
            self._add_extremes(tally, target.block, w)
        self._add_missing(tally, target)
        if tally.table:
            found = self.read(key, target) if read is None else read
            for name, values in found.items():
                getattr(tally, name)[...] += values

    def _knows_all(self, target):
        """Whether the policy's probabilities of all actions are known."""
        told = target.table is not None or target.mass_on is not None
        return told or target.read.get(id(self)) is not None

    def finish(self):
        """Keep what is known when all rounds were seen."""
        n = len(self.part.all_logs)
        for policy in self.names.values():
            owner = weights_of(self.kind, policy)
            seen = self.bounds.get(owner)
            self.whole.ends[owner] = (
                WeightBound(None, n) if seen is None else seen.bound
            )

    def weights(self, target):
        """Return the importance weights."""
        return target.w

    def _add_extremes(self, tally, block, w):
        """Add what is the largest, and the rewards that are used."""
        reward, lowest = block.reward, block.extremes(w)[0]
        tally.lowest = min(tally.lowest, lowest)
        self._add_largest(tally, block, w)
        if self.whole.keeps_rounds:  # they can be asked
            return
        if lowest <= 0 or block.omega is not None:
            reward = reward[(w if block.omega is None else w * block.omega) != 0]
        if len(reward):
            tally.reward_range = both_ranges(tally.reward_range, block.extremes(reward))

    def _add_largest(self, tally, block, w):
        largest = block.extremes(w)[1]
        if block.omega is not None:
            largest = float((block.omega * w).max())
        tally.largest[0] = max(tally.largest[0], largest)

    def _add_missing(self, tally, target):
        """Add what the weights tell of what a logger could not do."""

    def read(self, key, target):
        """Return sums of what the policy wants and the logger could not do, or did not.

        Parameters
        ----------
        key : int
            Of the policy.
        target : TargetBlock
            What it does in a block.

        Returns
        -------
        found : dict or None
            What is added to arrays of the `Tally`, by name; None: it is not known.
        """
        if key not in self.names or (target.table is None and target.mass_on is None):
            return None
        block = target.block
        if self._is_told(target):
            mu = block.logs.logging_proba[block.rows]
            if mu.min() > 0:
                return {}
            if block.omega is None and len(self.labels) == 1:  # fewer entries: faster
                return {"told": float(target.table[mu == 0].sum())}
            mass = (target.table * (mu == 0)).sum(axis=1)
            return {"told": self._by_logger(block, mass)}
        found, shape = {}, (len(self.labels), len(self.actions))
        for name, code, mass in masses(target, self._certain(block), self._unlogged):
            if name not in found:
                found[name] = np.zeros(shape[:1] if code is ... else shape)
            found[name][:, code] = self._by_logger(block, mass)
        return found

    @property
    def _unlogged(self):
        """Sets of actions that were never logged, whose mass is summed as one."""
        if self.whole.keeps_rounds and self.kind != "own_logger" and len(self.lacking):
            return [self.lacking]  # none of them will be met: one stands for all
        return self.lacking[:, None]

    def _is_told(self, target):
        """Whether the logs tell what the logger could not do in every round."""
        return target.table is not None and target.block.logs.logging_proba is not None

    def _certain(self, block):
        """Return where the logged action was certain, None for nowhere."""
        if block.p is None or not block.p.max() >= 1:
            return None
        return block.p >= 1

    def _by_logger(self, block, mass):
        """Return the (weighted) sum of a number of every round, by logger."""
        return float(mass.sum()) if block.omega is None else dot(block.omega, mass)


class PartMixtureWeights(PartWeights):
    """Observes weights against the mixture of the loggers."""

    kind, reads = "mixture", False

    def __init__(self, whole):
        super().__init__(whole)
        self.loggers = whole.loggers
        shares = self.part.shares
        self.several = len(self.loggers) > 1
        if shares is not None:
            self.several = np.count_nonzero(shares) > 1

    def weights(self, target):
        """Return the importance weights."""
        return target.b

    def _is_told(self, target):
        return not self.several and super()._is_told(target)

    def _add_missing(self, tally, target):
        if self.several and not tally.gaps:
            tally.gaps = target.block.loggers.has_gaps

    def _certain(self, block):
        if not self.several:
            return super()._certain(block)
        certain = block.loggers.mixture > 1 - SURE_LOGGER  # all of them, of this action
        return certain if certain.any() else None


class PartLoggerWeights(PartWeights):
    """Observes weights against the propensities, logger by logger."""

    kind, reads = "own_logger", False

    def _strata(self):
        return label_list(self.part.all_logs), self.whole.sums_by(LOGGERS)

    def _lacking(self):
        self.loggers = self.whole.loggers
        if self.part.all_logs.logger_proba is not None:  # it tells what others do
            return self.part.unseen
        return np.unique(np.concatenate(self.loggers.never_taken))

    def _add_largest(self, tally, block, w):
        largest = np.zeros(len(self.loggers))
        np.maximum.at(largest, block.loggers.index, _counted(block, w))
        rows = self.loggers.present
        tally.largest[rows] = np.maximum(tally.largest[rows], largest)

    def _by_logger(self, block, mass):
        found, mass = np.zeros(len(self.labels)), _counted(block, mass)
        if len(self.loggers) > 1:
            mass = block.of(self.loggers.design).by_stratum(mass)
        else:
            mass = mass.sum()
        found[self.loggers.present] = mass
        return found

    def _add_missing(self, tally, target):
        block, proba = target.block, self.part.all_logs.logger_proba
        if proba is not None and len(self.labels) > 1 and not self._is_told(target):
            b = _counted(block, target.b)
            tally.lost += b @ (proba[block.rows] == 0)
            tally.sum_b += float(b.sum())


def masses(target, certain, unlogged):
    """Yield what a policy wants and a logger could not do: name, action, and mass."""
    # `certain`: where the logged action was, None for nowhere
    if certain is not None:
        yield "certain", ..., np.where(certain, 1 - target.pi, 0.0)
    for codes in unlogged:
        mass = target.of(codes)
        if certain is not None:
            yield "wanted_there", codes[0], np.where(certain, mass, 0.0)
            mass = np.where(certain, 0.0, mass)
        yield "wanted", codes[0], mass


KINDS_OF_WEIGHTS = {
    kind.kind: kind for kind in (PartWeights, PartMixtureWeights, PartLoggerWeights)
}


class Wanted(Observer):
    """Observes what a policy wants of all arms, logged or not."""

    def __init__(self, target, arms, stratum=None):
        strata = [None] if stratum is None else list(range(int(stratum.max()) + 1))
        self.tally = Tally(strata, arms.tolist())
        self.key, self.stratum = id(target), stratum

    def see(self, key, target):
        """Add what the policy wants in a block."""
        if key != self.key:
            return
        block, tally = target.block, self.tally
        if self.stratum is not None:
            mass = _counted(block, target.table.T).T
            np.add.at(tally.wanted, self.stratum[block.rows], mass)
        elif block.omega is None:
            tally.wanted[0] += target.table.sum(axis=0)
        else:
            tally.wanted[0] += block.omega @ target.table
        largest = float(_counted(block, target.pi).max())
        tally.largest[0] = max(tally.largest[0], largest)


def _counted(block, values):
    """Return values of rounds times their sample weights."""
    return values if block.omega is None else block.omega * values


LOGGED_PROBA = Extract(lambda rounds: (rounds.pi,))


class ActionShares(Observer):
    """Observes what one policy wants of every action, and at which weights."""

    def __init__(self, positive):
        self.positive, self.limit = positive, positive.n**0.5
        self.wanted, self.unsupported, self.unreached = None, None, float("nan")

    def see(self, key, target):
        """Add what the policy does in a block."""
        table, block = target.table, target.block
        if table is None:
            return
        omega = np.ones(len(table)) if block.omega is None else block.omega
        if self.wanted is None:
            self.wanted, self.unsupported = np.zeros((2, table.shape[1]))
            if block.logs.logging_proba is not None:
                self.unreached = 0.0
        self.wanted += omega @ table / self.positive.n
        if target.missing:
            lost = np.where(target.impossible, table, 0.0)
            self.unsupported += omega @ lost / self.positive.n
        mu = block.logs.logging_proba
        if mu is not None and mu[block.rows].min() < 1 / self.limit:
            beyond = np.where(table > self.limit * mu[block.rows], table, 0.0)
            self.unreached += float(omega @ beyond.sum(axis=1)) / self.positive.n


def support_of_actions(target, logs):
    """Return what `SupportDisplay` shows of a policy on the rounds of some logs."""
    positive = PositiveRounds(logs, combined_weights(logs, None))
    support, shares = Support(positive), ActionShares(positive)
    given = logs, target, None, positive, [support, shares]
    [pi] = terms_of(LOGGED_PROBA, *given, tables=True)
    rounds = positive.logs
    omega = np.ones(positive.n) if positive.omega is None else positive.omega
    omega, code, K = positive.of(omega), rounds.action_index, logs.n_actions
    if rounds.logging_proba is None:
        logger_share = np.bincount(code, omega, K) / positive.n
    else:
        logger_share = omega @ rounds.logging_proba / positive.n
    found = {
        "labels": [plain(action) for action in logs.actions],
        "policy_share": shares.wanted,
        "logger_share": logger_share,
        "unsupported": shares.unsupported,
    }
    if rounds.propensity is not None:
        w = omega * positive.of(pi) / rounds.propensity
        found["weight_sums"] = np.bincount(code, w, K), np.bincount(code, w * w, K)
    return found

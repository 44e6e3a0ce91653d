# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""A pass over the rounds of a lazy frame, which the library behind it makes.

Evaluators enter a `FramePass` as they enter the pass over a part of a log in memory.
Their formulas are the same; what comes back is the same sums.
"""

from copy import copy
from dataclasses import dataclass, field
from math import inf

import numpy as np

from skope_ope.evaluators.core._functions import along_of
from skope_ope.evaluators.core._largest_deviation import WeightedRewards
from skope_ope.evaluators.core._part_weights import LOGGERS
from skope_ope.evaluators.core._round_ends import RoundEnds
from skope_ope.evaluators.core._summary import N_BUCKETS
from skope_ope.evaluators.core._sums import weighted_of, weights_of
from skope_ope.evaluators.frames._columns import where
from skope_ope.evaluators.frames._frame_log import FrameLog
from skope_ope.evaluators.frames._frame_query import FrameQuery
from skope_ope.evaluators.frames._frame_rounds import FrameRounds
from skope_ope.evaluators.frames._frame_sums import (
    CellAnswers,
    Cells,
    FrameSums,
    Strata,
    sum_of,
)
from skope_ope.evaluators.frames._frame_weights import FrameWanted, FrameWeights

N_GROUPS = 100_000  # clusters that are told apart


@dataclass
class About:
    """From where sums of terms are taken, and what bounds bounded weights."""

    offset: float = 0.0  # what is subtracted from rewards and model values
    # What is subtracted from the terms, and slants, by the name of their design
    origins: dict = field(default_factory=dict)
    # Whether a weight is larger than the root of the number of rounds
    has_large_weights: bool = False


class FramePass:
    """What several evaluators want of several policies on the rounds of a frame."""

    # It stands in the place of a `PartPass`.

    keeps_rounds, resolved = False, {}

    def __init__(
        self,
        lazy,
        policies,
        counts,
        shares=None,
        about=None,
        n_groups=N_GROUPS,
        n_buckets=N_BUCKETS,
    ):
        self.lazy, self.policies, self.counts = lazy, policies, counts
        self.about = About() if about is None else about
        self.n_groups, self.n_buckets = n_groups, n_buckets
        self.query = FrameQuery(lazy.frame)
        self.rounds = FrameRounds(self.query, lazy, counts, shares)
        self.moved = self.rounds.less(self.about.offset)
        self.joints = {}
        self._targets, self._weights = {}, {}
        self._model_ends, self._arm_ends = {}, {}
        self.asking = self.query.asking()
        self._rewards = self._ends_of(self.rounds.reward)
        upper, some = self.rounds.upper, where(self.rounds.reward != 0.0, 1.0, 0.0)
        columns = some, upper, upper * some
        self._halves = ["n", *(self.asking.sum(self.query.define(x)) for x in columns)]
        omega = self.rounds.omega
        self._heaviest = None if omega is None else self._ends_of(omega)[1]

    # -- what evaluators call ----------------------------------------------------
    def sums_by(self, name, role=None):
        """Return the `FrameSums` of a design, by its name."""
        if name not in self.joints:
            if name == LOGGERS and self.rounds.has("logger"):
                role = "logger"
            self.joints[name] = FrameSums(role, self)
        return self.joints[name]

    def target(self, policy, role="action"):
        """Return the columns of a policy, the same for all evaluators."""
        key = policy, role
        if key not in self._targets:
            what = self.policies[policy]
            self._targets[key] = self.rounds.policy(what, policy, role)
        return self._targets[key]

    def add(self, owner, formula, sums, target, source=None, make=None):
        """Add the terms of an evaluator on a policy, see `PartPass`."""
        rounds = self.rounds if formula.shift_with is None else self.moved
        values = ()
        if source is not None:
            values = rounds.model(source, target, owner[0])
        sums.put(
            owner,
            formula.terms(rounds.of(target, *values)),
            formula.shift_with,
            along_of(formula),
        )
        kind, policy = formula.proposal, owner[1]
        offset = 0.0 if formula.shift_with is None else self.about.offset
        asked = values and (*values, values[0] - values[1])  # v, q and their gap
        ends = tuple(map(self._ends_of, asked)), weights_of(kind, policy), offset
        self._model_ends[owner] = ends
        weighted = weighted_of(kind, policy)
        if formula.requires.weights:
            terms = WeightedRewards(formula).terms(self.moved.of(target))
            sums.put(weighted, terms, WeightedRewards.shift_with)

    def add_arms(self, owner, formula, sums, target):
        """Add the terms of arms on a policy, and ask for their extremes."""
        rounds = self.rounds if formula.shift_with is None else self.moved
        terms = formula.terms(rounds.of(target))
        sums.put(owner, terms, formula.shift_with)
        self._arm_ends[owner] = tuple(map(self._ends_of, terms))

    def add_weights(self, kind, policy, target):
        """Have weights of a policy observed: "logger", "own_logger" or "mixture"."""
        owner = weights_of(kind, policy)
        if owner not in self._weights:
            self._weights[owner] = FrameWeights(self, kind, policy, target)

    def add_wanted(self, kind, policy, target, role):
        """Have observed what a policy wants of all actions, or loggers."""
        owner = weights_of(kind, policy)
        if owner not in self._weights:
            arms = self.counts.actions if role == "action" else self.counts.loggers
            self._weights[owner] = FrameWanted(self, target, arms)

    def _ends_of(self, found):
        """Ask for the extremes of a column in the rounds that weigh something."""
        if isinstance(found, float):
            return found, found
        found = self.query.define(self.counted(found))
        return self.asking.least(found), self.asking.largest(found)

    def heaviest(self, strata):
        """Return the largest sample weight, from the answers by stratum."""
        if self._heaviest is None:
            return 1.0
        return float(strata.largest(self._heaviest).max())

    def counted(self, found):
        """Return a column that is null in rounds that weigh nothing."""
        omega = self.rounds.omega
        return found if omega is None else where(omega > 0, found, None)

    # -- answers -----------------------------------------------------------------
    def run(self, by=None):
        """Ask the frame."""
        rounds, cells = self.rounds, {}
        self._count = rounds.count(self.asking)
        for name, sums in self.joints.items():
            if rounds.has("group") and sums.role not in cells:
                cells[sums.role] = self.query.asking()
            about = self.about.origins.get(name, (None, {}))
            sums.ask(*about, self.asking, cells.get(sums.role))
        roles = [sums.role for sums in self.joints.values() if sums.role]
        self._roles = list(dict.fromkeys(roles))
        log = FrameLog(self) if by is None else None
        if rounds.has("group") and log is not None:
            log.ask_cells(cells.setdefault(None, self.query.asking()))
        first = [] if by is None else [self.rounds.column_label(by)]
        keys = [rounds.label(role) for role in self._roles]
        answers = self.asking.run([*first, *keys])
        by_cell = {role: self._by_cell(first, role, one) for role, one in cells.items()}
        if by is None:
            out = self._taken(answers, by_cell)
            whole = Strata(answers, None)
            out.log = log.taken(whole, out.reward_limits, by_cell.get(None))
            return {None: out}
        return {
            label: self._taken(part, {r: one.of(label) for r, one in by_cell.items()})
            for label, part in answers.by_first_key().items()
        }

    def _by_cell(self, first, role, asking):
        """Return the answers by stratum and cluster."""
        rounds, asked = self.rounds, CellAnswers()
        asked.count, asked.mass = rounds.count(asking), sum_of(asking, rounds.omega)
        keys = [*first, *([rounds.label(role)] if role else [])]
        group = rounds.label("group")
        answers = asking.run([*keys, group], self.n_groups)
        if len(answers) > self.n_groups:
            asked.n_buckets = self.n_buckets
            number = rounds.bucket("group", self.n_buckets)
            answers = asking.run([*keys, number or group])
            if number is None:
                answers = answers.bucketed(self.n_buckets)
        asked.answers = answers
        return asked

    def _taken(self, answers, by_cell):
        """Return what the answers are for one label, or for all rounds."""
        roles, out = self._roles, Taken()
        strata = {
            role: Strata(answers, roles.index(role) if role else None)
            for role in [None, *roles]
        }
        for name, sums in self.joints.items():
            cells = by_cell.get(sums.role)
            cells = None if cells is None else Cells(cells)
            out.joints[name] = sums.taken(strata[sums.role], self._count, cells)
        whole = strata[None]
        out.n_logged = int(answers.n.sum())
        out.reward_limits = tuple(
            _of(whole, end, k) for k, end in enumerate(self._rewards)
        )
        for owner, terms in self._arm_ends.items():
            out.ends[owner] = ends = RoundEnds()
            pairs = [[_of(whole, end, k) for k, end in enumerate(one)] for one in terms]
            ends.terms = np.array(pairs)
        found = {}
        for owner, weights in self._weights.items():
            taken = weights.taken(strata)
            out.tallies[owner], found[owner], limits = taken
            if limits is not None:
                out.ends[owner] = limits
        rounds = np.array([whole.of(name)[0] for name in self._halves])
        for owner, (values, weights, offset) in self._model_ends.items():
            out.ends[owner] = ends = copy(found[weights])
            ends.rounds = np.array([rounds[:2] - rounds[2:], rounds[2:]])
            moves = offset, offset, 0.0
            for name, pair, move in zip(("v", "q", "gap"), values, moves, strict=False):
                known = (_of(whole, end, k) for k, end in enumerate(pair))
                setattr(ends, name, tuple(end + move for end in known))
        return out


@dataclass
class Taken:
    """What a lazy frame answered of some rounds: as a `PartPass` has it."""

    n_logged: int = 0  # number of rounds
    # Smallest and largest reward of those that weigh something
    reward_limits: tuple = (inf, -inf)
    joints: dict = field(default_factory=dict)  # see `PartPass`
    ends: dict = field(default_factory=dict)  # see `PartPass`
    tallies: dict = field(default_factory=dict)  # see `PartPass`
    log: object = None  # what is known of the log; None for the rounds of a label


def _of(whole, end, k):
    """Return an extreme that was asked for, or is known."""
    if isinstance(end, float):
        return end
    return float((whole.largest if k else whole.least)(end)[0])

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""A pass over the rounds of a lazy frame, which the library behind it makes.

Evaluators enter a `FramePass` as they enter the pass over a part of a log in memory.
Their formulas are the same; what comes back is the same sums.
"""

from dataclasses import dataclass, field, replace
from math import inf

import numpy as np

from skope_ope.evaluators._columns import where
from skope_ope.evaluators._frame_log import FrameLog
from skope_ope.evaluators._frame_query import FrameQuery
from skope_ope.evaluators._frame_rounds import FrameRounds
from skope_ope.evaluators._frame_weights import FrameWanted, FrameWeights
from skope_ope.evaluators.core._design import Frame
from skope_ope.evaluators.core._part_pass import LOGGERS, REWARD, WEIGHT
from skope_ope.evaluators.core._round_ends import RoundEnds
from skope_ope.evaluators.core._summary import N_BUCKETS
from skope_ope.evaluators.core._sums import Sums, total
from skope_ope.logs._factorise import factorise

FAR = 0.999  # share of the squared mean in a mean square that costs three digits
EQUAL = 1 - 1e-9  # the same of terms that may all be equal
N_GROUPS = 100_000  # clusters that are told apart


@dataclass
class About:
    """From where sums of terms are taken, and what bounds bounded weights.

    Attributes
    ----------
    offset : float
        What is subtracted from rewards and model values.
    origins : dict of list
        What is subtracted from the terms, by the name of the stack.
    rewards_used : bool
        Whether it is asked which rewards have a weight that is not zero.
    has_large_weights : bool
        Whether a weight is larger than the root of the number of rounds.
    """

    offset: float = 0.0
    origins: dict = field(default_factory=dict)
    rewards_used: bool = False
    has_large_weights: bool = False


class FrameStack:
    """Terms over one design: what is asked of them, and their sums.

    Parameters
    ----------
    role : "action", "logger" or None
        Whose labels are the strata.
    whole : FramePass
        What is wanted of the frame.

    Attributes
    ----------
    places : dict
        Numbers of the terms of every owner among all.
    """

    def __init__(self, role, whole):
        self.role, self.whole = role, whole
        self.places, self.moves, self._terms = {}, (), []
        self.put(REWARD, (whole.moved.gain,), WEIGHT)

    def put(self, owner, terms, moves=None):
        """Take the terms of an owner, see `Stack`."""
        if owner in self.places:
            return
        begin = len(self._terms)
        self.places[owner] = tuple(range(begin, begin + len(terms)))
        follows = moves if moves is None or moves < 0 else begin + moves
        self.moves += (follows, *[None] * (len(terms) - 1))
        self._terms += map(self.whole.query.define, terms)

    def ask(self, origin, products, cells=None):
        """Ask for sums and products, and for sums by cluster.

        Parameters
        ----------
        origin : list of float, default=None
            What is subtracted from the terms; None among them: what the first row has.
        products, cells : Asking
            By stratum; and by stratum and cluster, where there are clusters.
        """
        query, omega = self.whole.query, self.whole.rounds.omega
        self.origin = list(origin or [0.0] * len(self._terms))
        if None in self.origin:
            pairs = zip(self.origin, query.first_row(self._terms), strict=True)
            self.origin = [first if near is None else near for near, first in pairs]
        pairs = zip(self._terms, self.origin, strict=True)
        x = [one - near if near else one for one, near in pairs]
        if omega is not None:
            x = [omega * one for one in x]
        x = [*map(query.define, x), omega]  # None: a weight of one
        self._first = [_sum(products, one) for one in x]
        together = self._together()
        self._second = {
            (i, j): _product(products, one, x[j])
            for i, one in enumerate(x)
            for j in range(i + 1)
            if i == len(x) - 1 or together[i] & together[j]
        }
        if cells is not None:
            self._by_cell = [_sum(cells, one) for one in x]

    def _together(self):
        """Return for every term the evaluators of whose sums it is a part.

        Products of terms of two evaluators are part of none: with many of both they
        would be most of the work.
        """
        names = {owner[0] if len(owner) == 2 else owner for owner in self.places}
        out = []
        for owner, numbers in self.places.items():
            own = names if owner == REWARD else {owner[0] if len(owner) == 2 else owner}
            out += [own] * len(numbers)
        return out

    def taken(self, strata, count, cells=None):
        """Return the `Sums` from the answers.

        Parameters
        ----------
        strata : Strata
            By stratum.
        count : str
            Name of the number of rounds that weigh something.
        cells : Cells, default=None
            By stratum and cluster.
        """
        k = len(self._first)
        first = np.stack([strata.of(name) for name in self._first], axis=-1)
        second = np.zeros((strata.n, k, k))
        for (i, j), name in self._second.items():
            second[:, i, j] = second[:, j, i] = strata.of(name)
        frame, totals = strata.frame(count), None
        if cells is not None:
            totals = np.stack([cells.answers.of(name) for name in self._by_cell])
            frame = cells.frame(strata, count, totals[-1])
        about = frame, self.whole.about.offset, self.moves, self.origin
        return Sums._of(*about, first, second, totals)


def best_origin(sums, offset):
    """Return what terms are best measured from: zeros where that serves.

    None stands for the value in the first row: in all rows it may be the same.

    Parameters
    ----------
    sums : Sums
        About zero.
    offset : float
        What will be subtracted from the rewards.
    """
    mass, square = total(sums.mass), total(sums.square)
    first, moved = sums._plain(sums.offset), sums._plain(offset)
    origin = []
    for j in range(sums.n_terms):
        whole = first[j] * first[j] * square
        part = total(sums.product(j, j)) * mass * mass
        share = whole / part if part else 0.0
        near = None if share > EQUAL else moved[j] / mass
        origin.append(near if share > FAR else 0.0)
    return origin


def _sum(asking, one):
    return "n" if one is None else asking.sum(one)


def _product(asking, one, other):
    if one is None:
        return _sum(asking, other)
    return asking.sum(one * other)


class Strata:
    """Sums by stratum, from answers of which several belong to one.

    Parameters
    ----------
    answers : Answers
        Sums by some keys.
    key : int or None
        Which of the keys is the stratum; `None`: there is one.
    """

    def __init__(self, answers, key):
        self.answers, self.labels = answers, None
        self.code, self.n = np.zeros(len(answers), dtype=np.intp), 1
        if key is not None:
            labels, self.code = factorise(answers.keys[key])
            self.labels, self.n = labels.tolist(), len(labels)

    def of(self, name):
        """Return the answers of a name, summed over every stratum."""
        return np.bincount(self.code, self.answers.of(name), self.n)

    def largest(self, name):
        """Return the largest of the answers of a name in every stratum."""
        out = np.full(self.n, -np.inf)
        np.maximum.at(out, self.code, np.nan_to_num(self.answers.of(name), nan=-np.inf))
        return out

    def least(self, name):
        """Return the smallest of the answers of a name in every stratum."""
        out = np.full(self.n, np.inf)
        np.minimum.at(out, self.code, np.nan_to_num(self.answers.of(name), nan=np.inf))
        return out

    def frame(self, count):
        """Return the `Frame` of the strata, of independent rounds."""
        return Frame(self.of(count), self.labels)


class Cells:
    """Sums over what a stratum and a cluster have in common.

    Parameters
    ----------
    asked : CellAnswers
        Sums by the stratum, where there is one, and by the cluster.
    """

    def __init__(self, asked):
        self.answers = answers = asked.answers
        self.strata = Strata(answers, 0 if len(answers.keys) > 1 else None)
        self.clusters, self.cluster = factorise(answers.keys[-1])
        self.count, self.n_buckets = asked.count, asked.n_buckets

    def frame(self, whole, count, mass):
        """Return the `Frame` of the cells, with the strata of the whole.

        Parameters
        ----------
        whole : Strata
            The strata.
        count : str
            Name of the number of rounds that weigh something.
        mass : ndarray of shape (n_cells,)
            Sums of the weights.
        """
        labels = self.strata.labels or [None]
        place = {label: i for i, label in enumerate(whole.labels or [None])}
        stratum = np.array([place[label] for label in labels], dtype=np.intp)
        return Frame(
            whole.of(count),
            whole.labels,
            self.clusters,
            stratum[self.strata.code],
            self.cluster,
            self.answers.of(self.count),
            self.n_buckets,
            mass,
        )


class FramePass:
    """What several evaluators want of several policies on the rounds of a frame.

    It stands in the place of a `PartPass`.

    Parameters
    ----------
    lazy : LazyLogs
        The frame.
    policies : dict of str
        Names of columns, by the name of the policy.
    counts : FrameCounts
        How many rounds there are, by logger and action.
    shares : dict, default=None
        Share of every logger in the rounds, where their mixture is wanted.
    about : About, default=None
        From where sums are taken; `None`: from zero.
    n_groups : int, default=100000
        Clusters that are told apart; of more, hash buckets are made.
    n_buckets : int, default=1000
        Number of these.

    Attributes
    ----------
    stacks : dict of FrameStack
        By the name of the design.
    places : dict
        See `PartPass`.
    """

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
        self.stacks, self.places = {}, {}
        self._targets, self._weights, self._limits = {}, {}, {}
        self.asking = self.query.asking()
        self._rewards = self._ends_of(self.rounds.reward)

    # -- what evaluators call ----------------------------------------------------
    def stack(self, name, role=None):
        """Return the `FrameStack` of a design, by its name."""
        if name not in self.stacks:
            self.stacks[name] = FrameStack(role, self)
        return self.stacks[name]

    def stack_of_loggers(self):
        """Return the one whose strata are the loggers."""
        return self.stack(LOGGERS, "logger" if self.rounds.has("logger") else None)

    def target(self, policy, role="action"):
        """Return the columns of a policy, the same for all evaluators."""
        key = policy, role
        if key not in self._targets:
            what = self.policies[policy]
            self._targets[key] = self.rounds.policy(what, policy, role)
        return self._targets[key]

    def add(self, owner, formula, stack, target, source=None):
        """Add the terms of an evaluator on a policy, see `PartPass`."""
        rounds = self.rounds if formula._moves is None else self.moved
        values = ()
        if source is not None:
            values = rounds.model(source, target, owner[0])
        terms = formula._terms(rounds.of(target, *values))
        stack.put(owner, terms, formula._moves)
        self._limits[owner] = (
            tuple(map(self._ends_of, terms)),
            tuple(map(self._ends_of, values)),
        )

    def add_weights(self, kind, policy, target):
        """Have weights of a policy observed: "plain", "loggers" or "mixture"."""
        owner = "weights", kind, policy
        if owner not in self._weights:
            self._weights[owner] = FrameWeights(self, kind, policy, target)

    def add_wanted(self, kind, policy, target, role):
        """Have observed what a policy wants of all actions, or loggers."""
        owner = "weights", kind, policy
        if owner not in self._weights:
            arms = self.counts.actions if role == "action" else self.counts.loggers
            self._weights[owner] = FrameWanted(self, target, arms)

    def _ends_of(self, found):
        """Ask for the extremes of a column in the rounds that weigh something."""
        if isinstance(found, float):
            return found, found
        found = self.query.define(self.counted(found))
        return self.asking.least(found), self.asking.largest(found)

    def counted(self, found):
        """Return a column that is null in rounds that weigh nothing."""
        omega = self.rounds.omega
        return found if omega is None else where(omega > 0, found, None)

    # -- answers -----------------------------------------------------------------
    def run(self, by=None):
        """Ask the frame.

        Parameters
        ----------
        by : str, default=None
            Name of a column of the frame: answers come by its labels.

        Returns
        -------
        found : dict of Taken
            By label; the only one is None where no column is named.
        """
        rounds, cells = self.rounds, {}
        self._count = rounds.count(self.asking)
        for name, stack in self.stacks.items():
            if rounds.has("group") and stack.role not in cells:
                cells[stack.role] = self.query.asking()
            stack.ask(self.about.origins.get(name), self.asking, cells.get(stack.role))
            for owner, numbers in stack.places.items():
                self.places[name if owner == REWARD else owner] = name, numbers
        roles = [stack.role for stack in self.stacks.values() if stack.role]
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
        asked.count, asked.mass = rounds.count(asking), _sum(asking, rounds.omega)
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
        for name, stack in self.stacks.items():
            cells = by_cell.get(stack.role)
            cells = None if cells is None else Cells(cells)
            out.sums[name] = stack.taken(strata[stack.role], self._count, cells)
        whole = strata[None]
        out.n_logged = int(answers.n.sum())
        out.reward_limits = tuple(
            _of(whole, end, k) for k, end in enumerate(self._rewards)
        )
        for owner, (terms, values) in self._limits.items():
            out.ends[owner] = _round_ends(whole, terms, values)
        for owner, weights in self._weights.items():
            out.tallies[owner], ends = weights.taken(strata, out.reward_limits)
            if ends is not None:
                out.ends[owner] = ends
        return out


@dataclass
class Taken:
    """What a lazy frame answered of some rounds: as a `PartPass` has it.

    Attributes
    ----------
    n_logged : int
        Number of rounds.
    reward_limits : tuple (float, float)
        Smallest and largest reward of those that weigh something.
    sums, ends, tallies : dict
        See `PartPass`.
    log : LogSums or None
        What is known of the log; None for the rounds of a label.
    """

    n_logged: int = 0
    reward_limits: tuple = (inf, -inf)
    sums: dict = field(default_factory=dict)
    ends: dict = field(default_factory=dict)
    tallies: dict = field(default_factory=dict)
    log: object = None


@dataclass
class CellAnswers:
    """Answers by stratum and cluster.

    Attributes
    ----------
    answers : Answers
        The sums.
    count, mass : str
        Names of the number of rounds that weigh something, and of their weights.
    n_buckets : int or None
        Number of hash buckets that stand for the clusters; `None`: they are groups.
    """

    answers: object = None
    count: str = "n"
    mass: str = "n"
    n_buckets: int | None = None

    def of(self, label):
        """Return those of one label of the first key."""
        return replace(self, answers=self.answers.by_first_key()[label])


def _round_ends(whole, terms, values):
    """Return the `RoundEnds` of terms and model values, from their extremes.

    Of model values the corners are taken: rounds lie within them, not on them.
    """
    out = RoundEnds()
    pairs = [[_of(whole, end, k) for k, end in enumerate(ends)] for ends in terms]
    out.terms = np.array(pairs)
    if values:
        (low_v, high_v), (low_q, high_q) = (
            [_of(whole, end, k) for k, end in enumerate(ends)] for ends in values
        )
        out.fronts = [np.array([[high_v, low_q]]), np.array([[low_v, high_q]])]
    return out


def _of(whole, end, k):
    """Return an extreme that was asked for, or is known."""
    if isinstance(end, float):
        return end
    return float((whole.largest if k else whole.least)(end)[0])

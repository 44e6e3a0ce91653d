# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""A pass over the rounds of a lazy frame, which the library behind it makes.

What is wanted is that of a pass over arrays, see `JobPlan`: the frame is one block of
rounds, whose numbers are columns. One query asks for everything, by half, logger and
action; with groups another asks for sums by group, and one for weights that may be
missing, where implied ones are larger than those that were logged. What asks also
returns what reads the answers: of all rounds, or of those of every label of a column.
"""

from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import inf

import numpy as np

from skope_ope.evaluators.core._design import Frame, weight_of
from skope_ope.evaluators.core._engine import offset_of
from skope_ope.evaluators.core._implied_weights import EDGES, left_and_rest
from skope_ope.evaluators.core._largest_deviation import Extremes
from skope_ope.evaluators.core._loggers import SURE_LOGGER
from skope_ope.evaluators.core._part_pass import JobPlan
from skope_ope.evaluators.core._part_weights import LOGGERS, ROUNDS, masses
from skope_ope.evaluators.core._products import straight, total
from skope_ope.evaluators.core._rounds import Rounds
from skope_ope.evaluators.core._summary import N_BUCKETS, N_GROUPS
from skope_ope.evaluators.core._sums import (
    REWARD,
    UPPER,
    WEIGHT,
    WHOLE,
    JointSums,
    weights_of,
)
from skope_ope.evaluators.core._tally import (
    MOST_REWARDS,
    RoundCounts,
    Tally,
    by_reward,
)
from skope_ope.evaluators.core._weight_bound import (
    FROM_ACTIONS,
    FROM_LOGGER,
    WeightBound,
    bins_of,
)
from skope_ope.evaluators.frames._columns import sum_of, where
from skope_ope.evaluators.frames._frame_log import ask_log
from skope_ope.evaluators.frames._frame_query import Asking, FrameQuery
from skope_ope.evaluators.frames._frame_rounds import FrameRounds
from skope_ope.logs._validation import plain
from skope_ope.logs.sums._log_sums import places_in

FAR_SHARE = 0.999  # share of the squared mean in a mean square that costs three digits
EQUAL = 1 - 1e-9  # the same of terms that may all be equal
ROLES = {LOGGERS: "logger", "arms": "logger", "actions": "action"}  # of the strata
MOST_ACTIONS = 1000  # of more, rounds are counted by action in a query of its own


@dataclass
class About:
    """From where sums of terms are taken, and what bounds bounded weights."""

    offset: float = 0.0  # what is subtracted from rewards and model values
    # What is subtracted from the terms, and slants, by the name of their design
    origins: dict = field(default_factory=dict)
    bound: float | None = None  # the root of the number of rounds, if a weight is more
    n_logged: int = 0  # how many rounds were met; 0: none so far

    def learn(self, found):
        """Learn from what was found; return whether it must be asked for again."""
        # Sums of squares of what lies far from zero lose the digits that tell it apart.
        # The first rows tell where rewards lie; where the others lie elsewhere the same
        # is asked once more, about what was found.
        limits, offset = np.array(found.counts.reward_range), self.offset
        if offset_of(limits - offset):
            offset = offset_of(limits)
        origins = {name: best_origin(j, offset) for name, j in found.joints.items()}
        bound = found.counts.n**0.5
        is_large = found.largest_weight > bound
        moved = offset != self.offset or any(
            slants or any(near != 0.0 for near in one)
            for one, slants in origins.values()
        )
        if moved or is_large:
            self.offset, self.origins = offset, origins
            self.bound = bound if is_large else None
        return moved or is_large


@dataclass
class Found:
    """What a lazy frame answered of some rounds: as a `PartPass` has it."""

    answers: object
    counts: RoundCounts
    propensity: np.ndarray | None  # those of the actions, where they belong to these
    rounds_of_halves: np.ndarray  # see `Extremes`
    largest_weight: float
    cells: object = None  # answers by group
    implied: object = None  # answers about implied weights
    joints: dict = field(default_factory=dict)  # see `PartPass`
    ends: dict = field(default_factory=dict)  # see `PartPass`
    tallies: dict = field(default_factory=dict)  # see `PartPass`
    log: object = None  # what is known of the log; None for the rounds of a label


class FramePass(JobPlan):
    """What several evaluators want of several policies on the rounds of a frame."""

    # Where a pass over blocks has joint sums, extremes and tallies stands what reads
    # these from the answers.

    def __init__(self, first, policies, about, shares=None):
        self.query = FrameQuery(first.lazy.frame)
        super().__init__(policies, FrameRounds(self.query, first.lazy, shares))
        self.first, self.about, rounds = first, about, self.logs
        self.asking, self.cells = Asking(self.query), Asking(self.query)
        self.counting = self.asking
        if first.n_actions > MOST_ACTIONS:
            self.counting = Asking(self.query)
        self.extremes = []  # every `FrameExtremes`
        self.n_buckets, self.weights = None, []  # what reads the ends of weights
        # how many rounds weigh something, and how much
        omega, one = rounds.omega, None
        if omega is not None:
            one = where(omega > 0, 1.0, 0.0)
        self.count = self.asking.sum(one)
        self._counted = [*map(self.counting.sum, (one, omega))]
        self.count_by_group, self.mass_by_group = map(self.cells.sum, (one, omega))
        self._limits = self.ask_ends(rounds.reward)
        self._some = self.asking.sum(where(rounds.reward != 0.0, 1.0, 0.0))
        self.heaviest = self.ask_ends(1.0 if omega is None else omega)
        self._of_actions = None
        if first.may_belong_to_actions:
            p = rounds.counted(rounds.p)
            self._of_actions = self.counting.least(p), self.counting.largest(p)

    # -- what is asked -----------------------------------------------------------
    @cached_property
    def by_logger(self):
        """The rounds with loggers in the place of actions."""
        return self.logs.by_logger()

    def target(self, policy, logs):
        """Return the columns of a policy, the same for all evaluators."""
        key = policy, logs.role
        if key not in self._targets:
            self._targets[key] = logs.policy(self.policies[policy], policy)
        return self._targets[key]

    def sums_by(self, name):
        """Return the `FrameSums` of a design, by its name."""
        if name not in self.joints:
            self.joints[name] = FrameSums(name, self)
        return self.joints[name]

    def sums_of(self, evaluator):
        """Return the `FrameSums` over the strata of an evaluator."""
        sampling = evaluator.sampling
        if sampling.arms is None:
            return self.sums_by(sampling.by)
        of_loggers = evaluator.requires.mixture or sampling.arms == "logger"
        return self.sums_by("arms" if of_loggers else "actions")

    def add_job(self, job, logs=None):
        """Add a job: the frame is one block of rounds, which it takes."""
        values = None
        if job.evaluator.shift_with is not None:
            job.offset = self.about.offset
        if job.source is not None:
            values = self.logs.model(job.source, job.target, job.key[0])
        job.take(self.logs, Rounds.of_block(job.target, values, job.offset))

    def add_weights(self, kind, policy, target):
        """Ask for weights of a policy: "logger", "own_logger" or "mixture"."""
        owner = weights_of(kind, policy)
        if owner not in self.tallies:
            self.tallies[owner], self.ends[owner] = ask_weights(
                self, kind, owner, target
            )

    def add_wanted(self, owner, target, logs):
        """Ask what a policy wants of all arms."""
        if owner not in self.tallies:
            self.tallies[owner] = ask_wanted(self, target, logs)

    def new_extremes(self):
        """Return what asks for `Extremes`, and reads them."""
        self.extremes.append(FrameExtremes(self))
        return self.extremes[-1]

    def ask_ends(self, found):
        """Ask for the extremes of a column in the rounds that weigh something."""
        if isinstance(found, float):
            return lambda answers: (found, found)
        found = self.logs.counted(found)
        low, high = self.asking.least(found), self.asking.largest(found)
        return lambda answers: (answers.least(low), answers.most(high))

    # -- answers -----------------------------------------------------------------
    def run(self, by=None):
        """Ask the frame; return what was `Found`, by label of a column."""
        rounds, first = self.logs, {}
        if by is not None:
            first["by"] = rounds.column_label(by, "label")
        strata = {} if rounds.loggers is None else {"logger": rounds.label("logger")}
        counting = strata | {"action": rounds.label("action")}
        roles = {one.frame for one in self.joints.values()}
        if self.counting is self.asking or "action" in roles:
            strata = counting
        joints = {name: one.ask() for name, one in self.joints.items()}
        readers = {"joints": joints, "ends": self.ends, "tallies": self.tallies}
        if by is None:
            log = ask_log(self)
        keys = first | {"half": rounds.upper} | strata
        answers = self._answers(self.asking, keys)
        counted = answers
        if self.counting is not self.asking:
            counted = self._answers(self.counting, first | counting)
        cells = None
        if rounds.has("group"):
            some = {role: key for role, key in strata.items() if role in roles}
            cells = self._by_group(first | some, len(answers))
        labels = {role: self._labels(counted, role) for role in counting}
        every = None if by is None else "by"
        counted = counted.by(every)
        cells = {} if cells is None else cells.by(every)
        answers, out = answers.by(every), {}
        implied = self._implied(answers.values(), first)
        implied = {} if implied is None else implied.by(every)
        for label, some in answers.items():
            out[label] = found = self._found(some, counted[label], labels)
            found.cells, found.implied = cells.get(label), implied.get(label)
            if not found.counts.n:
                continue
            for what, reads in readers.items():
                setattr(found, what, {key: read(found) for key, read in reads.items()})
            if by is None:
                found.log, found.counts.weights = log(found), self._by_reward(some)
        return out

    def _implied(self, answers, keys):
        """Return the answers about implied weights, or None where none is larger."""
        asking = Asking(self.query)
        asked = [one.ask_implied(asking, answers) for one in self.extremes]
        return self._answers(asking, keys) if any(asked) else None

    def _answers(self, asking, keys, n_most=None):
        """Return the answers by some keys; no query may meet other rounds."""
        answers, known = asking.run(keys, n_most), self.about
        n = int(answers.total("n"))
        known.n_logged = known.n_logged or n
        if n != known.n_logged and (n_most is None or len(answers) <= n_most):
            raise RuntimeError(
                f"the lazy frame had {known.n_logged:,} rows, and then {n:,}: it "
                "changed while it was read. Scan a copy that does not change."
            )
        return answers

    def _by_reward(self, answers):
        """Return the sample weights by reward, see `RoundCounts`."""
        omega, found = self.logs.omega, {inf: self.heaviest(answers)}
        if omega is None or not self.first.has_few_rewards:
            return found
        asking = Asking(self.query)
        ends = asking.least(omega), asking.largest(omega)
        keys = {"reward": self.logs.counted(self.logs.reward)}  # null: none counts
        some = self._answers(asking, keys, MOST_REWARDS + 1)
        rows = [
            (reward, one.least(ends[0]), one.most(ends[1]))
            for reward, one in some.by("reward").items()
            if reward is not None and reward == reward
        ]
        few = by_reward(rows)
        return found if inf in few else few

    def _by_group(self, keys, n_strata):
        """Return the answers by stratum and group, or by hash bucket of the groups."""
        bucket = self.query.bucket(self.first.lazy.roles["group"][0], N_BUCKETS)
        keys = keys | {"group": self.logs.label("group")}
        most = None if bucket is None else N_GROUPS * n_strata
        answers = self._answers(self.cells, keys, most)
        if most is None or len(answers.strata("group")[0]) <= N_GROUPS:
            return answers
        self.n_buckets = N_BUCKETS
        return self._answers(self.cells, keys | {"group": bucket})

    def _labels(self, counted, role):
        """Return the labels of actions or loggers that were stated, or found."""
        lazy, found = self.first.lazy, counted.strata(role)[0].tolist()
        stated = {"action": lazy.actions, "logger": lazy.loggers}[role]
        if stated is None:
            return found
        labels = [plain(label) for label in stated.tolist()]
        unknown = [label for label in found if label not in set(labels)]
        if unknown:
            raise ValueError(
                f"column {lazy.roles[role][0]!r}: {role} {unknown[0]!r} is not among "
                f"the {len(labels)} {role}s that you "
                f"named{f', nor are {len(unknown) - 1} others' * (len(unknown) > 1)}. "
                "Name all of them, or none."
            )
        return labels

    def _found(self, answers, counted, labels):
        """Return what was `Found` of some rounds, as far as their numbers."""
        loggers, actions = labels.get("logger", [None]), labels["action"]
        shape, code, propensity = (len(loggers), len(actions)), 0, None
        for role, known in labels.items():
            some, which = counted.strata(role)
            code = code * len(known) + places_in(known, some.tolist())[which]
        n, mass = (counted[name] for name in self._counted)
        counts = np.bincount(code, n, np.prod(shape)).reshape(shape)
        if self._of_actions is not None:
            low, high = np.full((2, len(actions)), [[inf], [-inf]])
            np.fmin.at(low, code % len(actions), counted[self._of_actions[0]])
            np.fmax.at(high, code % len(actions), counted[self._of_actions[1]])
            seen = counts.any(axis=0)
            if (low[seen] == high[seen]).all():
                propensity = np.where(seen, low, 0.0)
        about = int(n.sum()), float(mass.sum()), actions, loggers, counts
        half, rounds = answers.keys["half"].astype(int), ("n", self._some)
        return Found(
            answers,
            RoundCounts(*about, self._limits(answers)),
            propensity,
            np.stack([np.bincount(half, answers[one], 2) for one in rounds], axis=1),
            max((ends(answers)[1] for ends in self.weights), default=0.0),
        )


class FrameExtremes:
    """What asks for the `Extremes` of a job, and reads them of what was found."""

    def __init__(self, whole):
        self.whole, self.readers = whole, {}
        # `left_and_rest` and the name of the largest implied weight; what was asked of
        # those beyond the logged ones: edges and names
        self.implied, self.edges, self.names = None, slice(0, 0), []

    def take(self, block, rounds, evaluator, role):
        """Ask for what `Extremes` take of the rounds of an evaluator."""
        w, asking, readers = (
            weight_of(evaluator)(rounds),
            self.whole.asking,
            self.readers,
        )
        if w is not None:
            largest = asking.largest(block.counted(w))
            by_stratum = w is rounds.w or evaluator.sampling.arms is not None
            by = role if by_stratum else None
            readers["weights"] = lambda answers: answers.largest_by_label(largest, by)
            if block.p is not None:
                least = asking.least(block.counted(block.p))
                readers["propensity"] = lambda answers: answers.least(least)
            if w is rounds.w and self._tells_implied(block):
                left, rest = map(block.query.define, left_and_rest(w, block.p))
                below = block.p < 1.0
                most = where(below, left / where(below, rest, 1.0), 0.0)
                self.implied = left, rest, below, asking.largest(block.counted(most))
                self.every = asking.sum(block.omega)
        if rounds.v is not None:
            q, v = rounds.q + rounds.offset, rounds.v + rounds.offset  # plain rewards
            for name, one in ("q", q), ("v", v), ("gap", rounds.v - rounds.q):
                readers[name] = self.whole.ask_ends(one)

    def _tells_implied(self, block):
        known = block.p is not None and block.logging_proba is None
        return known and not block.has_several_loggers

    def ask_implied(self, asking, answers):
        """Ask for the mass above edges beyond logged weights; tell if there is any."""
        if self.implied is None:
            return False
        left, rest, below, most = self.implied
        found = [self.readers["weights"](one).values() for one in answers]
        least = min((max(some, default=inf) for some in found), default=inf)
        # less what rounding adds to weights of one
        implied = max((one.most(most) for one in answers), default=0.0) - 1e-9
        self.edges = slice(*np.searchsorted(EDGES, [least, implied]))
        self.names = [
            asking.sum(self.whole.logs.weighed(where(below & above, left, 0.0)))
            for above in (left > edge * rest for edge in EDGES[self.edges].tolist())
        ]
        return bool(self.names)

    def __call__(self, found):
        out = Extremes(
            **{key: read(found.answers) for key, read in self.readers.items()}
        )
        if self.implied is not None:
            above = np.zeros(len(EDGES) + 1)
            if self.names:
                above[self.edges] = [found.implied.total(name) for name in self.names]
                above[: self.edges.start] = above[self.edges.start]
            out.implied[:-1] = above[:-1] - above[1:]
            out.implied[-1] = found.answers.total(self.every)
        out.rounds = found.rounds_of_halves
        return out


class FrameSums:
    """Terms over one design: what is asked of them, and their sums."""

    def __init__(self, name, whole):
        self.name, self.whole, role = name, whole, ROLES.get(name)
        # what tells the strata apart, in the place of a `Frame`; None: nothing
        self.frame = role if whole.logs.has(role) else None
        self.places, self.moves, self._terms = {}, {}, []
        self.slants = {}
        reward, offset = whole.logs.reward, whole.about.offset
        self.put(REWARD, (reward - offset if offset else reward,), WEIGHT)

    def put(self, owner, terms, moves=None, along=()):
        """Take the terms of an owner, see `JointSums`."""
        begin = len(self._terms)
        self.places[owner] = tuple(range(begin, begin + len(terms)))
        self.moves[owner] = (moves, *[None] * (len(terms) - 1))
        self.slants |= {begin + top: (begin + end, 0.0) for top, end in along}
        define = self.whole.logs.query.define
        self._terms += [define(one.astype(float)) for one in terms]

    def ask(self):
        """Ask for sums and products; return what makes `JointSums` of the answers."""
        whole, role = self.whole, self.frame
        rounds, asking = whole.logs, whole.asking
        origin, slants = whole.about.origins.get(self.name, (None, {}))
        slants = self.slants | slants
        origin = list(origin or [0.0] * len(self._terms))
        if None in origin:
            first = rounds.query.first_row(self._terms)
            pairs = zip(origin, first, strict=True)
            origin = [one if near is None else near for near, one in pairs]
            whole.about.origins[self.name] = origin, slants
        pairs = zip(straight(self._terms, slants), origin, strict=True)
        x = [rounds.weighed(one - near if near else one) for one, near in pairs]
        x.append(rounds.omega)  # None: a weight of one
        first = [asking.sum(one) for one in x]
        second = {(i, j): asking.sum(_product(x[i], x[j])) for i, j in self._pairs()}
        by_group = [whole.cells.sum(one) for one in x]

        def read(found):
            answers, k = found.answers, len(x)
            labels = answers.strata(role)[0].tolist()
            sums = np.zeros((2, len(labels), k))
            products = np.zeros((*sums.shape, k))
            for half in (WHOLE, UPPER):
                for i, name in enumerate(first):
                    sums[half, :, i] = answers.of(name, role, half == UPPER)
                for (i, j), name in second.items():
                    some = answers.of(name, role, half == UPPER)
                    products[half, :, i, j] = products[half, :, j, i] = some
            count, heaviest = answers.of(whole.count, role), whole.heaviest(answers)[1]
            frame, totals = Frame(count, labels, heaviest=heaviest), None
            if found.cells is not None:
                frame, totals = self._by_cell(found.cells, by_group, frame)
            about = whole.about.offset, self.places, self.moves, origin, slants
            return JointSums.of_arrays(frame, *about, sums, products, totals)

        return read

    def _pairs(self):
        """Yield the numbers of terms whose products are wanted."""
        # Products of terms of two evaluators are part of none: with many of both they
        # would be most of the work.
        names = {_name_of_column(owner) for owner in self.places}
        together = [
            names if owner == REWARD else {_name_of_column(owner)}
            for owner, numbers in self.places.items()
            for _ in numbers
        ]
        last = len(together)
        for i, j in product(range(last + 1), repeat=2):
            if j <= i and (i == last or together[i] & together[j]):
                yield i, j

    def _by_cell(self, answers, names, whole):
        """Return the frame of strata and clusters, and sums over what they share."""
        strata, stratum = answers.strata(self.frame)
        stratum = places_in(whole.strata, strata.tolist())[stratum]
        clusters, cluster = answers.strata("group")
        cells, cell = np.unique(stratum * len(clusters) + cluster, return_inverse=True)
        totals = np.stack([np.bincount(cell, answers[name]) for name in names])
        frame = Frame(
            whole.count,
            whole.strata,
            clusters,
            *np.divmod(cells, len(clusters)),
            np.bincount(cell, answers[self.whole.count_by_group]),
            self.whole.n_buckets,
            totals[-1],
            whole.heaviest,
        )
        return frame, totals


def best_origin(joint, offset):
    """Return what terms are best measured from, zeros where that serves, and slants."""
    # None stands for the value in the first row: in all rows it may be the same.
    sums = joint.whole
    mass, square = total(sums.mass), total(sums.square)
    first, moved = sums.plain(sums.offset), sums.plain(offset)
    origin = []
    for j in range(sums.n_terms):
        whole = first[j] * first[j] * square
        part = total(sums.product(j, j)) * mass * mass
        share = whole / part if part else 0.0
        near = None if share > EQUAL else moved[j] / mass
        origin.append(near if share > FAR_SHARE else 0.0)
    slants = {}
    for top, (end, _) in sums.slants.items():
        pairs = (top, end), (top, top), (end, end)
        cross, one, other = (total(sums.product(*pair)) for pair in pairs)
        if cross * cross > FAR_SHARE * one * other > 0:
            slants[top], origin[top] = (end, float(first[top] / first[end])), 0.0
    return origin, slants


def _name_of_column(owner):
    """Return an evaluator, or a kind of weighted rewards; for weights their owner."""
    is_of_weights = isinstance(owner[0], tuple) and owner[0][0] == "weights"
    return owner if is_of_weights else owner[0]


def _product(one, other):
    """Return the product of two columns; None stands for ones."""
    if one is None or other is None:
        return other if one is None else one
    return one * other


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
        ask("told", ..., sum_of([where(mu <= 0.0, pi, 0.0) for mu, pi in pairs]))
    else:
        certain = None if rounds.p is None else rounds.p >= 1.0
        if kind == "mixture" and several:
            certain = rounds.mixture > 1 - SURE_LOGGER
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

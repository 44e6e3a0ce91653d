# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Sums of policies by evaluators, computed inside the database of a lazy frame."""

import numpy as np

from skope_ope.evaluators._frame_query import FrameQuery
from skope_ope.evaluators._frame_rounds import FrameRounds
from skope_ope.evaluators.core._design import Frame
from skope_ope.evaluators.core._engine import far_from_zero
from skope_ope.evaluators.core._summary import N_BUCKETS
from skope_ope.evaluators.core._sums import Sums, total
from skope_ope.evaluators.static._base import WEIGHT, check_all_actions
from skope_ope.logs._factorise import factorise

FAR = 0.999  # share of the squared mean in a mean square that costs three digits
EQUAL = 1 - 1e-9  # the same of terms that may all be equal
N_GROUPS = 100_000  # clusters that are told apart


class Stacked:
    """Terms of one evaluator on several policies, and what is asked of them.

    Parameters
    ----------
    terms : list of tuple of Column
        Of every policy.
    origin : list of float
        What is subtracted from each, all policies' one after the other; None among
        them stands for the value in the first row.
    rounds : FrameRounds
        Where the columns are from.
    """

    def __init__(self, terms, origin, rounds):
        query, omega = rounds.query, rounds.omega
        plain = [query.define(one) for some in terms for one in some]
        self.origin = origin or [0.0] * len(plain)
        if None in self.origin:
            pairs = zip(self.origin, query.first_row(plain), strict=True)
            self.origin = [first if near is None else near for near, first in pairs]
        self.offset = rounds.offset
        x = [
            one - near if near else one
            for one, near in zip(plain, self.origin, strict=True)
        ]
        if omega is not None:
            x = [omega * one for one in x]
        self.entries = [*map(query.define, x), omega]  # None: a weight of one
        self.starts = np.cumsum([0, *map(len, terms)]).tolist()

    def moves(self, first):
        """Return how the terms rise with the rewards, see `Sums`.

        Parameters
        ----------
        first : int or None
            How the first term of a policy does: by the weight, or by another term.
        """
        if first is None:
            return None
        out = [None] * (len(self.entries) - 1)
        for start in self.starts[:-2]:
            out[start] = first if first < 0 else start + first
        out[-1] = WEIGHT  # the logged rewards themselves
        return tuple(out)

    def sums(self, asking):
        """Ask for sums of the entries of x; returns the names of the answers."""
        return [_sum(asking, one) for one in self.entries]

    def products(self, asking):
        """Ask for sums of products of two entries."""
        return [
            [_product(asking, one, other) for other in self.entries[: i + 1]]
            for i, one in enumerate(self.entries)
        ]


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
        return np.bincount(self.code, self.answers[name], self.n)

    def frame(self, count):
        """Return the `Frame` of the strata, of independent rounds."""
        return Frame(self.of(count), self.labels)


class Cells:
    """Sums over what a stratum and a cluster have in common.

    Parameters
    ----------
    answers : Answers
        Sums by the stratum, where there is one, and by the cluster.
    names : list
        Names of the sums of the entries of x.
    count : str
        Name of the number of rounds that weigh something.
    n_buckets : int, default=None
        Number of hash buckets that stand for the clusters; `None`: they are groups.
    """

    def __init__(self, answers, names, count, n_buckets=None):
        self.strata = Strata(answers, 0 if len(answers.keys) > 1 else None)
        self.clusters, self.cluster = factorise(answers.keys[-1])
        self.answers, self.names = answers, names
        self.count, self.n_buckets = answers[count], n_buckets

    @property
    def totals(self):
        """Sums of the entries of x over every cell."""
        return np.stack([self.answers[name] for name in self.names])

    def frame(self, whole, count):
        """Return the `Frame` of the cells, with the strata of the whole."""
        labels = self.strata.labels or [None]
        place = {label: i for i, label in enumerate(whole.labels or [None])}
        stratum = np.array([place[label] for label in labels], dtype=np.intp)
        return Frame(
            whole.of(count),
            whole.labels,
            self.clusters,
            stratum[self.strata.code],
            self.cluster,
            self.count,
            self.n_buckets,
            self.totals[-1],
        )


def stacked_sums(stack, moves, strata, names, cells=None):
    """Return the `Sums` of stacked terms.

    Parameters
    ----------
    stack : Stacked
        The terms.
    moves : tuple or None
        See `Sums`.
    strata : Strata
        Answers to the sums and the products of its entries.
    names : tuple (first, second, count)
        Their names; count is that of the rounds that weigh something.
    cells : Cells, default=None
        Answers by stratum and cluster, where there are clusters.
    """
    first, second, count = names
    k = len(first)
    totals = np.stack([strata.of(name) for name in first], axis=-1)
    squares = np.empty((strata.n, k, k))
    for i, row in enumerate(second):
        for j, name in enumerate(row):
            squares[:, i, j] = squares[:, j, i] = strata.of(name)
    if cells is None:
        frame, by_cell = strata.frame(count), None
    else:
        frame, by_cell = cells.frame(strata, count), cells.totals
    return Sums._of(frame, stack.offset, moves, stack.origin, totals, squares, by_cell)


class Pushdown:
    """What is asked of a lazy frame for policies and evaluators.

    Parameters
    ----------
    policies : dict of str
        Names of columns, by the name of the policy.
    evaluators : dict
        Evaluators by name.
    lazy : LazyLogs
        The frame.
    sources : dict
        Numbers and names of columns that stand for reward models, by evaluator.
    shares : dict, default=None
        Share of every logger in the rounds, where their mixture is wanted.
    n_groups : int, default=100000
        Clusters that are told apart; of more, hash buckets are made.
    n_buckets : int, default=1000
        Number of these.
    """

    def __init__(
        self,
        policies,
        evaluators,
        lazy,
        sources,
        shares=None,
        n_groups=N_GROUPS,
        n_buckets=N_BUCKETS,
    ):
        self.policies, self.evaluators, self.lazy = policies, evaluators, lazy
        self.sources, self.shares = sources, shares
        self.n_groups, self.n_buckets = n_groups, n_buckets

    def found(self):
        """Return what the frame answers.

        Sums of squares of what lies far from zero lose the digits that tell it apart:
        then the same is asked once more, about what was found.
        """
        found = self._asked(0.0, {})
        offset = far_from_zero(np.array(found.extremes))
        origins = {name: _origin(sums, offset) for name, sums in found.sums.items()}
        if not offset and all(
            near == 0.0 for some in origins.values() for near in some
        ):
            return found
        return self._asked(offset, origins)

    def _asked(self, offset, origins):
        query = FrameQuery(self.lazy.frame)
        plain = FrameRounds(query, self.lazy, shares=self.shares)
        moved, stacks, roles = plain.less(offset), {}, {}
        for name, evaluator in self.evaluators.items():
            rounds = plain if evaluator._moves is None else moved
            terms = [self._terms(name, rounds, policy) for policy in self.policies]
            terms.append((rounds.gain,))
            stacks[name] = Stacked(terms, origins.get(name), rounds)
            roles[name] = evaluator._stratum_role(plain)
        return Found(self, plain, stacks, roles)

    def _terms(self, name, rounds, policy):
        """Return the terms of an evaluator on a policy, columns."""
        evaluator, values = self.evaluators[name], None
        found = rounds.policy(self.policies[policy], policy, evaluator._chooses)
        if evaluator._uses_model:
            check_all_actions(evaluator, found)
            values = rounds.model(self.sources[name], found, name)
        return evaluator._terms(rounds.of(found, values))


class Found:
    """What a lazy frame answered.

    Attributes
    ----------
    sums : dict of Sums
        Stacked terms of every evaluator.
    extremes : tuple (float, float)
        Smallest and largest reward.
    """

    def __init__(self, pushed, rounds, stacks, roles):
        asking = rounds.query.asking()
        reward = asking.least(rounds.reward), asking.largest(rounds.reward)
        count = rounds.count(asking)
        names = {
            name: (stack.sums(asking), stack.products(asking), count)
            for name, stack in stacks.items()
        }
        strata = [role for role in dict.fromkeys(roles.values()) if role]
        answers = asking.run([rounds.label(role) for role in strata])
        low, high = (answers[name] for name in reward)
        self.extremes, self.sums = (float(low.min()), float(high.max())), {}
        for role in dict.fromkeys(roles.values()):
            whole = Strata(answers, strata.index(role) if role else None)
            some = [name for name in stacks if roles[name] == role]
            cells = _cells(pushed, rounds, role, [stacks[name] for name in some])
            for name, cell in zip(some, cells, strict=True):
                moves = stacks[name].moves(pushed.evaluators[name]._moves)
                self.sums[name] = stacked_sums(
                    stacks[name], moves, whole, names[name], cell
                )


def _cells(pushed, rounds, role, stacks):
    """Return the `Cells` of some stacks of terms, or None where there are no groups."""
    if not rounds.has("group"):
        return [None] * len(stacks)
    asking = rounds.query.asking()
    count = rounds.count(asking)
    names = [stack.sums(asking) for stack in stacks]
    stratum = [rounds.label(role)] if role else []
    group, n_buckets = rounds.label("group"), None
    answers = asking.run([*stratum, group], pushed.n_groups)
    if len(answers) > pushed.n_groups:
        n_buckets = pushed.n_buckets
        number = rounds.bucket("group", n_buckets)
        answers = asking.run([*stratum, number or group])
        if number is None:
            answers = answers.bucketed(n_buckets)
    return [Cells(answers, some, count, n_buckets) for some in names]


def _origin(sums, offset):
    """Return what terms are best measured from: zeros where that serves.

    None stands for the value in the first row: in all rows it may be the same.
    """
    mass, square = total(sums.mass), total(sums.square)
    if not mass:
        return [0.0] * sums.n_terms
    first = sums._plain(0.0)
    moved = sums._plain(offset) if sums.moves else first
    origin = []
    for j in range(sums.n_terms):
        whole = first[j] * first[j] * square
        part = total(sums.product(j, j)) * mass * mass
        share = whole / part if part else 0.0
        near = None if share > EQUAL else moved[j] / mass
        origin.append(near if share > FAR else 0.0)
    return origin

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Terms of many policies and evaluators over the same rounds, summed as one.

Products of the terms of any two are kept, so that a difference of two values is as
exact as if the rounds were there.
"""

from dataclasses import dataclass

from skope_ope.evaluators.core._engine import Job
from skope_ope.evaluators.core._functions import along_of
from skope_ope.evaluators.core._halves import WEIGHT
from skope_ope.evaluators.core._sums import Sums


class Stack:
    """Terms over one design, block by block."""

    def __init__(self, design, offset):
        self.design, self.offset = design, offset
        self._begins, self._sums = {}, None
        self._waiting, self._moves, self._block = {}, (), None
        self._along = []
        self._heads = self._same = None  # where each array comes first

    def put(self, owner, block, terms, moves=None, along=()):
        """Take the terms of an owner in a block."""
        if self._block is not block:
            self.flush()
            self._block = block
        if owner not in self._begins:
            begin = self._begins[owner] = len(self._moves)
            follows = moves if moves is None or moves < 0 else begin + moves
            self._moves += (follows, *[None] * (len(terms) - 1))
            self._along += [(begin + top, begin + end) for top, end in along]
        self._waiting[owner] = terms

    def flush(self):
        """Add what was put of a block; the array of several owners is summed once."""
        if not self._waiting:
            return
        terms = [term for owner in self._begins for term in self._waiting[owner]]
        block, self._waiting = self._block, {}
        block = block.of(self.design) if hasattr(block, "of") else block
        if self._sums is None:
            self._tell_apart(terms, self._moves)
            self._sums = Sums(self.design, self.offset, along=self._pairs)
        elif any(
            terms[i] is not terms[self._heads[j]] for i, j in enumerate(self._same)
        ):
            before = self._same
            self._tell_apart(terms, before)
            self._sums = self._sums.repeated(
                [before[i] for i in self._heads], self._pairs
            )
        self._sums.add(block, tuple(terms[i] for i in self._heads))

    @property
    def _pairs(self):
        """Pairs of a numerator and its divisor among what is summed."""
        return [(self._same[top], self._same[end]) for top, end in self._along]

    def _tell_apart(self, terms, before):
        """Find which of the arrays are the same one, in this block as before."""
        place = {}
        pairs = [(known, id(term)) for known, term in zip(before, terms, strict=True)]
        self._same = [place.setdefault(pair, len(place)) for pair in pairs]
        self._heads = [self._same.index(number) for number in range(len(place))]

    @property
    def places(self):
        """Numbers of the terms of every owner among all, a dict of tuples."""
        ends = [*self._begins.values(), len(self._moves)][1:]
        return {
            owner: tuple(self._same[begin:end])
            for (owner, begin), end in zip(self._begins.items(), ends, strict=True)
        }

    @property
    def sums(self):
        """Sums of all terms, over a frame that holds no rows."""
        moves = [self._moves[i] for i in self._heads]
        place = [*self._same, WEIGHT]
        moves = tuple(None if by is None else place[by] for by in moves)
        return self._sums.moving(moves, self.offset).without_rows()


@dataclass
class StackedJob(Job):
    """A job whose terms are summed with those of others."""

    owner: object = None  # whose the terms are
    stack: object = None  # where they go

    def begin(self, block, design):
        """Nothing is to be made: the stack has a design."""
        self.design = self.stack.design

    def take(self, block, rounds):
        """Put the terms of a block."""
        terms = self.evaluator._terms(rounds)
        about = self.evaluator._moves, along_of(self.evaluator)
        self.stack.put(self.owner, block, terms, *about)
        self._take_extremes(block, rounds)

    def finish(self, whole):
        """Nothing is left to be done when all rounds were seen."""

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Terms of many policies and evaluators over the same rounds, summed as one.

Products of the terms of any two are kept, so that a difference of two values is as
exact as if the rounds were at hand.
"""

from dataclasses import dataclass

from skope_ope.evaluators.core._engine import Job
from skope_ope.evaluators.core._sums import Sums


class Stack:
    """Terms over one design, block by block.

    Parameters
    ----------
    design : Design
        Weight, stratum and cluster of every round.
    offset : float
        What is subtracted from all rewards for the terms that follow them.

    Attributes
    ----------
    places : dict
        Numbers of the terms of every owner among all.
    sums : Sums
        Those of all terms.
    """

    def __init__(self, design, offset):
        self.design, self.offset = design, offset
        self.places, self.sums = {}, None
        self._waiting, self._moves, self._block = {}, (), None

    def put(self, owner, block, terms, moves=None):
        """Take the terms of an owner in a block.

        Parameters
        ----------
        owner : hashable
            Whose they are.
        block : Block or DesignBlock
            The rounds.
        terms : tuple of ndarray of shape (n,)
            The terms.
        moves : int, default=None
            How the first of them rises with the rewards, see `Sums`.
        """
        if self._block is not block:
            self.flush()
            self._block = block
        if owner not in self.places:
            begin = len(self._moves)
            self.places[owner] = tuple(range(begin, begin + len(terms)))
            follows = moves if moves is None or moves < 0 else begin + moves
            self._moves += (follows, *[None] * (len(terms) - 1))
        self._waiting[owner] = terms

    def flush(self):
        """Add what was put of a block."""
        if not self._waiting:
            return
        if self.sums is None:
            self.sums = Sums(self.design, self.offset, self._moves)
        terms = [self._waiting[owner] for owner in self.places]
        block, self._waiting = self._block, {}
        block = block.of(self.design) if hasattr(block, "of") else block
        self.sums.add(block, tuple(term for some in terms for term in some))


@dataclass
class StackedJob(Job):
    """A job whose terms are summed with those of others.

    Attributes
    ----------
    owner : hashable
        Whose the terms are.
    stack : Stack
        Where they go.
    ends : RoundEnds
        Extremes of the terms and of what the model says.
    """

    owner: object = None
    stack: object = None
    ends: object = None

    def begin(self, block, design):
        """Nothing is to be made: the stack has a design."""
        self.design = self.stack.design

    def take(self, block, rounds):
        """Put the terms of a block."""
        terms = self.evaluator._terms(rounds)
        self.stack.put(self.owner, block, terms, self.evaluator._moves)
        enter = ... if block.omega is None or block.omega.all() else block.omega > 0
        powers = block.logs.reward_range is None  # the tail is not bounded
        self.ends.add_terms([term[enter] for term in terms], powers)
        if rounds.v is not None:
            self.ends.add_model(
                rounds.v[enter] + rounds.offset, rounds.q[enter] + rounds.offset
            )

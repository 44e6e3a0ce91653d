# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Which rounds a policy has learned from, so that it is not evaluated on them."""

from dataclasses import dataclass

import numpy as np

from skope_ope.logs._known_rows import KnownRows
from skope_ope.logs.checks._propensity_sums import ROWS_NAMED
from skope_ope.policies._action_probabilities import last_step, unwrap


def remember_rows(policy, *parts):
    """Note the rounds that a policy learns from."""
    # A pickle of the policy grows by at most 8 bytes and a bit for every round, and by
    # 8 bytes for every group.
    policy._learned_from = [KnownRows(logs) for logs in parts if logs is not None]


def learned_rounds(policy, logs):
    """Tell which rounds a policy, or a part of it, has learned from."""
    # Rounds of logs that were built anew are recognised by their content where it tells
    # rounds apart, see `Content`.
    learned = np.zeros(len(logs), dtype=bool)
    for known in _learned_from(policy):
        learned |= known.has(logs)
    return learned


@dataclass(frozen=True)
class LearnedRounds:
    """How many rounds a policy has learned from, which adds up over parts of a log."""

    n: int  # number of rounds
    count: int  # number of those that it has learned from
    rows: tuple = ()  # at most ten of these

    @classmethod
    def of(cls, policy, logs, by_position=False):
        """Return what `learned_rounds` tells of some rounds."""
        if not has_learned(policy):
            return cls(len(logs), 0)
        rows = learned_rounds(policy, logs).nonzero()[0]
        count, rows = len(rows), rows[:ROWS_NAMED]
        if by_position:
            rows = logs.row_id.position[rows]
        return cls(len(logs), count, tuple(rows.tolist()))

    @property
    def share(self):
        """Share of the rounds that the policy has learned from."""
        return self.count / self.n

    def __add__(self, other):
        """Return the same of both parts."""
        rows = tuple(sorted(self.rows + other.rows)[:ROWS_NAMED])
        return LearnedRounds(self.n + other.n, self.count + other.count, rows)


def has_learned(policy):
    """Tell whether a policy, or a part of it, remembers what it has learned from."""
    return any(True for _ in _learned_from(policy))


def rounds_in_doubt(policy, logs):
    """Return how many rounds a policy may have learned from though nothing tells it."""
    doubts = ((one.share_in_doubt(logs), one.repeats) for one in _learned_from(policy))
    return next((doubt for doubt in doubts if doubt[0] != 0), (0.0, 0.0))


def share_of_learned_groups(policy, logs):
    """Return the share of rounds whose group a policy has learned from."""
    shares = (one.share_of_groups(logs) for one in _learned_from(policy))
    return max(shares, default=0.0)


def _learned_from(policy):
    """Yield the rounds of a policy and of those that it is made of."""
    for part in _members_of(policy):
        yield from getattr(part, "_learned_from", ())


def _members_of(policy):
    """Yield a policy and those that it is made of."""
    policy = last_step(unwrap(policy))
    yield policy
    for member in getattr(policy, "_members", ()):  # of a mixture
        yield from _members_of(member)

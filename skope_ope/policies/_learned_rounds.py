# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Which rounds a policy has learned from, so that it is not evaluated on them."""

from dataclasses import dataclass

import numpy as np

from skope_ope.logs._known_rows import KnownRows
from skope_ope.policies._action_probabilities import last_step, unwrap

MOST_NAMED = 10  # rows


def remember_rows(policy, *parts):
    """Note the rounds that a policy learns from.

    A pickle of the policy grows by at most 8 bytes and a bit for every round, and by 8
    bytes for every group.

    Parameters
    ----------
    policy : policy
        Gets the private attribute that `learned_rounds` reads.
    *parts : BanditLogs, SlateLogs or None
        The rounds; `None`: unknown ones.
    """
    policy._learned_from = [KnownRows(logs) for logs in parts if logs is not None]


def learned_rounds(policy, logs):
    """Tell which rounds a policy, or a part of it, has learned from.

    Rounds of logs that were built anew are recognised by their content where it tells
    rounds apart, see `Content`.

    Parameters
    ----------
    policy : policy, array or str
        What is evaluated; only policies fitted on logs have learned from rounds.
    logs : BanditLogs or SlateLogs
        The rounds that it is evaluated on.

    Returns
    -------
    learned : ndarray of bool of shape (n_rounds,)
    """
    learned = np.zeros(len(logs), dtype=bool)
    for known in _learned_from(policy):
        learned |= known.has(logs)
    return learned


@dataclass(frozen=True)
class LearnedRounds:
    """How many rounds a policy has learned from, which adds up over parts of a log.

    Parameters
    ----------
    n : int
        Number of rounds.
    count : int
        Number of those that it has learned from.
    rows : tuple of int
        At most ten of these.
    """

    n: int
    count: int
    rows: tuple = ()

    @classmethod
    def of(cls, policy, logs, by_position=False):
        """Return what `learned_rounds` tells of some rounds.

        Parameters
        ----------
        policy : policy, array or str
            What is evaluated.
        logs : BanditLogs or SlateLogs
            The rounds.
        by_position : bool, default=False
            Whether rows are called by their positions in the log that these rounds are
            a part of.
        """
        if not has_learned(policy):
            return cls(len(logs), 0)
        rows = learned_rounds(policy, logs).nonzero()[0]
        count, rows = len(rows), rows[:MOST_NAMED]
        if by_position:
            rows = logs.row_id.position[rows]
        return cls(len(logs), count, tuple(rows.tolist()))

    @property
    def share(self):
        """Share of the rounds that the policy has learned from."""
        return self.count / self.n

    def __add__(self, other):
        """Return the same of both parts."""
        rows = tuple(sorted(self.rows + other.rows)[:MOST_NAMED])
        return LearnedRounds(self.n + other.n, self.count + other.count, rows)


def has_learned(policy):
    """Tell whether a policy, or a part of it, remembers what it has learned from."""
    return any(True for _ in _learned_from(policy))


def rounds_in_doubt(policy, logs):
    """Return how many rounds a policy may have learned from though nothing tells it.

    Parameters
    ----------
    policy : policy, array or str
        What is evaluated.
    logs : BanditLogs or SlateLogs
        The rounds that it is evaluated on.

    Returns
    -------
    share, repeats : float
        Share of the rounds that have the content of one of other logs that it has
        learned from (NaN: they cannot be compared), and of the rounds there that repeat
        an earlier one. Both are 0 where it is known what it has learned from.
    """
    doubts = ((one.share_in_doubt(logs), one.repeats) for one in _learned_from(policy))
    return next((doubt for doubt in doubts if doubt[0] != 0), (0.0, 0.0))


def share_of_learned_groups(policy, logs):
    """Return the share of rounds whose group a policy has learned from.

    Parameters
    ----------
    policy : policy, array or str
        What is evaluated.
    logs : BanditLogs or SlateLogs
        The rounds that it is evaluated on.

    Returns
    -------
    share : float
        0 where the groups of either are not known.
    """
    shares = (one.share_of_groups(logs) for one in _learned_from(policy))
    return max(shares, default=0.0)


def _learned_from(policy):
    """Yield the rounds of a policy and of those that it is made of."""
    for part in _parts(policy):
        yield from getattr(part, "_learned_from", ())


def _parts(policy):
    """Yield a policy and those that it is made of."""
    policy = last_step(unwrap(policy))
    yield policy
    for member in getattr(policy, "_members", ()):  # of a mixture
        yield from _parts(member)

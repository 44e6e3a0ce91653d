# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Which rounds a policy has learned from, so that it is not evaluated on them."""

import numpy as np

from skope_ope.logs._known_rows import KnownRows
from skope_ope.policies._action_probabilities import last_step, unwrap


def remember_rows(policy, *parts):
    """Note the rounds that a policy learns from.

    A pickle of the policy grows by at most 8 bytes and a bit for every round.

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

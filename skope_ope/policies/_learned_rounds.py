# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Which rounds a policy has learned from, so that none of them judges it."""

import numpy as np

from skope_ope.policies._action_probabilities import last_step, unwrap


def remember_rows(policy, logs):
    """Note the rounds that a policy learns from, a bit for each; `None`: unknown ones.

    Parameters
    ----------
    policy : policy
        Gets the private attribute that `learned_share` reads.
    logs : BanditLogs, SlateLogs or None
        The rounds.
    """
    policy._learned_from = None
    if logs is not None:
        rows = logs.row_id
        learned = np.zeros(rows.position.max() + 1, dtype=bool)
        learned[rows.position] = True
        policy._learned_from = rows.origin, np.packbits(learned)


def learned_share(policy, logs):
    """Share of the rounds that a policy, or a part of it, has learned from.

    Rounds are recognised by `row_id`: in whatever object they come, but not where the
    logs were built anew.

    Parameters
    ----------
    policy : policy, array or str
        What is evaluated; only policies fitted on logs have learned from rounds.
    logs : BanditLogs or SlateLogs
        The rounds that it is evaluated on.
    """
    rows, seen = None, False
    for part in _parts(policy):
        known = getattr(part, "_learned_from", None)
        if known is None:
            continue
        rows = logs.row_id if rows is None else rows
        origin, bits = known
        if origin == rows.origin:
            learned = np.unpackbits(bits).view(bool)
            inside = rows.position < len(learned)
            seen |= inside & learned[np.where(inside, rows.position, 0)]
    return float(np.mean(seen))


def _parts(policy):
    """Yield a policy and those that it is made of."""
    policy = last_step(unwrap(policy))
    yield policy
    for member in getattr(policy, "_members", ()):  # of a mixture
        yield from _parts(member)

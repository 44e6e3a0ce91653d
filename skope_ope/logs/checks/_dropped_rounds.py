# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""A cause of many findings: rounds that were dropped before the log was built."""

import numpy as np

DROPPED = (
    "Rounds were dropped, such as those without a reward (no click, no order): log "
    "every choice, with reward 0 where nothing came of it."
)
ALIKE = 0.9  # of the rewards have one sign, as sums that were paid do


def with_dropped(causes, logs=None):
    """Return causes with the one that rounds were dropped."""
    # That is the first one where no reward is 0 and nearly all have one sign, as in an
    # export of orders. Rewards from which a cost is subtracted have both.
    if lacks_zeros(getattr(logs, "reward", None)):
        return (f"No reward of the log is 0. {DROPPED}", *causes)
    return (*causes, DROPPED)


def lacks_zeros(reward):
    """Return whether no reward is 0, and nearly all have one sign."""
    if reward is None or not len(reward) or not (reward != 0).all():
        return False
    positive = np.mean(reward > 0)
    return bool(max(positive, 1 - positive) >= ALIKE)

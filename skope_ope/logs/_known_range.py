# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The range that the rewards of a log are known to have."""


def known_range(logs):
    """Return the known range of the rewards, or None.

    It is `reward_range` where it was stated. Rewards of which all are 0 or 1, and some
    are 1, are taken for yes and no: their range is (0, 1).

    Parameters
    ----------
    logs : BanditLogs or SlateLogs
        The rounds.

    Returns
    -------
    range : tuple (float, float) or None
    """
    if logs.reward_range is not None:
        low, high = logs.reward_range
        return float(low), float(high)
    reward = logs.reward
    if len(reward) and reward[0] in (0.0, 1.0):  # most others differ in the first
        ones = reward == 1
        if ones.any() and not (reward[~ones] != 0).any():
            return 0.0, 1.0
    return None

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The range that the rewards of a log are known to have."""

from math import isfinite


def known_range(logs):
    """Return the known range of the rewards, or None."""
    # It is `reward_range` where it was stated, and finite. Rewards of which all are 0
    # or 1, and some are 1, are taken for yes and no: their range is (0, 1).
    if logs.reward_range is not None:
        low, high = logs.reward_range
        return (float(low), float(high)) if isfinite(high - low) else None
    return (0.0, 1.0) if logs._says_yes_and_no else None


def observed_range(logs):
    """Return the smallest and the largest reward that weighs something; () if none."""
    reward, weight = logs.reward, getattr(logs, "sample_weight", None)
    reward = reward if weight is None else reward[weight > 0]
    return (float(reward.min()), float(reward.max())) if len(reward) else ()


def says_yes_and_no(logs):
    """Tell whether all rewards are 0 or 1, and some are 1, where rounds weigh."""
    reward, weight = logs.reward, getattr(logs, "sample_weight", None)
    if weight is not None and not weight.all():
        reward = reward[weight > 0]
    if not len(reward) or reward[0] not in (0.0, 1.0):  # most others differ there
        return False
    return bool(((reward == 0) | (reward == 1)).all() and reward.any())

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Mistakes in which field means what: computed rewards, objects in place of numbers."""

import re

from skope_ope.readers._context_fields import inner_fields

COMPUTED = re.compile(r"[-+*/()\s]")


def check_reward_field(path, reward, names):
    """Raise where the reward is to be computed from fields."""
    if isinstance(reward, str) and (
        reward in names or not set(COMPUTED.split(reward)) & set(names)
    ):
        return
    message = (
        f"reward must be the name of one field, got {reward!r}. Compute a reward of "
        "several fields first. With pandas: frame = pd.json_normalize([json.loads(line)"
        f" for line in open({str(path)!r})]); frame['reward'] = frame['a'] - 3 * "
        "frame['b']; BanditLogs.from_frame(frame, reward='reward', ...)."
    )
    raise (ValueError if isinstance(reward, str) else TypeError)(message)


def check_propensity_field(propensity, names, say):
    """Raise where the propensity is an object that holds one of every action."""
    if not isinstance(propensity, str) or propensity in names:
        return
    inner = inner_fields(propensity, names)
    if inner:
        held = ", ".join(one[len(propensity) + 1 :] for one in inner)
        raise ValueError(f"{propensity} is an object of {held}: use {say}.")

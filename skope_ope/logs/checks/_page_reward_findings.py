# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Whether the reward of a page was given to each of its slots."""

from skope_ope.exceptions import LogsWarning
from skope_ope.logs._page_reward import like_page_reward
from skope_ope.logs.checks._finding import Finding

ADVICE = (
    "If it is the reward of the page (an order, a session), build the logs with "
    "reward=... and without slot_reward.",
    "If each slot earned it, accept the finding by its name.",
)


def page_reward_findings(logs, random_state=None):
    """Ask whether all slots of every page have the same reward."""
    # Rewards of slots are added up, so the reward of a page would count once per slot.
    told = None
    if logs.slot_reward is not None:
        told = like_page_reward(logs.slot_reward, logs.slate)
    if told is None:
        return {}, []
    n_pages, n_rewarded = told
    found = (
        f"The slots of each of {n_pages:,} pages with several items have the same "
        f"reward, on {n_rewarded:,} of them not 0. It looks like the reward of the "
        "page, which then counts once for every slot."
    )
    about = {"number": n_rewarded, "effect": 1.0, "category": LogsWarning}
    return {}, [Finding("page_reward", "error", found, ADVICE, **about)]

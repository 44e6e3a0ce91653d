# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Whether what is given as the rewards of slots is the reward of the page."""

import numpy as np

from skope_ope._user_line import warn_user
from skope_ope.exceptions import LogsWarning
from skope_ope.logs._slate_fields import EMPTY

FEWEST = 10  # pages with a reward, and others: chance does not make all slots equal


def like_page_reward(slot_reward, slate):
    """Tell whether all slots of every page have the same reward, and pages differ."""
    filled = slate != EMPTY
    several = filled.sum(axis=1) > 1
    reward = np.asarray(slot_reward, dtype=float)[several]
    most = np.where(filled[several], reward, -np.inf).max(axis=1, initial=-np.inf)
    least = np.where(filled[several], reward, np.inf).min(axis=1, initial=np.inf)
    if (most != least).any() or not len(most):
        return None
    usual = np.unique(most, return_counts=True)[1].max()
    n_rewarded = int(np.count_nonzero(most))
    if min(n_rewarded, len(most) - usual) < FEWEST:
        return None
    return len(most), n_rewarded


def warn_of_page_reward(slot_reward, slate, names):
    """Warn where the columns of the rewards of slots look like that of the page."""
    found = like_page_reward(slot_reward, slate)
    if found is None:
        return
    n_pages, n_rewarded = found
    what, given = names[0], names if len(names) > 1 else names[0]
    page = "the column with the reward of the page" if len(names) > 1 else repr(what)
    warn_user(
        [
            LogsWarning(
                f"slot_reward={given!r} is the same in all slots of each of the "
                f"{n_pages:,} pages with several items, so it looks like the reward "
                "of the page. The rewards of slots are added: a page then counts once "
                f"for every slot. Pass reward={page} and no slot_reward.",
                float(n_rewarded),
            )
        ]
    )

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Whether the length of a page depends on what was rewarded on it."""

import numpy as np

from skope_ope._user_line import warn_user
from skope_ope.exceptions import LogsWarning
from skope_ope.logs._slate_fields import EMPTY

FEWEST = 20  # rewards of a slot, and pages that end before it
BY_CHANCE = 1e-6


def warn_of_lost_rows(slot_reward, slate, names):
    """Warn where only items with a reward seem to have a row.

    The items of a page are known before it is rewarded. If every item in a slot was
    rewarded, or every page that ends there ends with a reward, rows are missing.

    Parameters
    ----------
    slot_reward : array-like of shape (n_pages, n_slots)
        Rewards of the slots.
    slate : ndarray of int of shape (n_pages, n_slots)
        What they show.
    names : list of str
        The columns with the rewards.
    """
    filled = slate != EMPTY
    rewarded = np.asarray(slot_reward, dtype=float) > 0
    given = names if len(names) > 1 else names[0]
    for slot in range(1, slate.shape[1]):
        goes_on = filled[:, slot - 1] & filled[:, slot]
        ends = filled[:, slot - 1] & ~filled[:, slot]
        if min(np.count_nonzero(goes_on), np.count_nonzero(ends)) < FEWEST:
            continue
        before = rewarded[:, :slot][filled[:, :slot]]
        if _all_by_cause(rewarded[goes_on, slot], before.mean()):
            found = f"all {np.count_nonzero(goes_on):,} items in slot {slot + 1} have "
            found += f"a reward, and {np.count_nonzero(ends):,} pages end before it"
        elif _all_by_cause(
            rewarded[ends, slot - 1], rewarded[goes_on, slot - 1].mean()
        ):
            found = f"all {np.count_nonzero(ends):,} pages with {slot} items have a "
            found += "reward in the last one, where longer pages often have none"
        else:
            continue
        warn_user(
            [
                LogsWarning(
                    f"slot_reward={given!r}: {found}. So rows without a reward seem to "
                    "be missing, and the values are wrong. Add a row for every item "
                    "that was on the page, with reward 0.",
                    float(np.count_nonzero(ends)),
                )
            ]
        )
        return


def _all_by_cause(rewarded, usual):
    """Tell whether all are rewarded, more than chance explains."""
    return bool(rewarded.all()) and usual ** len(rewarded) < BY_CHANCE

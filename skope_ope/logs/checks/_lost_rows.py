# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Whether rows of pages are missing because nothing came of them.

Systems that log clicks often lose what was shown and not clicked. The rewards of the
pages stay right, and the slates do not: they look like shorter ones.
"""

import numpy as np
from scipy.stats import binom

from skope_ope.exceptions import LogsWarning, PropensityWarning
from skope_ope.logs._slate_fields import EMPTY
from skope_ope.logs._slate_logs import column_weights
from skope_ope.logs.checks._finding import Finding

NAME = "lost_rows"
AT_MOST = 0.8  # of the last slots of short pages have a reward, in right logs
ELSEWHERE = 0.5  # of the slots before: where rewards are dense this tells nothing
CHANCE = 1e-4  # of an alarm in such logs, over all counts
EXPECTED = 20  # pages without a reward: none of them has chance exp(-20)
LOST = (
    "Rows without a reward were not logged, or a join or filter has dropped them. Log "
    "every item that was shown, with reward 0 where nothing came of it.",
    "Pages are logged up to the last click only, or end with it. Log the whole page as "
    "the logging policy composed it.",
)
PAGES = (
    "Keep the pages on which nothing was clicked: look for a filter or an inner join "
    "that drops them. Without them every value is too high.",
    "If every page must end in a reward (one item has to be chosen), ignore this.",
)


def ended_by_reward_findings(logs, random_state=0):
    """Look for pages that end with their last reward, although more was on offer."""
    # Where the length of a page does not depend on its rewards, its last slot may have
    # a reward more often than the others, but hardly always. The count of pages whose
    # last slot has one is compared with a share of 80%. All short pages are counted,
    # and those of two slots or more: a page without any reward may keep one row. Then
    # those of each length, beside pages that the layout made short. Of a group one page
    # is taken.
    if logs.slot_reward is None:
        return {}, []
    shown, rewarded = logs.slate != EMPTY, logs.slot_reward > 0
    n_shown = shown.sum(axis=1)
    last = logs.n_slots - 1 - np.argmax(shown[:, ::-1], axis=1)
    before = shown & (np.arange(logs.n_slots) < last[:, None])
    share = float(rewarded[before].mean()) if before.any() else 1.0
    if share > ELSEWHERE:
        return {}, []
    n_offered = logs._offered_counts
    n_offered = logs.max_candidates if n_offered is None else n_offered
    is_short = (n_shown > 0) & (n_shown < np.minimum(n_offered, logs.n_slots))
    ended = rewarded[np.arange(len(logs)), last]
    counted = [("", n_shown > 0), (" of two items or more", n_shown > 1)]
    for length in range(1, logs.n_slots):
        of_length = f" of {length} item{'s' if length > 1 else ''}"
        counted.append((of_length, n_shown == length))
    for which, wanted in counted:
        pages = _one_of_group(logs, np.flatnonzero(is_short & wanted))
        count, n = int(ended[pages].sum()), len(pages)
        chance = float(binom.sf(count - 1, n, AT_MOST))
        if n and chance < CHANCE / len(counted):
            return {}, [_ended(logs, pages, count, chance, share, which)]
    return {}, []


def pages_without_reward_findings(logs, random_state=None):
    """Ask whether pages without any reward are missing."""
    # Where the rewards of slots do not depend on each other, a page has none with a
    # probability that the shares of zeros by slot tell.
    if logs.slot_reward is None:
        return {}, []
    shown, rewarded = logs.slate != EMPTY, logs.slot_reward > 0
    counts = shown.any(axis=1)
    weight = column_weights(logs)
    if weight is not None:
        counts = counts & (weight > 0)
    if not rewarded[counts].any(axis=1).all():
        return {}, []
    shown, rewarded = shown[counts], rewarded[counts]
    zero = 1 - rewarded.sum(axis=0) / np.maximum(shown.sum(axis=0), 1)
    expected = float(np.where(shown, zero, 1.0).prod(axis=1).sum())
    if expected < EXPECTED:
        return {}, []
    found = (
        f"Each of {len(shown):,} pages has a reward. By the share of slots without "
        f"one, about {expected:,.0f} pages should have none. Pages without a reward "
        "may be missing."
    )
    about = {"number": expected, "effect": expected / len(shown)}
    return {}, [
        Finding("lost_pages", "warning", found, PAGES, category=LogsWarning, **about)
    ]


def _one_of_group(logs, rows):
    if logs.group is None or not rows.size:
        return rows
    drawn = np.random.RandomState(0).permutation(rows)
    return np.sort(drawn[np.unique(logs.group_index[drawn], return_index=True)[1]])


def _ended(logs, pages, count, chance, share, which):
    what = "pages" if logs.group is None else "pages (one of each group)"
    what += which
    found = (
        f"{len(pages):,} {what} end early: they offer more items than they show. "
        f"{count:,} of them have a reward in their last slot. Of the slots before, "
        f"{share:.1%} have one. Rows after the last reward of a page may be missing."
    )
    about = {"number": chance, "effect": count / len(pages) - share}
    about |= {"rows": pages[:10].tolist(), "category": PropensityWarning}
    return Finding(NAME, "error", found, LOST, **about)

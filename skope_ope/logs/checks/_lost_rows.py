# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Whether rows of pages are missing because nothing came of them.

Systems that log clicks often lose what was shown and not clicked. The rewards of the
pages stay right, and the slates do not: they look like shorter ones.
"""

from math import inf, isnan, nan, sqrt
from typing import NamedTuple

import numpy as np
from scipy.special import pdtrc
from scipy.stats import binom

from skope_ope.exceptions import LogsWarning
from skope_ope.logs._slate_frames import like_page_reward
from skope_ope.logs._validation import EMPTY, column_weights
from skope_ope.logs.checks._finding import Finding, propensity_alarm
from skope_ope.logs.sums._group_sums import (
    ALL,
    WordsOfGroups,
    pairs_of_groups,
    sums_of_groups,
)
from skope_ope.logs.sums._propensity_sums import PropensitySums

LOST_ROWS = "lost_rows"
AT_MOST = 0.8  # of the last slots of short pages have a reward, in right logs
ELSEWHERE = 0.5  # of the slots before: where rewards are dense this tells nothing
ENDED_CHANCE = 1e-4  # of an alarm in such logs, over all counts
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
        if n and chance < ENDED_CHANCE / len(counted):
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
    of_group = "" if logs.group is None else " (one of each group)"
    found = (
        f"{len(pages):,} pages{of_group}{which} end early: they offer more items than "
        f"they show. {count:,} of them have a reward in their last slot. Of the slots "
        f"before, {share:.1%} have one. Rows after the last reward of a page may be "
        "missing."
    )
    about = found, LOST, chance, count / len(pages) - share
    return propensity_alarm(LOST_ROWS, *about, rows=pages[:10].tolist())


# -- whether the reward of a page was given to each of its slots -----------------------

PAGE_REWARD_ADVICE = (
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
    return {}, [Finding("page_reward", "error", found, PAGE_REWARD_ADVICE, **about)]


# -- A cause of many findings: rounds that were dropped before the log was built -------

UNLOGGED = (
    "Rounds were dropped, such as those without a reward (no click, no order): log "
    "every choice, with reward 0 where nothing came of it."
)
ONE_SIGN = 0.9  # of the rewards have one sign, as sums that were paid do


def with_dropped(causes, logs=None):
    """Return causes with the one that rounds were dropped."""
    # That is the first one where no reward is 0 and nearly all have one sign, as in an
    # export of orders. Rewards from which a cost is subtracted have both.
    if lacks_zeros(getattr(logs, "reward", None)):
        return (f"No reward of the log is 0. {UNLOGGED}", *causes)
    return (*causes, UNLOGGED)


def lacks_zeros(reward):
    """Return whether no reward is 0, and nearly all have one sign."""
    if reward is None or not len(reward) or not (reward != 0).all():
        return False
    positive = np.mean(reward > 0)
    return bool(max(positive, 1 - positive) >= ONE_SIGN)


# -- whether chance left actions out of a log, or the logger could not take them -------

GAP_ERRORS = 3  # standard errors of the mean of 1/p
LEFT_OUT_CHANCE = 1e-3  # chance below which it did not leave so many out


def left_out_by_chance(logs):
    r"""Tell whether a logger could take the actions that it never took."""
    # The mean of 1/p is the number of offered actions that the logger may take: K where
    # it may take all, and K less the number U of those that were never logged where it
    # may take none of them. It must be K within U / 2, three standard errors included,
    # and chance must be able to leave out U: with constant p it leaves out :math:`K (1
    # - p)^n` on average. Otherwise about as many actions, or more, must have been taken
    # once.
    known = logs.propensity is not None and logs.logging_proba is None
    if not known or logs.propensity_estimated or not len(logs._unseen):
        return False
    return not logs._weighs_unevenly and is_by_chance(logs, logs._choices)


class Choices(NamedTuple):
    """What the rounds of a log tell of the actions that the logger could take."""

    gap: float  # mean of 1/p less the number of offered actions,
    error: float  # and its standard error
    never: float  # mean number of the offered actions that were never logged
    n: int  # number of choices: a group that repeats one has made it once
    n_once: int  # number of actions that were chosen once
    # The propensity of all rounds where all actions are always offered, NaN where they
    # differ
    constant: float


def is_by_chance(logs, told):
    """Tell whether chance left out what was never logged."""
    if not abs(told.gap) + GAP_ERRORS * told.error < told.never / 2:
        return False
    n_actions, n_unseen = logs.n_actions, len(logs._unseen)
    if isnan(told.constant):
        expected = told.n_once * max(1.0, 2 * n_actions / told.n)
    else:
        expected = n_actions * (1 - told.constant) ** told.n
    return bool(pdtrc(n_unseen - 1, expected) >= LEFT_OUT_CHANCE)


def choices_of(logs):
    """Return the `Choices` of logs with propensities and actions never logged."""
    propensities, gap = PropensitySums.of(logs)
    weight, groups, pairs = logs.sample_weight, None, None
    if logs.group is not None:
        words = WordsOfGroups(logs, ALL)
        groups = sums_of_groups(logs, words, {"gap": gap})
        pairs = pairs_of_groups(logs, words, len(logs))
    weight = 1.0 if weight is None else float(weight.max())
    return choices_of_sums(logs, propensities, weight, groups, pairs)


def choices_of_sums(log, propensities, weight, groups, pairs):
    """Return the `Choices` of a log of rounds with one weight, from its sums."""
    # With groups and actions that one part has not seen and another does not know, what
    # the groups chose is not known: then nothing is by chance.
    n, unseen = propensities.n, log._unseen
    never, constant = float(len(unseen)), nan
    if propensities.offered is not None:
        never = float(propensities.offered[unseen].sum()) / n
    elif propensities.low == propensities.high:
        constant = propensities.low
    gap = propensities.gap / weight / n
    if groups is None:
        square = propensities.gap_square / weight**2 - n * gap * gap
        n_once = int((log._action_counts == 1).sum())
        return Choices(gap, error_of_mean(square, n, n), never, n, n_once, constant)
    change = groups["gap"] / weight - gap * groups["n"]
    square = float(change @ change) * groups.per_kept
    error = error_of_mean(square, groups.n_groups, n)
    if pairs is None:
        return Choices(gap, inf, never, n, 0, constant)
    return Choices(gap, error, never, pairs.n_pairs, pairs.n_once, constant)


def error_of_mean(square, n_units, n_rounds):
    """Return the standard error of a mean, from squares of centred sums of units."""
    if n_units < 2:
        return inf
    return sqrt(n_units / (n_units - 1) * max(square, 0.0)) / n_rounds

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Whether logged slates are those that the logging policy composed, with all rows.

A slate is a sequence of decisions. Given what stands in the slots before, the law of
the next one is known, so that decisions are martingale differences: their counts and
likelihoods have exact moments, whatever the policy does with earlier slots.

Systems that log clicks often lose what was shown and not clicked. The rewards of the
pages stay right, and the slates do not: they look like shorter ones.
"""

from math import log

import numpy as np
from scipy.stats import binom
from sklearn.utils import check_random_state

from skope_ope.exceptions import LogsWarning
from skope_ope.logs._bandit_logs import BanditLogs
from skope_ope.logs._shown_numbers import figure
from skope_ope.logs._slate_frames import like_page_reward
from skope_ope.logs._validation import EMPTY, column_weights, is_uniform
from skope_ope.logs.checks._context_columns import thinned
from skope_ope.logs.checks._evidence import EVIDENT
from skope_ope.logs.checks._finding import Finding, propensity_alarm
from skope_ope.logs.checks._propensity_findings import SHARPNESS, chance_of
from skope_ope.logs.checks._propensity_fit import fitted_propensity_findings
from skope_ope.logs.checks._propensity_sums import count_chance
from skope_ope.logs.checks._slate_pages import (
    PAIR_NAME,
    SORTED_PAGES,
    pair_findings,
    uniform_order_findings,
    uniform_pair_findings,
)

MOST_LAW_CELLS = 60_000  # decisions times candidates: the time stays bounded
FEWEST_COMPARED = 30  # rounds
UNLIKELY_COUNTS = 1e-4  # chance of counts, over all of them
LEAST_COUNT_EFFECT = 0.1  # of the expected count
ROUNDED_AWAY = 1e-9  # a probability that is rounding
SLATE_FACT = "slates against the logging policy"
CAUSES = (
    "logging_policy is another version of the policy that was used, or has another "
    "temperature or other weights.",
    "The candidates have another order than in logging_policy, or the slates belong "
    "to other rounds.",
    "Slates were filtered or re-ordered after logging_policy had composed them, or "
    "some rounds were dropped because of their slates.",
)


def slate_logger_findings(logs, random_state=0):
    r"""Compare logged slates with the policy that is said to have composed them."""
    # For the decision of slot j with the law :math:`c_j(a) = P(s_{1..j-1}, a) /
    # P(s_{1..j-1})`,
    #
    # - no logged candidate may have probability 0,
    # - the count of every candidate in every slot has mean :math:`\sum c` and variance
    #   :math:`\sum c (1 - c)` (Bennett's inequality bounds its chance),
    # - the mean over :math:`\beta` of :math:`\prod c_\beta(s_j) / c(s_j)` with
    #   :math:`c_\beta \propto c^\beta` is an e-value: above 1,000 in at most one right
    #   log of a thousand, at another temperature beyond,
    # - no model of the context may predict the first slot better than the policy, by
    #   the e-value of `fitted_propensity_findings`,
    # - candidates may not share pages more often, or less, than the policy says
    #   (`pair_findings`); of a uniform policy all rounds are looked at, and the order
    #   of the items on a page, too (`uniform_order_findings`).
    #
    # Of a group one round is taken, and weighted rounds are taken in proportion to
    # their weights, so that the rounds that are compared are independent and those of
    # the policy.
    policy = logs.logging_policy
    if (why := _why_untested(policy)) is not None:
        return {SLATE_FACT: f"not possible: {why}"}, []
    random = check_random_state(random_state)
    rows = _independent_rows(logs, random)
    drawn = logs[rows]
    try:
        proba = np.asarray(policy.prefix_proba(drawn), dtype=float)
    except ValueError as error:
        text = (
            f"The logging policy gives no probabilities for the logged slates: {error}"
        )
        return {SLATE_FACT: "not possible: the policy refuses these rounds"}, [
            propensity_alarm("logging_policy_refuses", text, CAUSES[:2])
        ]
    findings = _contradicting_propensities(drawn, rows, proba[:, -1])
    never = np.flatnonzero(proba[:, -1] <= 0)
    if never.size:
        findings.append(_impossible_slates(drawn, rows, never, proba))
    facts = {SLATE_FACT: _rounds_compared(logs, len(rows))}
    uniform = is_uniform(logs)
    if uniform:
        told, found = logs._quick_propensity_findings
        # the others are told before
        pages = [one for one in found if one.name in (PAIR_NAME, SORTED_PAGES)]
        facts, findings = facts | told, pages + findings
    if len(rows) < FEWEST_COMPARED:
        facts[SLATE_FACT] = (
            f"not possible: fewer than {FEWEST_COMPARED} independent rounds"
        )
    elif not never.size:
        laws = decision_laws(policy, drawn, proba)
        code = np.where(drawn.slate == EMPTY, laws.shape[2] - 1, drawn.slate)
        findings += [] if uniform else pair_findings(drawn, laws)
        findings += _count_findings(laws, code) + _calibration_findings(laws, code)
        findings += _misfit_findings(drawn, rows, laws[:, 0], code[:, 0], random)
    return facts, findings


def quick_slate_findings(logs, uniform):
    """Return facts and findings of lost rows, and of which items stand where."""
    facts, findings = {}, ended_by_reward_findings(logs)[1]
    for check in (uniform_pair_findings, uniform_order_findings) if uniform else ():
        told, found = check(logs)
        facts, findings = facts | told, findings + found
    return facts, findings


def _why_untested(policy):
    """Return why no slate is compared with a logging policy, None where they are."""
    if policy is None:
        return "the log has no logging_policy"
    if not hasattr(policy, "prefix_proba"):
        return "the logging policy has no prefix_proba"
    if not getattr(policy, "exact", True):
        return "the policy's probabilities are means of draws"
    return None


def _rounds_compared(logs, n_rows):
    """Return how many rounds are compared and, where they are few, why."""
    if n_rows == len(logs):
        return f"{n_rows:,} rounds compared"
    told = f"{n_rows:,} of {len(logs):,} rounds compared"
    if n_rows >= _most_rows(logs):
        n_cells = logs.n_slots * (logs.max_candidates + 1)
        return f"{told}, drawn at random: each takes {n_cells:,} probabilities"
    return f"{told}, " + ("drawn by weight" if logs.group is None else "one a group")


def decision_laws(policy, logs, proba):
    """Return the law of every slot given the slots before it."""
    n_rounds, n_slots = proba.shape
    n_candidates = logs.max_candidates
    laws = np.empty((n_rounds, n_slots, n_candidates + 1))
    repeated = logs[np.repeat(np.arange(n_rounds), n_candidates)]
    shown = np.tile(np.arange(n_candidates), n_rounds)
    before = np.ones(n_rounds)
    for slot in range(n_slots):
        slates = repeated.slate.copy()
        slates[:, slot] = shown
        found = policy.prefix_proba(repeated, slates)[:, slot]
        laws[:, slot, :-1] = found.reshape(n_rounds, n_candidates) / before[:, None]
        laws[:, slot, -1] = 1 - laws[:, slot, :-1].sum(axis=1)
        before = proba[:, slot]
    laws[laws < ROUNDED_AWAY] = 0.0
    return laws


def _independent_rows(logs, random):
    """Return rounds that are independent, and those of the policy, in order."""
    rows = thinned(random.permutation(len(logs)), column_weights(logs), random)
    if logs.group is not None:
        rows = rows[np.unique(logs.group_index[rows], return_index=True)[1]]
        random.shuffle(rows)
    return np.sort(rows[: _most_rows(logs)])


def _most_rows(logs):
    """Return how many rounds are compared at most."""
    n_cells = logs.n_slots * (logs.max_candidates + 1)
    return max(MOST_LAW_CELLS // n_cells, FEWEST_COMPARED)


def _contradicting_propensities(drawn, rows, proba):
    """Compare recorded propensities with the policy's probabilities."""
    if drawn.propensity is None:
        return []
    gap = np.abs(drawn.propensity / np.maximum(proba, 1e-300) - 1)
    off = np.flatnonzero(gap > 1e-6)
    if not off.size:
        return []
    worst = off[np.argsort(-gap[off], kind="stable")[:10]]
    row = worst[0]
    found = (
        f"The recorded propensities of {len(off):,} of {len(drawn):,} slates "
        f"differ from the logging policy's: row {_row_name(drawn, rows, row)} has "
        f"{figure(drawn.propensity[row])}, the policy gives {figure(proba[row])}."
    )
    advice = ("One of the two is wrong: leave it out.", *CAUSES[:2])
    about = {"number": len(off) / len(drawn), "effect": float(np.median(gap[off]))}
    about |= {"rows": np.sort(rows[worst]).tolist()}
    return [propensity_alarm("contradicting_propensity", found, advice, **about)]


def _row_name(drawn, rows, row):
    """Return what messages call a drawn row: in samples, its place in the log."""
    return int(drawn._called(np.array([row]))[0]) if drawn._by_position else rows[row]


def _impossible_slates(drawn, rows, never, proba):
    row = int(never[0])
    slot = int(np.flatnonzero(proba[row] <= 0)[0])
    shown = int(drawn.slate[row, slot])
    what = "leaves it empty" if shown == EMPTY else f"holds candidate {shown}"
    found = (
        f"The logging policy cannot compose {len(never):,} of {len(drawn):,} logged "
        f"slates: slot {slot} of row {_row_name(drawn, rows, row)} {what}, which has "
        "probability 0 there."
    )
    about = {"number": len(never) / len(drawn), "effect": len(never) / len(drawn)}
    about |= {"rows": rows[never[:10]].tolist()}
    return propensity_alarm("impossible_slates", found, CAUSES, **about)


def _count_findings(laws, code):
    """Compare counts of candidates by slot with their exact moments."""
    mean = laws.sum(axis=0)
    variance = mean - np.einsum("ijk,ijk->jk", laws, laws)
    slot = np.broadcast_to(np.arange(code.shape[1]), code.shape)
    count = np.zeros(mean.shape)
    np.add.at(count, (slot, code), 1.0)
    gap = np.abs(count - mean)
    spread = np.maximum(variance, 1e-12)
    chance = count_chance(gap, variance) * mean.size
    effect = gap / np.maximum(mean, 1.0)
    chance[(effect <= LEAST_COUNT_EFFECT) | (gap < 1e-6)] = np.inf
    worst = np.unravel_index(int(chance.argmin()), chance.shape)
    if not chance[worst] < UNLIKELY_COUNTS:
        return []
    place, shown = (int(at) for at in worst)
    what = "was empty"
    if shown < mean.shape[1] - 1:
        what = f"held candidate {shown}"
    z = float((count[worst] - mean[worst]) / np.sqrt(spread[worst]))
    found = (
        f"Slot {place} {what} {count[worst]:,.0f} times in {len(laws):,} rounds. "
        "Given the slots before, the logging policy expects "
        f"{figure(mean[worst])} ({z:+,.1f} standard errors)."
    )
    about = {"number": z, "effect": float(effect[worst])}
    about |= {"columns": (f"slot {place}",)}
    return [propensity_alarm("slate_counts", found, CAUSES, **about)]


def _calibration_findings(laws, code):
    """Ask whether the logger was as sure of its candidates as the policy."""
    laws = laws.reshape(-1, laws.shape[2])
    own = np.log(laws[np.arange(len(laws)), code.ravel()])
    evidence = []
    for beta in SHARPNESS:
        total = np.power(laws, beta, where=laws > 0, out=np.zeros_like(laws)).sum(
            axis=1
        )
        evidence.append(float(((beta - 1) * own - np.log(total)).sum()))
    best = SHARPNESS[int(np.argmax(evidence))]
    found = float(np.logaddexp.reduce(evidence)) - log(len(SHARPNESS))
    if not found > EVIDENT:
        return []
    more = "more" if best > 1 else "less"
    text = (
        f"The logger was {more} sure of its candidates than the logging policy "
        f"says: its temperature divided by {figure(best)} fits the slates better "
        f"({chance_of(found)})."
    )
    return [
        propensity_alarm(
            "slate_calibration", text, CAUSES, found, max(best, 1 / best) - 1
        )
    ]


def _misfit_findings(drawn, rows, law, code, random):
    """Ask whether a model of the context predicts the first slot better."""
    p = law[np.arange(len(law)), code]
    first = BanditLogs(drawn.context, code, drawn.reward, p)
    found = fitted_propensity_findings(first, random)[1]
    return [
        propensity_alarm(
            "slate_misfit",
            "A model that was fitted to other rounds predicts the candidate in slot 0 "
            f"from the context better than the logging policy, by {one.effect:,.0%} on "
            f"average ({chance_of(one.number)}).",
            CAUSES,
            number=one.number,
            effect=one.effect,
            rows=rows[list(one.rows)].tolist(),
            columns=("slot 0",),
        )
        for one in found
        if one.is_alarm
    ]


# -- rows of pages that are missing because nothing came of them -----------------------

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

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Whether the items of a page are in random order, as a uniform logger shows them.

Pages that were sorted afterwards show the right items together, so that counts of
candidates by page and of their pairs are right. Only their places are wrong.
"""

from math import log, sqrt

import numpy as np
from scipy.special import gammaln

from skope_ope.logs._shown_numbers import figure
from skope_ope.logs._validation import EMPTY, plain
from skope_ope.logs.checks._e_value import LARGEST_RATIO, log_e_value, log_mean_exp
from skope_ope.logs.checks._finding import propensity_alarm
from skope_ope.logs.checks._lost_rows import ended_by_reward_findings
from skope_ope.logs.checks._propensity_findings import chance_of
from skope_ope.logs.checks._shared_pages import (
    FEWEST_PAGES,
    SURE_OF_PAGES,
    pages_compared,
    shares_of_pages,
    uniform_pair_findings,
)

SLOTS_COMPARED = 1_000_000  # slots of pages that are looked at
MOST_OFFERED_BYTES = 40_000_000  # of what their slots offer
MOST_ITEM_FEATURES = 10  # of items that are looked at
ORDER_RIDGE = 0.01  # added to correlations of features
PRIOR_PLACES = 2.0  # pages with an average place that are added to every item
TILTS = (0.2, 0.6, 2.0, 5.0)  # logarithms of odds by standard deviation of a score
BLOCKS = (1 / 8, 1 / 4, 1 / 2)  # pages, drawn by lot: the scores are of those before
ORDER_EFFECT = 0.05  # correlation of scores and places
SORTED_PAGES = "slate_order"
ORDER_FACT = "order of the items on a page"
ORDER_ADVICE = (
    "These pages, or some of them, were sorted by a ranking: leave them out, or give "
    "the policy that composed them as logging_policy.",
    "The position is not the one that was shown: the file was sorted, or it tells "
    "another order. Log the position on the page.",
)


def uniform_order_findings(logs):
    r"""Compare the order of the items of a page with random order."""
    # Some pages give each item a score z, by its mean place among the items that were
    # shown: an eighth of the pages tells about the next eighth, both about the next
    # quarter, and these about the other half. Given which m items a page shows, all m!
    # orders have the same probability. So
    #
    # .. math:: f = m! \prod_j e^{b z_j} \Big/ \sum_{k \ge j} e^{b z_k}
    #
    # has mean one, whatever z and b are: the ratio of the probabilities of the observed
    # order under Plackett and Luce's model and under random order. The mean over
    # several b is an e-value. Linear scores of the number of a candidate (files that
    # were sorted by name) and of `item_features` are learned likewise. The e-value is
    # above 10,000 in at most one right log of ten thousand.
    #
    # Pages count whose slots offer the same candidates, up to the last one that is
    # filled; slots that offer none are left out.
    rows = _pages_of_two(logs)
    if len(rows) < FEWEST_PAGES:
        return {ORDER_FACT: "not possible: few pages with two items or more"}, []
    share, group = shares_of_pages(logs, rows)
    items = _Items(logs, rows)
    block = _page_blocks(len(rows), group)
    asked = block > 0
    sources = {
        "the earlier place on other pages": items.learned(block, share),
        "the lower number": items.linear(items.number(), block, share),
    }
    features = _features_shown(logs, rows, items.slate)
    if features is not None:
        told = "the larger score, linear in item_features,"
        sources[told] = items.linear(features, block, share)
    evidence, effects, scores = [], [], list(sources.values())
    for score in scores:
        z, shown = _standard(score[asked], items.shown[asked]), items.shown[asked]
        about = share[asked], None if group is None else group[asked]
        evidence += [
            log_e_value(_order_ratio(z, shown, tilt), *about) for tilt in TILTS
        ]
        effects.append(_correlation(z, items.place[asked], about[0]))
    total = log_mean_exp(evidence)
    best = int(np.argmax(evidence)) // len(TILTS)
    facts = {ORDER_FACT: pages_compared(len(rows), len(logs))}
    if not (total > SURE_OF_PAGES and effects[best] > ORDER_EFFECT):
        return facts, []
    found = (
        f"The items of a page are not in random order ({chance_of(total)}). "
        + items.neighbours(list(sources)[best], scores[best], asked, share)
        + items.worst(share)
    )
    about = found, ORDER_ADVICE, total, effects[best]
    return facts, [propensity_alarm(SORTED_PAGES, *about)]


def _page_blocks(n_pages, group):
    """Return the block of every page; pages of a group are in one."""
    unit = np.arange(n_pages) if group is None else group
    lot = np.random.RandomState(0).random_sample(int(unit.max()) + 1)
    return np.searchsorted(BLOCKS, lot, side="right")[unit]


def _pages_of_two(logs):
    """Return the pages with two items or more whose slots offer the same."""
    shown = logs.slate != EMPTY
    rows = np.flatnonzero(shown.sum(axis=1) > 1)
    most = max(SLOTS_COMPARED // logs.n_slots, FEWEST_PAGES)
    by_slot = logs.offered is not None and logs.offered.ndim > 2
    if by_slot:
        most = max(min(most, MOST_OFFERED_BYTES // logs.offered[0].size), FEWEST_PAGES)
    if len(rows) > most:  # chosen without a look at the order
        rows = np.sort(np.random.RandomState(0).permutation(rows)[:most])
    if not by_slot or not len(rows):
        return rows
    offered, shown = logs.offered[rows], shown[rows]
    first = offered[np.arange(len(rows)), shown.argmax(axis=1)]
    fits = (offered == first[:, None]).all(axis=2) | ~offered.any(axis=2)
    last = logs.n_slots - 1 - shown[:, ::-1].argmax(axis=1)
    return rows[(fits | (np.arange(logs.n_slots) > last[:, None])).all(axis=1)]


class _Items:
    """The items of some pages and their places among those that are shown."""

    def __init__(self, logs, rows):
        self.slate = logs.slate[rows]
        self.shown = self.slate != EMPTY
        self.what = "Candidate" if logs.item_id is None else "Item"
        self.labels, self.code = _item_labels(logs, rows, self.slate)
        self.n_shown = self.shown.sum(axis=1)
        self.order = self.shown.cumsum(axis=1) - 1
        middle = (self.n_shown[:, None] - 1) / 2
        # -1 to 1: pages of two items count as those of ten
        self.place = np.where(self.shown, (self.order - middle) / middle, 0.0)

    def _sum(self, values, which, share):
        """Return the sum of values in slots by item, weighted by page."""
        weighted = np.broadcast_to(values * share[:, None], self.shown.shape)
        chosen = self.shown & which[:, None]
        n_items = len(self.labels)
        return np.bincount(self.code[chosen], weighted[chosen], minlength=n_items)

    def learned(self, block, share):
        """Return scores by slot, of the blocks before: early items have large ones."""
        score = np.zeros(self.shown.shape)
        for one in range(1, len(BLOCKS) + 1):
            total = self._sum(self.place, block < one, share)
            count = self._sum(1.0, block < one, share)
            mean = -total / (count + PRIOR_PLACES)
            told = self.shown & (block == one)[:, None]
            score[told] = mean[self.code[told]]
        return score

    def number(self):
        """Return the number of the candidate of each slot, as its only feature."""
        return self.slate[:, :, None].astype(float)

    def linear(self, values, block, share):
        """Return scores that are linear in features, learned of the blocks before."""
        shown = self.shown[:, :, None]
        mean = np.where(shown, values, 0.0).sum(axis=1) / self.n_shown[:, None]
        centred = np.where(shown, values - mean[:, None], 0.0)
        largest = np.abs(centred).max(axis=(0, 1))
        centred /= np.where(largest > 0, largest, 1.0)  # squares do not overflow
        score = np.zeros(self.shown.shape)
        for one in range(1, len(BLOCKS) + 1):
            X, y = centred[block < one], -self.place[block < one]
            weighted = X * share[block < one, None, None]
            square = np.tensordot(weighted, X, axes=([0, 1], [0, 1]))
            size = np.sqrt(np.diag(square)) + 1e-12
            ridge = square / size / size[:, None] + ORDER_RIDGE * np.eye(len(size))
            slope = np.tensordot(weighted, y, axes=([0, 1], [0, 1])) / size
            told = block == one
            score[told] = centred[told] @ (np.linalg.solve(ridge, slope) / size)
        return score

    def neighbours(self, what, score, which, share):
        """Return a sentence about the order of neighbours on some pages."""
        if what == "the lower number":  # the score tells either direction
            score = -self.slate
        both = self.shown[:, 1:] & self.shown[:, :-1] & which[:, None]
        gap = score[:, :-1] - score[:, 1:]
        weight = np.where(both & (gap != 0), share[:, None], 0.0)
        ahead = float((weight * (gap > 0)).sum() / max(weight.sum(), 1e-300))
        return (
            f"Of two neighbours the candidate with {what} is first in {ahead:.1%} "
            "of pairs, and 50% are expected. "
        )

    def worst(self, share):
        """Return a sentence about the item that is farthest from random order."""
        of_all = np.ones(len(self.shown), dtype=bool)
        count = self._sum(1.0, of_all, share)
        gap = np.abs(self._sum(self.place, of_all, share)) / np.sqrt(
            count + PRIOR_PLACES
        )
        item = int(gap.argmax())
        count = max(count[item], 1e-300)
        middle = (self.n_shown[:, None] + 1) / 2
        found = self._sum(self.order + 1.0, of_all, share)[item] / count
        expected = self._sum(middle, of_all, share)[item] / count
        n_pages = int((self.shown & (self.code == item)).any(axis=1).sum())
        return (
            f"{self.what} {plain(self.labels[item])!r} has place {figure(found, 3)} on "
            f"average (1: the first) on {n_pages:,} pages, and random order gives "
            f"{figure(expected, 3)}."
        )


def _item_labels(logs, rows, slate):
    """Return the labels of items, and the place of each slot's label among them."""
    # Numbers of candidates may stand for other items on every page; labels do not.
    labels = logs.item_id
    if labels is None:
        return range(logs.max_candidates), slate
    if not labels.strides[0]:  # one row of labels stands for all
        return labels[0], slate
    found, values = {}, labels[rows[:, None], slate].ravel().tolist()
    code = np.array([found.setdefault(one, len(found)) for one in values])
    return list(found), code.reshape(slate.shape)


def _features_shown(logs, rows, slate):
    """Return features of what is shown, the first ones of many; None without any."""
    features = logs.item_features
    if features is None or not features.shape[-1]:
        return None
    if features.ndim == 3:
        return features[rows[:, None], slate, :MOST_ITEM_FEATURES]
    if len(features) != logs.max_candidates:  # a catalogue
        slate = logs.item_id[rows[:, None], slate]
    return features[slate, :MOST_ITEM_FEATURES]


def _standard(score, shown):
    """Return scores about the mean of each page, with standard deviation one."""
    mean = score.sum(axis=1) / shown.sum(axis=1)
    centred = np.where(shown, score - mean[:, None], 0.0)
    spread = sqrt(np.square(centred).sum() / max(shown.sum(), 1))
    return centred / spread if spread > 1e-12 else centred * 0.0


def _order_ratio(z, shown, tilt):
    """Return how much likelier scores make the order of each page."""
    utility = tilt * z
    # relative to the largest of a page: then nothing overflows
    utility = utility - np.where(shown, utility, -np.inf).max(axis=1)[:, None]
    odds = np.where(shown, np.exp(np.maximum(utility, -600.0)), 0.0)
    left = np.cumsum(odds[:, ::-1], axis=1)[:, ::-1]
    own = np.maximum(utility, -600.0) - np.log(np.where(shown, left, 1.0))
    found = np.where(shown, own, 0.0).sum(axis=1) + gammaln(shown.sum(axis=1) + 1.0)
    return np.exp(np.minimum(found, log(LARGEST_RATIO)))


def _correlation(z, place, share):
    """Return the correlation of scores and early places within pages."""
    both = float((share[:, None] * z * -place).sum())
    squares = [float((share[:, None] * one**2).sum()) for one in (z, place)]
    return both / sqrt(squares[0] * squares[1]) if min(squares) > 0 else 0.0


# -- the tests of the logger that every value of slates makes --------------------------


def quick_slate_findings(logs, uniform):
    """Return facts and findings of lost rows, and of which items stand where."""
    facts, findings = {}, ended_by_reward_findings(logs)[1]
    for check in (uniform_pair_findings, uniform_order_findings) if uniform else ():
        told, found = check(logs)
        facts, findings = facts | told, findings + found
    return facts, findings

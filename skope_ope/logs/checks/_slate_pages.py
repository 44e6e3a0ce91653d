# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Whether pages show what, and in what order, the logging policy says.

Where every page has its own candidates and these were not passed, the counts of the
candidates may all be right, and the values are wrong all the same. Which of them are
on one page is what tells. Pages that were sorted afterwards show the right items
together, so that the counts of pairs are right, too. Only their places are wrong.
"""

from math import log, sqrt

import numpy as np
from scipy import sparse
from scipy.special import gammaln

from skope_ope.logs._shown_numbers import figure
from skope_ope.logs._validation import EMPTY, column_weights, plain
from skope_ope.logs.checks._evidence import LARGEST_RATIO, log_e_value, log_mean_exp
from skope_ope.logs.checks._finding import propensity_alarm
from skope_ope.logs.checks._propensity_findings import chance_of

MOST_CANDIDATES = 1000  # of which pairs are counted: arrays of 8 MB
MOST_WORK = 2_000_000_000  # multiplications, where pages differ in what they offer
MOST_OFFERED_CELLS = 100_000_000  # candidates by page and slot: 100 MB
FEWEST_PAGES = 30  # pages
PRIOR_PAGES = 0.5  # pages that are added to every count
SURE_OF_PAGES = log(10_000)  # right logs exceed it in one of ten thousand
PAIR_EFFECT = 0.1  # root mean squared, of the expected counts of pairs
PAIR_NAME = "slate_pairs"
PAIR_FACT = "candidates on the same page"
PAIR_ADVICE = (
    "The candidates were not passed, or are those of other pages. If pages differ in "
    "what they can show (the results of a query), pass the candidates of each page: "
    "candidates=... of SlateLogs or SlateLogs.from_frame.",
    "Pages of another logging policy are among these (pages that were not random), or "
    "logging_policy is not the policy that composed these slates.",
)
KEPT_APART = (
    "A rule keeps them apart, such as one item per brand: give the policy with this "
    "rule as logging_policy."
)


def uniform_pair_findings(logs):
    r"""Compare which candidates are on the same page with a uniform logging policy."""
    # Half of the pages tell by how much each pair of candidates is on one page more
    # often than expected, :math:`w_{ab}`. On a page of the other half, let i be the
    # candidates of the slots before, and c(a) the policy's probability of the next one.
    # Then
    #
    # .. math:: f = \sum_i w_{i a} \Big/ \sum_b c(b) \sum_i w_{i b}
    #
    # has mean one, whatever w is, if the logging policy and the candidates are right.
    # The evidence against that is an e-value: it is above 10,000 in at most one right
    # log of ten thousand, for any number of pages and candidates.
    #
    # A single pair among many that is never seen has little weight there. Its chance is
    # at most :math:`e^{-m}` where m pages are expected, and times the number of pairs
    # it bounds that of any such pair.
    n_rounds, n_slots = logs.slate.shape
    if n_slots < 2 or logs.max_candidates < 2 or n_rounds < FEWEST_PAGES:
        return {PAIR_FACT: "not possible: fewer than two slots, or few pages"}, []
    n_kept = min(logs.max_candidates, MOST_CANDIDATES)
    rows, offers = _offers(logs, max(MOST_WORK // n_kept**2, FEWEST_PAGES))
    pages = _Pages(logs, rows, n_kept)
    kept = offers.kinds[:, pages.kept].astype(float)

    def expected(which):
        return offers.together(pages, which, kept)

    weight = pages.learned(expected(pages.first), by_count=False)
    total = weight[:, :-1] @ kept.T  # over all candidates that a page offers
    ratios = _Ratios(len(pages.second))
    code = pages.code[pages.second]
    for slot in range(1, n_slots):
        kind = offers.of[pages.second, slot]
        still, left = offers.still(pages, pages.second, slot)
        before = code[:, :slot]
        mean = total[before, kind[:, None]].sum(axis=1)
        for earlier in range(slot):
            pairs = weight[before, code[:, [earlier]]].sum(axis=1)
            mean -= still[:, earlier] * pairs
        own = weight[before, code[:, [slot]]].sum(axis=1)
        ratios.add(own, mean / np.maximum(left, 1))
    facts, findings = _pair_evidence(pages, ratios.mean(), expected(pages.all))
    return facts, findings or _never_together(pages, offers, kept)


def pair_findings(logs, laws):
    """Compare which candidates are on the same page with any logging policy."""
    # See `uniform_pair_findings`. Here the weights are those that the counts of the
    # candidates do not explain: `slate_counts` is about these.
    n_rounds, n_slots = logs.slate.shape
    if n_slots < 2 or logs.max_candidates < 2 or n_rounds < FEWEST_PAGES:
        return []
    pages = _Pages(logs, np.arange(n_rounds), MOST_CANDIDATES, weighted=False)

    def expected(which):
        found = np.zeros((len(pages.kept), len(pages.kept)))
        for slot in range(1, n_slots):
            before = pages.indicator(which, slot)
            found += before.T @ laws[which, slot][:, pages.kept]
        return found + found.T

    weight = pages.learned(expected(pages.first), by_count=True)
    ratios = _Ratios(len(pages.second))
    code = pages.code[pages.second]
    for slot in range(1, n_slots):
        before = weight[code[:, :slot]].sum(axis=1)
        law = laws[pages.second, slot][:, pages.kept]
        mean = np.einsum("ij,ij->i", law, before[:, :-1])
        ratios.add(before[np.arange(len(code)), code[:, slot]], mean)
    return _pair_evidence(pages, ratios.mean(), expected(pages.all))[1]


def _offers(logs, most):
    """Return the pages that are looked at, and what these offer in every slot."""
    n_rounds, n_slots = logs.slate.shape
    rows, offered = np.arange(n_rounds), logs.offered
    if offered is None:
        kinds = np.ones((1, logs.max_candidates), dtype=bool)
        return rows, _Offers(kinds, np.zeros((n_rounds, 1), dtype=np.intp), n_slots)
    # where that is too much, some pages, chosen without a look at their slates
    drawn = np.random.RandomState(0).permutation(n_rounds)
    fits = max(MOST_OFFERED_CELLS // offered[0].size, FEWEST_PAGES)
    if offered.ndim > 2 and n_rounds > fits:
        rows = np.sort(drawn[:fits])
        offered = offered[rows]
    found = _Offers.of(offered, n_slots)
    if len(found.kinds) > most:
        few = max(most // (n_slots if offered.ndim > 2 else 1), FEWEST_PAGES)
        rows = np.sort(drawn[: min(few, len(rows))])
        found = _Offers.of(logs.offered[rows], n_slots)
    return rows, found


class _Offers:
    """What pages offer in their slots."""

    def __init__(self, kinds, kind, n_slots):
        self.kinds, self.size = kinds, kinds.sum(axis=1)
        self.of = np.broadcast_to(kind, (len(kind), n_slots))
        # a page of s slots: these offer the same candidates, and the others none
        offers = self.size[kind] > 0
        self.is_plain = ((kind == kind[:, :1]) | ~offers).all(axis=1)
        self.is_plain &= (offers[:, 1:] <= offers[:, :-1]).all(axis=1)
        self.n_open = offers.sum(axis=1) * (n_slots // kind.shape[1])

    @classmethod
    def of(cls, offered, n_slots):
        """Return the offers that a mask tells, by candidate or by slot."""
        n_candidates = offered.shape[-1]
        kinds, kind = _distinct_offers(offered.reshape(-1, n_candidates))
        return cls(kinds, kind.reshape(len(offered), -1), n_slots)

    def still(self, pages, which, slot):
        """Return which earlier candidates a slot offers, and how many others."""
        kind, before = self.of[which, slot], pages.slate[which, :slot]
        still = self.kinds[kind[:, None], before] & (before != EMPTY)
        return still, self.size[kind] - still.sum(axis=1)

    def together(self, pages, which, kept):
        """Return on how many of some pages each pair of candidates is expected."""
        # Of pages whose slots offer the same. Of others it is the sum of what is
        # expected of every slot given the slots before it.
        plain = which[self.is_plain[which]]
        kind = self.of[plain, 0]
        size = self.size[kind]
        filled = np.minimum(size, self.n_open[plain])
        chance = filled * (filled - 1) / np.maximum(size * (size - 1.0), 1.0)
        count = np.bincount(kind, chance, minlength=len(self.kinds))
        found = kept.T @ (kept * count[:, None])
        others = which[~self.is_plain[which]]
        if not len(others):
            return found
        given, n_kept = np.zeros(found.shape), kept.shape[1]
        for slot in range(1, self.of.shape[1]):
            still, left = self.still(pages, others, slot)
            code = np.where(still, pages.code[others, :slot], n_kept)
            share = sparse.diags(1 / np.maximum(left, 1))
            before = pages.indicator(others, slot)
            kind = self.of[others, slot]
            at = np.arange(len(others)), kind
            shape = (len(others), len(self.kinds))
            of_kind = sparse.csr_matrix((np.ones(len(others)), at), shape=shape)
            given += (before.T @ share @ of_kind).toarray() @ kept
            shown = indicator(code, n_kept)  # before, and not to be shown again
            given -= (before.T @ share @ shown).toarray()
        return found + given + given.T


class _Pages:
    """Pages in two halves, and how often candidates share them."""

    def __init__(self, logs, rows, most, weighted=True):
        self.logs, self.slate, self.all = logs, logs.slate[rows], np.arange(len(rows))
        self.share, self.group = shares_of_pages(logs, rows, weighted)
        unit = self.all if self.group is None else self.group
        is_first = np.random.RandomState(0).random_sample(int(unit.max()) + 1) < 0.5
        self.first = np.flatnonzero(is_first[unit])
        self.second = np.flatnonzero(~is_first[unit])
        n_candidates = logs.max_candidates
        first = self.slate[self.first]
        count = np.bincount(first[first != EMPTY], minlength=n_candidates)
        self.kept = np.sort(np.argsort(-count, kind="stable")[:most])
        code = np.full(n_candidates + 1, len(self.kept))  # the last: an empty slot
        code[self.kept] = np.arange(len(self.kept))
        self.code = code[self.slate]

    def indicator(self, which, n_slots):
        """Return which of the first slots of some pages show each candidate."""
        return indicator(self.code[which, :n_slots], len(self.kept))

    def together(self, which):
        """Return on how many of some pages each pair of candidates is."""
        shown = self.indicator(which, self.code.shape[1])
        weighted = sparse.diags(self.share[which]) @ shown
        count = (shown.T @ weighted).toarray()
        np.fill_diagonal(count, 0)
        return count

    def learned(self, expected, by_count):
        """Return weights of pairs, by the first half; zero where a slot is empty."""
        np.fill_diagonal(expected, 0)
        count = self.together(self.first)
        if by_count:
            more = (count.sum(axis=1) + 1) / (expected.sum(axis=1) + 1)
            expected = expected * more * more[:, None]
        weight = np.zeros((len(expected) + 1, len(expected) + 1))
        weight[:-1, :-1] = (count + PRIOR_PAGES) / (expected + PRIOR_PAGES)
        np.fill_diagonal(weight, 0)
        return weight


def indicator(code, n_kept):
    """Return which candidates rows of codes hold; the last code is no candidate."""
    page, slot = np.nonzero(code < n_kept)
    shape, ones = (len(code), n_kept), np.ones(len(page))
    return sparse.csr_matrix((ones, (page, code[page, slot])), shape=shape)


class _Ratios:
    """The mean of ratios of every page."""

    def __init__(self, n_pages):
        self.total, self.count = np.zeros((2, n_pages))

    def add(self, own, mean):
        """Add a decision of each page, where anything was to be decided."""
        is_open = mean > 1e-9
        self.total[is_open] += own[is_open] / mean[is_open]
        self.count[is_open] += 1

    def mean(self):
        return np.where(self.count > 0, self.total / np.maximum(self.count, 1), 1.0)


def _pair_evidence(pages, ratio, expected):
    """Return facts and findings of the ratios of the second half."""
    facts = {PAIR_FACT: _pages_looked_at(pages)}
    share, group = pages.share[pages.second], pages.group
    group = None if group is None else group[pages.second]
    evidence = log_e_value(ratio, share, group) if len(ratio) else 0.0
    gain = float(np.average(ratio, weights=share)) - 1 if share.any() else 0.0
    if not (evidence > SURE_OF_PAGES and gain > PAIR_EFFECT**2):
        return facts, []
    np.fill_diagonal(expected, 0)
    count = pages.together(pages.all)
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = np.where(count > 0, count * np.log(count / expected), 0.0)
    gap = np.nan_to_num(gap + expected - count, nan=0.0)
    one, other = np.unravel_index(int(gap.argmax()), gap.shape)
    found = (
        f"{_pair(pages, one, other)} are together on {figure(count[one, other])} of "
        f"{len(pages.all):,} pages, and the logging policy expects "
        f"{figure(expected[one, other])}. Candidates that share some pages share the "
        f"others {figure(gain + 1, 3)} times as often as expected "
        f"({chance_of(evidence)})."
    )
    about = found, PAIR_ADVICE, evidence, sqrt(gain)
    return facts, [propensity_alarm(PAIR_NAME, *about)]


def _never_together(pages, offers, kept):
    """Find pairs that are on no page, though many are expected by a uniform logger."""
    if (pages.share < 1).any():  # which pages were kept may depend on their slates
        return []
    rows = pages.all
    if pages.group is not None:  # pages of a group may be alike: one of each counts
        rows = np.unique(pages.group, return_index=True)[1]
    # of others the expected count depends on the slates
    expected = offers.together(pages, rows[offers.is_plain[rows]], kept)
    np.fill_diagonal(expected, 0)
    n_candidates = pages.logs.max_candidates
    bound = log(n_candidates * (n_candidates - 1) / 2)
    likely = expected > bound + SURE_OF_PAGES
    if not likely.any():
        return []
    never = likely & (pages.together(pages.all) == 0)
    if not never.any():
        return []
    many = np.where(never, expected, 0)
    one, other = np.unravel_index(int(many.argmax()), many.shape)
    evidence = float(many.max()) - bound
    n_pairs = int(never.sum()) // 2
    counted = "" if n_pairs == 1 else f" There are {n_pairs:,} such pairs."
    chance = f"1e-{min(int(evidence / log(10)), 12)}"
    found = (
        f"{_pair(pages, one, other)} are never on one page of {len(pages.all):,}, and "
        f"the logging policy expects {figure(many.max())} (probability below {chance} "
        f"if the log is right).{counted} The log does not tell the value of pages with "
        "both."
    )
    about = found, (KEPT_APART, *PAIR_ADVICE), evidence, 1.0
    return [propensity_alarm(PAIR_NAME, *about, severity="warning")]


def _pages_looked_at(pages):
    told = pages_compared(len(pages.all), len(pages.logs))
    n_kept, n = len(pages.kept), pages.logs.max_candidates
    return told + f", the {n_kept:,} most frequent of {n:,} candidates" * (n_kept < n)


def pages_compared(n_pages, n_all):
    """Say how many pages are compared, and of how many where these are not all."""
    return f"{n_pages:,} pages{f' of {n_all:,}' * (n_pages < n_all)} compared"


def _pair(pages, one, other):
    """Return what messages call two candidates: their labels, where these are few."""
    numbers, labels = pages.kept[[one, other]], pages.logs.item_id
    if labels is None or (labels[:, numbers] != labels[0, numbers]).any():
        return f"Candidates {numbers[0]} and {numbers[1]}"
    first, second = (plain(label) for label in labels[0, numbers])
    return f"Items {first!r} and {second!r}"


def _distinct_offers(offered):
    """Return the kinds of pages by what they offer, and the kind of every page."""
    bits = np.ascontiguousarray(np.packbits(offered, axis=1))
    rows = bits.view(f"V{bits.shape[1]}")[:, 0]
    _, first, kind = np.unique(rows, return_index=True, return_inverse=True)
    return offered[first], kind.reshape(-1)


# -- what a bet on pages needs beside its ratios ---------------------------------------


def shares_of_pages(logs, rows, weighted=True):
    """Return the shares and the groups of pages, as `log_e_value` takes them."""
    share = np.ones(len(rows))
    weight = column_weights(logs) if weighted else None
    if weight is not None and weight[rows].any():
        share = weight[rows] / weight[rows].max()
    return share, None if logs.group is None else logs.group_index[rows]


# -- the order of the items of a page, random where the logger is uniform --------------

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

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Whether candidates stand on the same pages as often as the logging policy says.

Where every page has its own candidates and these were not passed, the counts of the
candidates may all be right, and the values are wrong all the same. Which of them are
on one page is what tells.
"""

from math import log, sqrt

import numpy as np
from scipy import sparse

from skope_ope.exceptions import PropensityWarning
from skope_ope.logs._shown_numbers import figure
from skope_ope.logs._slate_fields import EMPTY
from skope_ope.logs._slate_logs import column_weights
from skope_ope.logs._validation import plain
from skope_ope.logs.checks._e_value import log_e_value
from skope_ope.logs.checks._finding import Finding
from skope_ope.logs.checks._propensity_findings import power_of_ten

MOST_CANDIDATES = 1000  # of which pairs are counted: arrays of 8 MB
MOST_WORK = 2_000_000_000  # multiplications, where pages differ in what they offer
FEWEST = 30  # pages
PRIOR = 0.5  # pages that are added to every count
SURE = log(10_000)  # right logs exceed it in one of ten thousand
EFFECT = 0.1  # root mean squared, of the expected counts of pairs
NAME = "slate_pairs"
WHAT = "candidates on the same page"
ADVICE = (
    "The candidates were not passed, or are those of other pages. If pages differ in "
    "what they can show (the results of a query), pass the candidates of each page: "
    "candidates=... of SlateLogs or SlateLogs.from_frame.",
    "Pages of another logging policy are among these (pages that were not random), or "
    "logging_policy is not the policy that composed these slates.",
)


def uniform_pair_findings(logs):
    r"""Compare which candidates are on the same page with a uniform logging policy.

    Half of the pages tell by how much each pair of candidates is on one page more
    often than expected, :math:`w_{ab}`. On a page of the other half, let i be the
    candidates of the slots before, and c(a) the policy's probability of the next one.
    Then

    .. math:: f = \sum_i w_{i a} \Big/ \sum_b c(b) \sum_i w_{i b}

    has mean one, whatever w is, if the logging policy and the candidates are right.
    The evidence against that is an e-value: it is above 10,000 in at most one right
    log of ten thousand, for any number of pages and candidates.

    Parameters
    ----------
    logs : SlateLogs
        The rounds.

    Returns
    -------
    facts : dict
        What could be compared.
    findings : list of Finding
    """
    if not is_uniform(logs):
        return {}, []
    offered = logs.offered
    n_rounds, n_slots = logs.slate.shape
    if n_slots < 2 or logs.max_candidates < 2 or n_rounds < FEWEST:
        return {WHAT: "not possible: fewer than two slots, or few pages"}, []
    rows = np.arange(n_rounds)
    kind, kinds = np.zeros(n_rounds, dtype=np.intp), None
    n_kept = min(logs.max_candidates, MOST_CANDIDATES)
    if offered is not None:
        kinds, kind = _distinct(offered)
        most = max(MOST_WORK // n_kept**2, FEWEST)
        if len(kinds) > most:  # some pages, chosen without a look at their slates
            rows = np.sort(np.random.RandomState(0).permutation(n_rounds)[:most])
            kinds, kind = _distinct(offered[rows])
    else:
        kinds = np.ones((1, logs.max_candidates), dtype=bool)
    pages = _Pages(logs, rows, n_kept)
    size = kinds.sum(axis=1)  # candidates of a kind of page
    kept = kinds[:, pages.kept].astype(float)
    filled = np.minimum(size, n_slots)
    chance = filled * (filled - 1) / np.maximum(size * (size - 1.0), 1.0)

    def expected(which):
        count = np.bincount(kind[which], minlength=len(kinds)) * chance
        return kept.T @ (kept * count[:, None])

    weight = pages.learned(expected(pages.first), by_count=False)
    total = weight[:, :-1] @ kept.T  # over all candidates that a page offers
    ratios = _Ratios(len(pages.second))
    code, of = pages.code[pages.second], kind[pages.second]
    shown = pages.slate[pages.second] != EMPTY
    for slot in range(1, n_slots):
        left = size[of] - shown[:, :slot].sum(axis=1)
        before = code[:, :slot]
        mean = total[before, of[:, None]].sum(axis=1)
        for earlier in range(slot):
            mean -= weight[before, code[:, [earlier]]].sum(axis=1)
        own = weight[before, code[:, [slot]]].sum(axis=1)
        ratios.add(own, mean / np.maximum(left, 1))
    return _told(pages, ratios.mean(), expected(pages.all))


def pair_findings(logs, laws):
    """Compare which candidates are on the same page with any logging policy.

    See `uniform_pair_findings`. Here the weights are those that the counts of the
    candidates do not explain: `slate_counts` is about these.

    Parameters
    ----------
    logs : SlateLogs
        Independent rounds.
    laws : ndarray of shape (n_rounds, n_slots, n_candidates + 1)
        The law of every slot given the slots before it.

    Returns
    -------
    findings : list of Finding
    """
    n_rounds, n_slots = logs.slate.shape
    if n_slots < 2 or logs.max_candidates < 2 or n_rounds < FEWEST:
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
    return _told(pages, ratios.mean(), expected(pages.all))[1]


def is_uniform(logs):
    """Tell whether the logging policy shows all orders alike, in every slot."""
    policy, offered = logs.logging_policy, logs.offered
    if not hasattr(policy, "closed_form") or (offered is not None and offered.ndim > 2):
        return False
    return policy.closed_form(logs) == "uniform"


class _Pages:
    """Pages in two halves, and how often candidates share them.

    Parameters
    ----------
    logs : SlateLogs
        The rounds.
    rows : ndarray of int of shape (n_pages,)
        Those that are looked at.
    most : int
        How many candidates are looked at: the most frequent ones of the first half.
    weighted : bool, default=True
        Whether sample weights count.
    """

    def __init__(self, logs, rows, most, weighted=True):
        self.logs, self.slate, self.all = logs, logs.slate[rows], np.arange(len(rows))
        weight = column_weights(logs) if weighted else None
        self.share = np.ones(len(rows))
        if weight is not None and weight[rows].any():
            self.share = weight[rows] / weight[rows].max()
        self.group = None if logs.group is None else logs.group_index[rows]
        unit = self.all if self.group is None else self.group
        is_first = np.random.RandomState(0).random_sample(int(unit.max()) + 1) < 0.5
        self.first, self.second = (
            np.flatnonzero(half) for half in (is_first[unit], ~is_first[unit])
        )
        n_candidates = logs.max_candidates
        first = self.slate[self.first]
        count = np.bincount(first[first != EMPTY], minlength=n_candidates)
        self.kept = np.sort(np.argsort(-count, kind="stable")[:most])
        code = np.full(n_candidates + 1, len(self.kept))  # the last: an empty slot
        code[self.kept] = np.arange(len(self.kept))
        self.code = code[self.slate]

    def indicator(self, which, n_slots):
        """Return which of the first slots of some pages show each candidate."""
        code = self.code[which, :n_slots]
        page, slot = np.nonzero(code < len(self.kept))
        shape = (len(code), len(self.kept))
        ones = np.ones(len(page))
        return sparse.csr_matrix((ones, (page, code[page, slot])), shape=shape)

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
        weight[:-1, :-1] = (count + PRIOR) / (expected + PRIOR)
        np.fill_diagonal(weight, 0)
        return weight


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


def _told(pages, ratio, expected):
    """Return facts and findings of the ratios of the second half."""
    facts = {WHAT: _compared(pages)}
    share, group = pages.share[pages.second], pages.group
    group = None if group is None else group[pages.second]
    evidence = log_e_value(ratio, share, group) if len(ratio) else 0.0
    gain = float(np.average(ratio, weights=share)) - 1 if share.any() else 0.0
    if not (evidence > SURE and gain > EFFECT**2):
        return facts, []
    np.fill_diagonal(expected, 0)
    count = pages.together(pages.all)
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = np.where(count > 0, count * np.log(count / expected), 0.0)
    gap = np.nan_to_num(gap + expected - count, nan=0.0)
    one, other = np.unravel_index(int(gap.argmax()), gap.shape)
    found = (
        f"{_names(pages, one, other)} are together on {figure(count[one, other])} of "
        f"{len(pages.all):,} pages, and the logging policy expects "
        f"{figure(expected[one, other])}. Candidates that share some pages share the "
        f"others {figure(gain + 1, 3)} times as often as expected (e-value "
        f"{power_of_ten(evidence)})."
    )
    about = {"number": evidence, "effect": sqrt(gain), "category": PropensityWarning}
    return facts, [Finding(NAME, "error", found, ADVICE, **about)]


def _compared(pages):
    told, n_candidates = f"{len(pages.all):,} pages", pages.logs.max_candidates
    if len(pages.all) < len(pages.logs):
        told += f" of {len(pages.logs):,}"
    told += " compared"
    if len(pages.kept) < n_candidates:
        told += (
            f", the {len(pages.kept):,} most frequent of {n_candidates:,} candidates"
        )
    return told


def _names(pages, one, other):
    """Return what messages call two candidates: their labels, where these are few."""
    numbers, labels = pages.kept[[one, other]], pages.logs.item_id
    if labels is None or (labels[:, numbers] != labels[0, numbers]).any():
        return f"Candidates {numbers[0]} and {numbers[1]}"
    first, second = (plain(label) for label in labels[0, numbers])
    return f"Items {first!r} and {second!r}"


def _distinct(offered):
    """Return the kinds of pages by what they offer, and the kind of every page."""
    bits = np.ascontiguousarray(np.packbits(offered, axis=1))
    rows = bits.view(f"V{bits.shape[1]}")[:, 0]
    _, first, kind = np.unique(rows, return_index=True, return_inverse=True)
    return offered[first], kind.reshape(-1)

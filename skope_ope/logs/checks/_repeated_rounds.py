# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Rounds that stand in a log more than once, beyond what independent draws explain."""

import numpy as np

from skope_ope.exceptions import LogsWarning
from skope_ope.logs._known_rows import column_words, combined, done_words
from skope_ope.logs._labels import first_alike
from skope_ope.logs._row_container import own
from skope_ope.logs._shown_numbers import figure
from skope_ope.logs.checks._finding import Finding
from skope_ope.logs.checks._propensity_findings import (
    ROWS_OF_PAGES,
    quick_propensity_findings,
)
from skope_ope.logs.checks._propensity_fit import fitted_propensity_findings

REPEATS_Z = 5
HIGH_SHARE = 0.02  # of the rounds
LEAST_REPEATS = 10  # repeats beyond chance
MANY_COPIES = (
    0.1  # copies in all fields: with more, halves of the log share too many rounds
)
DETECTABLE = 0.2  # copies of this share should be seen, or the facts say they cannot
AGREE = 0.99  # share of like choices with one probability, where one logger made them
HARDLY_ELSE = 0.9  # of the rounds whose context came before
MOST_COMPARED = 200_000  # rounds that are looked at, with all others of their contexts
_FIRST_BITS = np.uint64(64 - 12)


def repeated_findings(logs, random_state=None):
    r"""Look for rounds that are copies of others."""
    # Under independent draws the action of a round is one of those that were logged
    # before in its context (and by its logger) with probability
    #
    # .. math:: Q_j = \sum_{a \in A_j} \mu(a | x_j), \qquad
    #           A_j = \{a_i : i < j, x_i = x_j\},
    #
    # so that the number of repeats less the sum of :math:`Q_j` is a martingale with
    # variance :math:`\sum_j Q_j (1 - Q_j)`. Where contexts are few and discrete, all
    # actions have been seen and :math:`Q_j` is one: nothing can be told. Rounds of a
    # group may depend on each other: only those at the same time are compared.
    rows = _rows_of_some_contexts(logs._context_words)
    situation, choice, whole = _round_words(logs, rows)
    copies = np.flatnonzero(first_alike(whole) < np.arange(len(rows)))
    facts = {"rounds equal to an earlier one in all fields": len(copies) / len(rows)}
    p = _chances(logs, rows)
    if isinstance(p, str):
        facts["repeated choices"] = f"not possible: {p}"
        return facts, _unexplained(situation, whole, copies, rows, p, logs)
    test = _Repeats(situation, choice, p)
    facts["repeated choices"] = test.told(_beside_context(logs))
    if test.is_alarm:
        wrong = _misfits(logs, rows, whole)
        found = (
            _misled(test, rows) if wrong else _repeats_finding(test, whole, rows, logs)
        )
        return facts, [found]
    if not test.open.any():
        why = "no other choice was possible there"
        return facts, _unexplained(situation, whole, copies, rows, why, logs)
    return facts, []


class _Repeats:
    """Rounds whose choice was made before in their situation, against their chances."""

    def __init__(self, situation, choice, p):
        self.first = first_alike(choice)
        self.repeats = self.first < np.arange(len(p))
        like = np.abs(p - p[self.first])[self.repeats] <= 1e-6
        self.one_logger = not like.size or like.mean() >= AGREE
        # what the first rounds of all earlier choices add up to
        new = np.where(self.repeats, 0.0, p)
        chance = np.zeros(len(p))
        self.again = first_alike(situation) < np.arange(len(p))
        if self.again.any():
            order, starts, sizes = _rows_by_word(situation)
            before = np.cumsum(new[order]) - new[order]
            chance[order] = before - np.repeat(before[starts], sizes)
        # sums of rounded probabilities are not exactly one
        self.open = self.again & (chance < 1 - 1e-6)
        chance = np.clip(chance[self.open], 0.0, 1.0)
        self.n_repeats = int(self.repeats[self.open].sum())
        self.expected = float(chance.sum())
        self.excess = self.n_repeats - self.expected
        self.deviation = float(np.sqrt((chance * (1 - chance)).sum()))
        self.z = self.excess / self.deviation if self.deviation else np.nan
        # a copy repeats for certain what an independent round repeats by chance
        self.surprise = float((1 - chance).sum())
        copies = self.excess / self.surprise * len(chance) if len(chance) else 0.0
        self.share = copies / len(p)

    @property
    def is_alarm(self):
        """Whether there are more repeats than chance explains."""
        beyond = self.z > REPEATS_Z and self.excess > LEAST_REPEATS
        return bool(self.one_logger and beyond and self.share > HIGH_SHARE)

    def told(self, where):
        """Return the fact about the test, with what a situation is beside a context."""
        if not self.again.any():
            return f"no context occurs twice{where}"
        if not self.open.any() and self.again.mean() <= 0.5:
            return "not possible: no choice was left where a context occurs again"
        if not self.one_logger:
            return (
                "not possible: the propensities of the same action in the same context "
                "differ, as those of a logger that learns do"
            )
        seen = DETECTABLE * self.surprise > REPEATS_Z * max(self.deviation, 1)
        if self.again.mean() > 0.5 and not seen:
            return (
                "not possible: the contexts are few and discrete; copies look like "
                "independent rounds"
            )
        return (
            f"{self.n_repeats:,} repeats of an action in its context, "
            f"{figure(self.expected)} expected"
        )


def _beside_context(logs):
    """Return what is alike in a situation but the context, as a text."""
    at_once = "" if logs.group is None else " in a group at one time"
    logger = "" if getattr(logs, "logger", None) is None else " for one logger"
    return at_once + logger


def _misfits(logs, rows, whole):
    """Whether the propensities are wrong, whatever the copies do to the tests."""
    # Copies make chance look like evidence; without them, rounds that are alike by
    # chance are missing. Wrong propensities show in both.
    if not hasattr(logs, "action_index"):
        return False  # of slates nothing else is tested
    distinct = rows[first_alike(whole) == np.arange(len(rows))]
    tests = quick_propensity_findings, fitted_propensity_findings
    return all(
        any(one.is_alarm for test in tests for one in test(part)[1])
        for part in (logs, logs[distinct])
    )


def _misled(test, rows):
    """Return a note where the wrong propensities explain the repeats."""
    found = (
        f"{test.n_repeats:,} of {len(rows):,} rounds looked at repeat what was done "
        "before in the same context, where the propensities predict "
        f"{figure(test.expected)}. But these do not fit the logged actions, so that "
        "whether there are copies cannot be told."
    )
    advice = "Correct the propensities, and audit the log again."
    about = float(test.z), float(test.share)
    return Finding(
        "repeated_rounds", "note", found, advice, *about, category=LogsWarning
    )


def _repeats_finding(test, whole, rows, logs):
    """Return what was found, and what to do, the likely cause first."""
    repeats = np.flatnonzero(test.open & test.repeats)
    same = whole[repeats] == whole[test.first[repeats]]
    advice = [
        "The same rounds were logged or joined twice: drop the copies, before any "
        "split. Standard errors and reward models take them for independent rounds.",
        "One draw of the logger served several rounds: pass group=..., the user or the "
        "session, or keep one round of each draw.",
    ]
    if same.mean() < 0.5:
        advice.reverse()
    # copies lie in both halves of a split: a policy is valued on rounds it learned from
    hardly_else = same.sum() >= HARDLY_ELSE * test.again.sum()
    many = hardly_else and same.sum() >= MANY_COPIES * len(rows)
    if hasattr(logs, "action_index"):
        advice.append(ROWS_OF_PAGES)
    shown = (repeats[same] if same.any() else repeats)[:5]
    pairs = np.column_stack([rows[test.first[shown]], rows[shown]])
    alike = "None of them equals an earlier round in all fields."
    if same.any():
        alike = f"{int(same.sum()):,} of them equal an earlier round in all fields, "
        alike += f"as row {_equals(logs, pairs)}."
    return Finding(
        "repeated_rounds",
        "error" if many else "warning",
        f"{test.n_repeats:,} of {len(rows):,} rounds looked at repeat what was done "
        "before in the same context, where independent draws would give "
        f"{figure(test.expected)} ({test.z:+,.1f} standard errors), as if "
        f"{test.share:.0%} of all rounds were copies. {alike}",
        advice,
        float(test.z),
        float(test.share),
        pairs.ravel().tolist(),
        category=LogsWarning,
    )


def _equals(logs, pairs):
    """Say of the first pair that its rows are equal, as messages call them."""
    first, again = logs._called(pairs[0])
    return f"{again} equals row {first}"


def _unexplained(situation, whole, copies, rows, why, logs):
    """Return a note where contexts come back with all other fields or not at all."""
    again = np.flatnonzero(first_alike(situation) < np.arange(len(rows)))
    many = len(copies) > max(LEAST_REPEATS, HIGH_SHARE * len(rows))
    varied = len(again) < 0.9 * len(rows)
    if not (many and varied and len(copies) >= AGREE * len(again)):
        return []
    first = first_alike(whole)[copies[:5]]
    pairs = np.column_stack([rows[first], rows[copies[:5]]])
    share = len(copies) / len(rows)
    found = (
        f"{share:.1%} of the rounds equal an earlier one in all fields, as row "
        f"{_equals(logs, pairs)}, and hardly a context comes back with anything else. "
        f"Whether they are copies cannot be tested: {why}."
    )
    advice = "Drop them if they were logged or joined twice."
    about = {"rows": pairs.ravel().tolist(), "effect": share, "category": LogsWarning}
    return [Finding("repeated_rounds", "note", found, advice, **about)]


def _chances(logs, rows):
    """Return the probability of what was done in these rows, or why it is not known."""
    if logs.group is not None and logs.timestamp is None:
        return (
            "rounds of a group may repeat a choice, and without timestamps copies look "
            "alike; pass timestamp=... if you have it"
        )
    if _are_estimates(logs):
        return "the propensities are estimates"
    if logs.propensity is not None:
        return logs.propensity[rows]
    policy = getattr(logs, "logging_policy", None)
    if policy is None:
        return "there are no propensities"
    some = logs if len(rows) == len(logs) else logs[rows]
    return policy.slate_proba(own(some, policy), some.slate)


def _are_estimates(logs):
    return getattr(logs, "propensity_estimated", False)


def _rows_of_some_contexts(words):
    """Return the rows of all contexts, or of enough of them, in the stored order."""
    if len(words) <= MOST_COMPARED:
        return np.arange(len(words))
    first_bits = (words >> _FIRST_BITS).view(np.int64)  # counting beats partitioning
    up_to = np.bincount(first_bits).cumsum()
    at = np.searchsorted(up_to, MOST_COMPARED, side="right")
    close = words[first_bits == at]
    place = MOST_COMPARED - (up_to[at] - len(close))
    return np.flatnonzero(words <= np.partition(close, place)[place])


def _round_words(logs, rows):
    """Return words for the situation, with what was done in it, and for all fields."""
    whole = [done_words(logs)[rows], column_words(logs.reward[rows])]
    parts = [logs._context_words[rows]]
    for name in ("group", "logger", "timestamp", "propensity"):
        values = getattr(logs, name, None)
        estimated = name == "propensity" and _are_estimates(logs)  # fold by fold
        if values is None or estimated:
            continue
        words = column_words(values[rows])
        whole.append(words)
        at_once = name == "timestamp" and logs.group is not None
        if name in ("group", "logger") or at_once:
            parts.append(words)
    situation = combined(parts)
    choice = combined([situation, whole[0]])
    return situation, choice, combined([choice, *whole[1:]])


def _rows_by_word(words):
    """Return the order of the rows by word, and where every word starts, how often."""
    order = np.argsort(words, kind="stable")
    ordered = words[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    return order, starts, np.diff(np.append(starts, len(order)))

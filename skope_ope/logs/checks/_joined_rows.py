# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Rows that a join has repeated, or shifted against each other.

Rounds that are in a log more often than independent draws explain, and contexts that
have slid by a row: another row's context explains what was done.
"""

from math import sqrt

import numpy as np
from scipy.stats import hypergeom, poisson
from sklearn.utils import check_random_state

from skope_ope.exceptions import LogsWarning
from skope_ope.logs._known_rows import column_words, combined, done_words
from skope_ope.logs._labels import first_alike
from skope_ope.logs._row_container import in_stored_order, own
from skope_ope.logs._shown_numbers import figure
from skope_ope.logs.checks._context_columns import context_columns
from skope_ope.logs.checks._finding import Finding
from skope_ope.logs.checks._leaks import predicted_by_halves
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
FEWEST_COPIES, SHARE_OF_COPIES, MANY_AT_ONE_TIME = 3, 0.002, 0.05  # with their times
HARDLY_CHANCE, REWARDED_SHARE = 1e-6, 0.01  # of copies that mostly have a reward
USUAL_COPIES = 3  # most rounds alike where a join has repeated some
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
    told, found = _repeated_choices(logs, rows, situation, choice, whole, copies)
    facts["repeated choices"] = told
    clear = _are_no_chance(logs, rows, situation, copies)
    certain = _rewarded_twice(logs, rows, whole, copies, clear, found)
    if not certain and clear:
        certain = _at_one_time(logs, rows, whole, copies)
    worst = [one for one in (*certain, *found) if one.is_alarm]
    worst.sort(key=lambda one: one.severity)  # an error comes first
    return facts, worst[:1] or found


def _repeated_choices(logs, rows, situation, choice, whole, copies):
    """Return the fact and what is found where actions repeat beyond chance."""
    p = _chances(logs, rows)
    if isinstance(p, str):
        found = _unexplained(situation, whole, copies, rows, p, logs)
        return f"not possible: {p}", found
    test = _Repeats(situation, choice, p)
    where = "" if logs.group is None else " in a group at one time"
    where += "" if getattr(logs, "logger", None) is None else " for one logger"
    told, found = test.told(where), []
    if test.is_alarm:
        wrong = _misfits(logs, rows, whole)
        found = [
            _misled(test, rows) if wrong else _repeats_finding(test, whole, rows, logs)
        ]
    elif not test.open.any():
        why = "no other choice was possible there"
        found = _unexplained(situation, whole, copies, rows, why, logs)
    return told, found


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
            order = np.argsort(situation, kind="stable")
            ordered = situation[order]
            starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
            sizes = np.diff(np.append(starts, len(order)))
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
    found = (
        f"{test.n_repeats:,} of {len(rows):,} rounds looked at repeat what was done "
        "before in the same context, where independent draws would give "
        f"{figure(test.expected)} ({test.z:+,.1f} standard errors), as if "
        f"{test.share:.0%} of all rounds were copies. {alike}"
    )
    about = {"number": float(test.z), "effect": float(test.share)}
    about |= {"rows": pairs.ravel().tolist(), "category": LogsWarning}
    return Finding(
        "repeated_rounds", "error" if many else "warning", found, advice, **about
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


def _are_no_chance(logs, rows, situation, copies):
    """Tell whether rounds that are equal in all fields are copies for certain."""
    # Rounds of few contexts are alike by chance: then as many differ, at one time too.
    n, n_copies, time = len(rows), len(copies), logs.timestamp
    if n_copies < FEWEST_COPIES or n_copies <= SHARE_OF_COPIES * n:
        return False
    parts = logs._context_words[rows], done_words(logs)[rows]
    alike = combined([*parts, column_words(logs.reward[rows])])
    if time is None:
        counts = np.unique(alike, return_counts=True)[1]
        if np.median(counts[counts > 1]) > USUAL_COPIES:
            return False
    else:
        words = column_words(time[rows])
        n_times = len(np.unique(words))
        counts = np.unique(np.delete(alike, copies), return_counts=True)[1]
        like = float(counts @ (counts - 1.0)) / (n - n_copies) ** 2
        # of rounds at one time: those that differ tell how many are alike by chance
        by_chance = (n - n_times - n_copies + 1) * like / max(1 - like, 1 / n)
        beyond = poisson.sf(n_copies - 1, 2 * by_chance) < HARDLY_CHANCE
        if n_times <= n / 2 or not beyond:
            return False
        situation = combined([situation, words])
    tied = n - len(np.unique(situation))
    return n_copies >= HARDLY_ELSE * tied


def _rewarded_twice(logs, rows, whole, copies, clear, found):
    """Find copies of rounds with a reward in particular, as of a join of feedback."""
    n, share = len(rows), len(copies) / len(rows)
    if not (share > REWARDED_SHARE and (clear or any(one.is_alarm for one in found))):
        return []
    rewarded = logs.reward[rows] != 0
    n_copies, total = int(rewarded[copies].sum()), int(rewarded.sum())
    chance = hypergeom.sf(n_copies - 1, n, total, len(copies))
    if not chance < HARDLY_CHANCE:
        return []
    text = (
        f"{share:.1%} of the rounds equal an earlier one in all fields, and "
        f"{n_copies / len(copies):.0%} of these have a reward, of the others "
        f"{(total - n_copies) / (n - len(copies)):.1%}: rounds with a reward are "
        "counted twice."
    )
    advice = (
        "Positive feedback was joined or appended twice: drop the copies. They raise "
        "the value of every policy."
    )
    return [_copies_finding("error", text, advice, rows, whole, copies, float(chance))]


def _at_one_time(logs, rows, whole, copies):
    """Find copies whose timestamps are equal, too, where times tell rounds apart."""
    if logs.timestamp is None:
        return []
    share = len(copies) / len(rows)
    text = (
        f"{len(copies):,} of {len(rows):,} rounds equal an earlier one in all fields, "
        "their timestamps included, and hardly a round differs from another of its "
        "time and context."
    )
    advice = (
        "The same rounds were logged or joined twice: drop the copies, before any "
        "split. Standard errors and reward models take them for independent rounds."
    )
    severity = "error" if share >= MANY_AT_ONE_TIME else "warning"
    return [_copies_finding(severity, text, advice, rows, whole, copies, len(copies))]


def _copies_finding(severity, text, advice, rows, whole, copies, number):
    first = first_alike(whole)[copies[:5]]
    pairs = np.column_stack([rows[first], rows[copies[:5]]])
    about = {"rows": pairs.ravel().tolist(), "category": LogsWarning}
    about |= {"number": number, "effect": len(copies) / len(rows)}
    return Finding("repeated_rounds", severity, text, advice, **about)


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


# -- contexts that have slid by a row --------------------------------------------------

ROWS_IN_BLOCK, MOST_BLOCKS = 1000, 10  # consecutive rows
FEWEST_BETWEEN = 100
NEIGHBOURS = 50  # consecutive rows of one half: neighbours are in the same one
FEW_COLUMNS = 50
MOST_TARGETS = 5  # frequent actions
FEW_OF_ACTION = 50
FREQUENT_LEVELS = 5
PENALTY = 10.0  # rounds
LEAST_VARIATION = 1e-9  # variance of what is the same in all rounds
OTHER_ROWS = {-1: "before", 1: "after"}
SHIFT_Z = 6.0
LEAST_GAIN = 0.02  # of the variance that is to be explained


def shift_findings(logs, random_state=0):
    """Return a finding where the context of a neighbour fits a round better."""
    # The propensity of an action is a function of its context; where it is not known,
    # the action follows the context. Least squares on one half of the rounds predict
    # the other half, with a round's own context and with those of the rows before and
    # after it. Rounds whose contexts depend on each other cause no alarm: a neighbour
    # then tells something, but no more than a round's own context does.
    logs = in_stored_order(logs)
    rows = _consecutive_rows(len(logs), random_state)
    own = _between_neighbours(logs._position, rows)
    known = logs.propensity is not None and not logs.propensity_estimated
    X = _squared_columns(logs.context, rows)
    if len(own) < FEWEST_BETWEEN or X is None:
        return {}, []
    action = logs.action_index[rows[own]]
    losses = by_action = _losses_of_actions(X, own, action)
    if known:
        losses = _losses_of_propensities(X, own, action, logs.propensity[rows[own]])
    best = max(OTHER_ROWS, key=lambda side: _gain(losses, side)[0])
    gain, z = _gain(losses, best)
    if not (gain > LEAST_GAIN and z > SHIFT_Z):
        return {}, []
    own_fits = (
        known and _gain({best: by_action[0], 0: by_action[best]}, best)[1] > SHIFT_Z
    )
    return {}, [_shift_finding(OTHER_ROWS[best], gain, z, known, own_fits)]


def _shift_finding(side, gain, z, known, own_fits):
    what = "propensities" if known else "actions"
    found = (
        f"The {what} follow from the context of the row {side}, not of the same row. "
        f"It explains {gain:.1%} more of their variance ({z:,.1f} standard errors, on "
        "rounds that the model did not see)."
    )
    advice = [
        "The contexts are shifted by a row against the rest of the log, by a join or a "
        "lag. Join them by a key, not by their position."
    ]
    severity = "error" if known else "warning"
    if own_fits:
        advice = (
            "The propensities are shifted by a row, because the actions follow from "
            "the contexts of the same rows. Join the propensities by a key."
        )
    elif not known and side == "after":  # which contexts that tell of the past do, too
        severity = "note"
        advice.append(
            "Columns record what was done in the row before: then this is no fault."
        )
    about = {"number": z, "effect": gain, "category": LogsWarning}
    return Finding("shifted_context", severity, found, advice, **about)


def _consecutive_rows(n_rounds, random_state):
    """Return all rows, or blocks of consecutive ones at random."""
    if n_rounds <= ROWS_IN_BLOCK * MOST_BLOCKS:
        return np.arange(n_rounds)
    random = check_random_state(random_state)
    starts = np.sort(
        random.choice(n_rounds // ROWS_IN_BLOCK, MOST_BLOCKS, replace=False)
    )
    return (starts[:, None] * ROWS_IN_BLOCK + np.arange(ROWS_IN_BLOCK)).ravel()


def _between_neighbours(position, rows):
    """Return where in `rows` both neighbours stood next to the round in the log."""
    position = position[rows] if isinstance(position, np.ndarray) else rows
    step = np.diff(position) == 1
    return 1 + np.flatnonzero(step[1:] & step[:-1])


def _squared_columns(context, rows):
    """Return standardised numbers and their squares, and the frequent categories."""
    parts = []
    for column in context_columns(context, rows)[:FEW_COLUMNS]:
        if column.categorical:
            parts.append(column.values[:, None] == np.arange(FREQUENT_LEVELS))
            continue
        known = np.isfinite(column.values)
        if not known.any():
            continue
        values = column.values / (np.abs(column.values[known]).max() or 1.0)
        level, spread = values[known].mean(), values[known].std()
        if spread > 0:
            z = np.clip((np.where(known, values, level) - level) / spread, -4, 4)
            parts.append(np.column_stack([z, z * z]))
        if not known.all():
            parts.append(known[:, None])
    return np.concatenate(parts, axis=1, dtype=float) if parts else None


def _losses_of_actions(X, own, action):
    counts = np.bincount(action)
    frequent = np.argsort(-counts, kind="stable")[:MOST_TARGETS]
    taken = (action[:, None] == frequent[counts[frequent] >= FEW_OF_ACTION]) * 1.0
    return _losses(X, own, taken)


def _losses_of_propensities(X, own, action, propensity):
    """Losses of the logarithms of propensities, for the frequent actions apart."""
    counts = np.bincount(action)
    frequent = np.argsort(-counts, kind="stable")[:MOST_TARGETS]
    parts = [
        _losses(X, own[chosen], np.log(propensity[chosen])[:, None])
        for chosen in (action == code for code in frequent)
        if chosen.sum() >= FEW_OF_ACTION
    ]
    if not parts:  # too many actions to look at each: their propensities together
        return _losses(X, own, np.log(propensity)[:, None])
    return {
        side: np.concatenate([part[side] for part in parts])
        for side in (0, *OTHER_ROWS)
    }


def _losses(X, own, targets):
    """Squared errors out of fold, in variances, with the context of each side."""
    targets = targets - targets.mean(axis=0)
    variance = float((targets**2).sum() / max(len(targets), 1))
    half = own // NEIGHBOURS % 2
    if not variance > LEAST_VARIATION or half.all() or not half.any():
        return {side: np.zeros(0) for side in (0, *OTHER_ROWS)}
    out = {}
    for side in (0, *OTHER_ROWS):
        fitted = predicted_by_halves(X[own + side], targets, half, PENALTY)
        out[side] = ((targets - fitted) ** 2).sum(axis=1) / variance
    return out


def _gain(losses, side):
    """Return what a side explains more than a round's own context, and its z."""
    # What it explains more than nothing counts: a model of a round's own context that
    # fits another time badly is no sign.
    gains = losses[0] - losses[side]
    if len(gains) < FEWEST_BETWEEN or not losses[side].mean() < 1 - LEAST_GAIN:
        return 0.0, 0.0
    gain, spread = float(gains.mean()), float(gains.std())
    return gain, gain / spread * sqrt(len(gains)) if spread > 0 else 0.0

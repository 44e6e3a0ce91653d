# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What a log holds, in numbers: rounds, actions, rewards, propensities, groups."""

import re
from copy import copy

import numpy as np

from skope_ope.exceptions import (
    FewEventsWarning,
    FewGroupsWarning,
    LogsWarning,
    PropensityWarning,
    SupportWarning,
)
from skope_ope.logs._shown_numbers import figure
from skope_ope.logs._validation import EMPTY, column_weights
from skope_ope.logs.checks._finding import Finding
from skope_ope.logs.sums._group_sums import COUNTED_GROUPS
from skope_ope.logs.sums._log_sums import LogSums, has_field, merged_arrays, placed

ACTIONS_LISTED = 100  # in a table; of more, those logged most and least
UNSEEN_NAMED = 5
NO_REWARDS = (
    "Check the column of the rewards and the join that brings them.",
    "Wait until rewards have arrived.",
)
ALL_REWARDED = (
    "Rounds without a reward may be missing: look for a filter or an inner join that "
    "drops them, and log them with reward 0.",
    NO_REWARDS[0],
)
FEW_REWARDED = 10  # below it only intervals that know the range of the rewards hold
MANY_VALUES = 100  # of an action that is a fraction: it is a number, not a label
MANY_WHOLE_VALUES = 1000  # which may be one, as those that nearly every round has alone
OWN_VALUES = 0.8  # of the rounds
A_NUMBER = re.compile(r"[+-]?\d*\.?\d+", re.ASCII)  # as a text
FEW_GROUPS = 40  # effective ones
FEWEST_CERTAIN, LEAST_CERTAIN = 20, 0.005  # rounds, and their share, of an action


def log_facts(sums, random_state=None):
    """Return what a log holds, and where it is too little, from its `FactSums`."""
    log = sums.log
    slates = log.actions is None
    facts = {"rounds": log.n, "features": sums.n_features}
    facts |= _slate_facts(sums) if slates else _action_facts(sums)
    facts |= _range_facts(sums, "reward") | {
        "reward, share not zero": log.n_rewarded / log.n,
        "reward, distinct values": f"more than {VALUES_COUNTED:,}"
        if sums.values is None
        else len(sums.values),
    }
    facts |= _range_facts(sums, "propensity")
    groups = None
    if log.groups is not None:
        groups = _Groups(log)
        facts |= {
            "groups": groups.n,
            "rounds of a group, median": float(np.median(groups.sizes)),
            "rounds of a group, most": int(groups.sizes.max()),
            "effective groups": groups.effective,
        }
    facts |= _range_facts(sums, "sample weight")
    if log.first_time is not None:
        facts["first time"] = _plain_time(log.first_time)
        facts["last time"] = _plain_time(log.last_time)
    findings = [*_few_rewards(log), *_few_groups(groups)]
    if not slates:
        findings += [*_unseen_actions(log), *_certain_action(sums)]
        findings += numeric_action_findings(log)
    return facts, findings


def _range_facts(sums, name):
    if name not in sums.ranges:
        return {}
    low, high, total = sums.ranges[name]
    return {
        f"{name}, lowest": low,
        f"{name}, highest": high,
        f"{name}, mean": total / sums.log.n,
    }


class _Groups:
    """Numbers of rounds of the groups, of all or of some."""

    def __init__(self, log):
        self.sizes = log._group_sizes[log._group_sizes > 0]
        self.n = max(log.n_groups, len(self.sizes))
        total = float(self.sizes.sum())
        square = self.sizes.astype(float) @ self.sizes
        self.effective = float(total * total / square) * self.n / len(self.sizes)
        self.n_rounds = log.n


def _plain_time(time):
    return str(time) if isinstance(time, np.datetime64) else float(time)


def _action_facts(sums):
    log = sums.log
    seen = log.n_actions - len(log._unseen)
    facts = {"number of actions": log.n_actions, "actions logged": seen}
    order = np.arange(log.n_actions)
    if len(order) > ACTIONS_LISTED:
        order = np.argsort(-log._action_counts, kind="stable")
        half = ACTIONS_LISTED // 2
        order = np.append(order[:half], order[-half:])
    name = "actions" if len(order) == log.n_actions else "actions, most and least"
    facts[name] = {
        "action": log.actions[order].tolist(),
        **_means_by_code(sums.by_label["actions"], log._action_counts, order),
    }
    facts |= _range_facts(sums, "offered actions")
    if log.loggers is not None:
        order = np.flatnonzero(log._logger_counts)
        facts["loggers"] = {
            "logger": log.loggers[order].tolist(),
            **_means_by_code(sums.by_label["loggers"], log._logger_counts, order),
        }
    return facts


def _means_by_code(totals, counts, order):
    """Return counts and means of the rounds of each code, in this order."""
    table = {"rounds": counts[order].tolist()}
    for name, total in totals.items():
        means = np.full(len(counts), np.nan)
        np.divide(total, counts, out=means, where=counts > 0)
        table[f"mean {name}"] = means[order].tolist()
    return table


def _slate_facts(sums):
    n_slots, max_candidates = sums.shown.shape
    return {
        "empty slots, share": float(1 - sums.n_shown.sum() / (sums.log.n * n_slots)),
        "candidates, most": max_candidates,
        **_range_facts(sums, PER_PAGE),
        "slots": {
            "slot": list(range(n_slots)),
            "share filled": (sums.n_shown / sums.log.n).tolist(),
            "distinct candidates": sums.shown.sum(axis=1).tolist(),
        },
    }


def _few_rewards(log):
    rewarded, n_rounds = log.n_rewarded, log.n
    if n_rounds > 1 and log.reward_low == log.reward_high:
        every = "No round has a reward"
        if rewarded:
            every = f"All rewards are {figure(log.reward_low)}"
        severity, found = "warning", f"{every}: this log tells no policy from another."
        advice = ALL_REWARDED if rewarded else NO_REWARDS
    elif 0 < rewarded < FEW_REWARDED:
        have = "has" if rewarded == 1 else "have"
        severity = "note"
        found = f"Only {rewarded} of {n_rounds:,} rounds {have} a reward."
        advice = (
            "State reward_range, so that intervals of few events can be formed, and "
            "expect them to be wide."
        )
    else:
        return []
    about = float(rewarded), rewarded / n_rounds
    category = FewEventsWarning
    return [Finding("few_rewards", severity, found, advice, *about, category=category)]


def _few_groups(groups):
    if groups is None or groups.effective >= FEW_GROUPS:
        return []
    effective, n_groups = groups.effective, groups.n
    found = f"The rounds belong to {n_groups:,} group{'s' * (n_groups > 1)}"
    if effective < 0.8 * n_groups:
        found += f", which count as {figure(effective)}, for some are much larger"
    advice = (
        f"Standard errors rest on the groups; below {FEW_GROUPS} they are too small: "
        "use logs of more groups, or finer groups if the rounds of a group do not "
        "depend on each other."
    )
    about = {"number": effective, "category": FewGroupsWarning}
    about["effect"] = float(groups.sizes.max() / groups.n_rounds)
    return [Finding("few_groups", "warning", f"{found}.", advice, **about)]


def _unseen_actions(logs):
    unseen = logs.actions[logs._unseen].tolist()
    if not unseen:
        return []
    shown = ", ".join(map(repr, unseen[:UNSEEN_NAMED]))
    if len(unseen) > UNSEEN_NAMED:
        shown += f" and {len(unseen) - UNSEEN_NAMED:,} more"
    found = f"Never logged of {logs.n_actions:,} actions: {len(unseen):,} ({shown})."
    advice = (
        "A policy that takes them can only be valued by a model of the rewards; take "
        "actions out of `actions` that do not exist any more."
    )
    about = {"number": float(len(unseen)), "effect": len(unseen) / logs.n_actions}
    about |= {"actions": unseen[:10], "category": SupportWarning}
    return [Finding("unseen_actions", "note", found, advice, **about)]


def _certain_action(sums):
    """Return a warning where actions are never drawn, and others are."""
    # Not where a logger has no choice at all: that is how it decides.
    log = sums.log
    if "propensity" not in sums.ranges or has_field(log, "available"):
        return []
    if (
        log.loggers is not None
        and _never_drawn(sums, "loggers", log._logger_counts).any()
    ):
        return []
    counts = log._action_counts
    certain = _never_drawn(sums, "actions", counts)
    drawn = (counts > 0) & ~certain
    certain &= counts >= max(FEWEST_CERTAIN, LEAST_CERTAIN * log.n)
    if not certain.any() or not drawn.any():
        return []
    labels, count = log.actions[certain].tolist(), int(counts[certain].sum())
    more = f" (and {len(labels) - 1:,} more)" if len(labels) > 1 else ""
    found = (
        f"Action {labels[0]!r}{more} always has probability 1, the others are drawn: "
        f"{count:,} of {log.n:,} rounds."
    )
    advice = (
        "If these rounds are no decisions, but rows that were filled in, drop them "
        f"(only these): logs[logs.action != {labels[0]!r}].",
        "If they are decisions, say which actions were offered in each round, by "
        "available=...",
    )
    about = {"number": float(count), "effect": count / log.n}
    about |= {"actions": labels[:10], "category": PropensityWarning}
    return [Finding("certain_action", "warning", found, advice, **about)]


def _never_drawn(sums, labels, counts):
    """Return which labels have no round with a propensity below 1."""
    return (counts > 0) & (sums.by_label[labels]["propensity"] >= counts)


def numeric_action_findings(log):
    """Return a finding where the action is a number, as a price or a discount."""
    labels = getattr(log, "actions", None)
    if labels is None or len(labels) <= MANY_VALUES:
        return []
    numbers, what, severity = _as_numbers(labels), "The action is a number", "warning"
    if numbers is None:
        return []
    if (numbers == np.round(numbers)).all():
        if _may_be_identifiers(log, numbers):
            return []
        severity, what = "note", "If the action is an amount and no label, it is one"
    found = (
        f"{what} of {len(labels):,} distinct values, {figure(numbers.min())} to "
        f"{figure(numbers.max())}: each is taken for an action of its own, and "
        "learns nothing from values near it."
    )
    advice = (
        "Cut it into a few ranges that you decide between, such as pandas.cut(price, "
        "5).astype(str), and pass the range as the action. Its propensity is the "
        "probability of the range, not a density. See 'Actions that are numbers' in "
        "the user guide on logs.",
    )
    about = {"number": float(len(labels)), "category": LogsWarning}
    about["effect"] = len(labels) / max(int(log._action_counts.sum()), 1)
    return [Finding("numeric_action", severity, found, advice, **about)]


def _as_numbers(labels):
    """Return labels that are numbers, or texts of numbers, as floats, else None."""
    textual = labels.dtype.kind in "UTO" and all(
        isinstance(one, str) and A_NUMBER.fullmatch(one) for one in labels.tolist()
    )
    return labels.astype(float) if textual or labels.dtype.kind in "iuf" else None


def _may_be_identifiers(log, numbers):
    """Whether whole numbers look like labels: counted through, or with features."""
    if len(numbers) == np.ptp(numbers) + 1 or has_field(log, "action_context"):
        return True
    rounds = log._action_counts.sum()
    return len(numbers) < min(OWN_VALUES * rounds, MANY_WHOLE_VALUES + 1)


# -- sums behind the facts that an audit tells of a log, which add up over parts -------

PER_PAGE = "candidates of a page"
VALUES_COUNTED = 1000  # of the rewards, that are counted


class FactSums:
    """What a log holds, in sums of all its rounds."""

    @np.errstate(over="ignore", invalid="ignore")  # sums of legal numbers may be inf
    def __init__(self, logs, group_limits=COUNTED_GROUPS):
        self.log = LogSums.of(logs, logs, group_limits)
        self.n_features = logs.n_features
        self.shown = self.n_shown = None
        slates = not hasattr(logs, "action_index")
        weight = column_weights(logs, of_part=True) if slates else logs.sample_weight
        given = {"reward": logs.reward, "propensity": logs.propensity}
        given["sample weight"] = weight
        codes = {}
        if slates:
            self._see_slots(logs)
            given[PER_PAGE] = logs._offered_counts
        else:
            codes["actions"] = logs.action_index, logs.n_actions
            if logs.available is not None:
                given["offered actions"] = logs.available.sum(axis=1)
            if logs.loggers is not None:
                codes["loggers"] = logs.logger_index, len(logs.loggers)
        self.ranges = {
            name: (float(one.min()), float(one.max()), float(one.sum()))
            for name, one in given.items()
            if one is not None
        }
        summed = {k: given[k] for k in ("reward", "propensity") if k in self.ranges}
        self.by_label = {
            labels: {
                name: np.bincount(code, values, n) for name, values in summed.items()
            }
            for labels, (code, n) in codes.items()
        }
        self.values = _distinct_rewards(logs.reward)

    def _see_slots(self, logs):
        filled = logs.slate != EMPTY
        self.n_shown = filled.sum(axis=0)
        self.shown = np.zeros((logs.n_slots, logs.max_candidates), dtype=bool)
        for slot in range(logs.n_slots):
            self.shown[slot, logs.slate[filled[:, slot], slot]] = True

    @np.errstate(over="ignore", invalid="ignore")
    def __add__(self, other):
        """Return the sums of both parts."""
        out = copy(self)
        for labels in self.by_label:
            known = getattr(self.log, labels), getattr(other.log, labels)
            merged, here, there = merged_arrays(*known)
            sums = {
                name: placed(one, here, len(merged))
                + placed(other.by_label[labels][name], there, len(merged))
                for name, one in self.by_label[labels].items()
            }
            out.by_label = {**out.by_label, labels: sums}
        out.log = self.log + other.log  # refuses what is not alike
        out.ranges = {}
        for name in self.ranges.keys() & other.ranges.keys():
            low, high, total = self.ranges[name]
            lower, higher, more = other.ranges[name]
            out.ranges[name] = min(low, lower), max(high, higher), total + more
        out.values = None
        if self.values is not None and other.values is not None:
            values = np.union1d(self.values, other.values)
            out.values = values if len(values) <= VALUES_COUNTED else None
        if self.shown is not None:
            out.n_shown = self.n_shown + other.n_shown
            width = max(self.shown.shape[1], other.shown.shape[1])
            out.shown = _widened_mask(self.shown, width) | _widened_mask(
                other.shown, width
            )
        return out

    def __radd__(self, other):
        """Return self for the 0 that `sum` begins with."""
        return self if isinstance(other, int) and other == 0 else NotImplemented


def _distinct_rewards(values):
    """Return the distinct values, None where they are more than 1,000."""
    found = np.unique(values[: 4 * VALUES_COUNTED])
    if len(found) > VALUES_COUNTED:
        return None
    place = np.searchsorted(found, values)
    others = values[found.take(place, mode="clip") != values]
    if len(others):
        found = np.union1d(found, others)
    return found if len(found) <= VALUES_COUNTED else None


def _widened_mask(shown, width):
    out = np.zeros((len(shown), width), dtype=bool)
    out[:, : shown.shape[1]] = shown
    return out

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Values of columns whose rounds are all rewarded, as those of outcomes are."""

from math import log

import numpy as np

from skope_ope.exceptions import LogsWarning
from skope_ope.logs._shown_numbers import figure
from skope_ope.logs.checks._context_columns import capital, listed
from skope_ope.logs.checks._finding import Finding

LEAST_CHANCE = 1e-12  # that all rounds of a value are rewarded
FEWEST = 30  # rounds of a value
FEWEST_OF_ACTION = 5
MOST_VALUES = 64  # of a column: more are numbers, not categories


def sure_rewards(columns, reward, action, n_rounds):
    """Return the finding of values whose rounds all have the rarer kind of reward."""
    # Every buyer has visited: a column may say little about the reward in most rounds,
    # and all in a few. A value counts where chance does not explain it and at least two
    # actions were rewarded without exception. So does the set of all values but the
    # most frequent one, such as amounts above zero.
    rewarded = reward != 0
    rate = rewarded.mean()
    if not 0 < rate < 0.5:
        return []
    least = max(FEWEST, log(LEAST_CHANCE / max(len(columns), 1)) / log(rate))
    found = []
    for column in columns:
        for what, rounds in _sets(column, rewarded, least):
            if _several(action, rounds):
                found.append((column, what, int(rounds.sum())))
                break
    if not found:
        return []
    column, what, count = found[0]
    label = capital(column.label)
    others = [one.label for one, _, _ in found[1:]]
    more = f" The same is true of values of {listed(others)}." if others else ""
    looked_at = f"{len(reward):,} rounds"
    if len(reward) < n_rounds:
        looked_at += f" drawn from {n_rounds:,}"
    return [
        Finding(
            "reward_leak",
            "warning",
            f"All {count:,} rounds in which {column.label} {what} are rewarded, "
            f"whatever the action. Of all {looked_at} {rate:.1%} are.{more}",
            (
                f"{label} is an outcome, or was written after the reward. Leave it "
                "out: the context is what was known before the decision.",
                f"{label} was known before, and these rounds are always rewarded. "
                "Then this is no fault.",
            ),
            number=float(count),
            effect=1 - float(rate),
            columns=[one.name for one, _, _ in found],
            category=LogsWarning,
        )
    ]


def _sets(column, rewarded, least):
    """Yield sets of at least so many rounds that are all rewarded."""
    distinct, code, counts = np.unique(
        column.values, return_inverse=True, return_counts=True
    )
    code, most = code.ravel(), int(counts.argmax())
    if len(distinct) < 2:
        return
    rest = code != most
    if 2 * counts[most] >= len(code) and rest.sum() >= least and rewarded[rest].all():
        only = len(distinct) == 2
        yield _told(column, distinct[1 - most] if only else distinct[most], only), rest
    if len(distinct) > MOST_VALUES and not column.categorical:
        return
    hits = np.bincount(code, rewarded)
    for k in np.flatnonzero((hits == counts) & (counts >= least)):
        yield _told(column, distinct[k], True), code == k


def _told(column, value, equal):
    if np.isnan(value):
        text = "missing"
    else:
        text = repr(column.labels[int(value)]) if column.categorical else figure(value)
    return f"is {text}" if equal else f"is not {text}"


def _several(action, rounds):
    """Whether at least two actions were taken, or all that there are."""
    if action is None or (action == action[0]).all():
        return True
    return np.count_nonzero(np.bincount(action[rounds]) >= FEWEST_OF_ACTION) >= 2

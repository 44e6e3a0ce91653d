# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Columns, and models of them, that foretell the reward almost perfectly."""

import numpy as np
from sklearn.utils import check_random_state

from skope_ope.audit._interpolation import LEAST_R2, interpolated, r2_of, varies
from skope_ope.audit._reward_model import reward_models
from skope_ope.audit._sure_rewards import sure_rewards
from skope_ope.exceptions import LogsWarning
from skope_ope.logs.checks._context_columns import (
    capital,
    columns_of,
    listed,
    rows_apart,
)
from skope_ope.logs.checks._finding import Finding

MOST_ROUNDS = 10_000
FEWEST_ROUNDS = 50


def reward_leak_findings(logs, random_state=0):
    """Return a finding where the context foretells the reward almost perfectly."""
    # A single column predicts a reward by the mean of its other rounds with the same
    # value, or, where these are few, by interpolation between the rounds with the next
    # values; so a column is found whatever function of it the reward is. Then come
    # columns of which one value is always rewarded, and models of all columns.
    random = check_random_state(random_state)
    rows = rows_apart(logs, MOST_ROUNDS, random)  # none is told by its group
    reward = logs.reward[rows]
    if len(rows) < FEWEST_ROUNDS or not varies(reward) or not logs.n_features:
        return {}, []
    reward = reward / np.abs(reward).max()  # squares of huge rewards overflow
    columns = columns_of(logs.context, rows)
    action = getattr(logs, "action_index", None)
    action = None if action is None else action[rows]
    found = _single_columns(columns, reward)
    found = found or sure_rewards(columns, reward, action, len(logs))
    return {}, found or reward_models(columns, reward, action, random)


def _single_columns(columns, reward):
    """Return the finding of columns that foretell the reward by themselves, if any."""
    targets = {"the reward": reward}
    rewarded = (reward != 0).astype(float)
    if varies(rewarded) and len(np.unique(reward)) > 2:
        targets["whether there is a reward"] = rewarded
    told = []
    for column in columns:
        scores = {
            what: r2_of(interpolated(column.values, target, column.categorical), target)
            for what, target in targets.items()
        }
        what = max(scores, key=scores.get)
        if scores[what] > LEAST_R2:
            told.append((scores[what], what, column))
    if not told:
        return []
    told.sort(key=lambda one: -one[0])
    r2, what, column = told[0]
    label, others = capital(column.label), [one.label for _, _, one in told[1:]]
    more = f" The same holds for {listed(others)}." if others else ""
    finding = Finding(
        "reward_leak",
        "error",
        f"{label} predicts {what}, whatever the action: R^2 {r2:.4f} on held-out "
        f"rounds.{more}",
        (
            f"{label} was written after the reward, or is computed from it. Leave it "
            "out: the context is what was known before the decision.",
            f"{label} was known before, and the action does not change the reward. "
            "Then all policies have the same value.",
        ),
        number=r2,
        effect=r2,
        columns=[one.name for _, _, one in told],
        category=LogsWarning,
    )
    return [finding]

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Logs as a notebook shows them."""

from __future__ import annotations

import numpy as np

from skope_ope.logs._html import Markup, card, pairs, share_bar, table
from skope_ope.logs._shown_numbers import figure, fixed, share
from skope_ope.logs._validation import value_range

ACTIONS_SHOWN = 5  # actions, the most frequent ones


def logs_html(logs) -> str:
    """Return what logs hold as a card, with the shares of the actions."""
    facts = logs.summary()
    lead = f"{facts.pop('rounds')} rounds"
    content = [pairs(facts)]
    counts = getattr(logs, "_action_counts", None)  # slates have none
    if counts is not None and len(logs):
        content.insert(0, _action_table(logs.actions, counts))
    return card(type(logs).__name__, *content, lead=lead)


def _action_table(labels, counts) -> Markup:
    """Return the most frequent actions with bars of their shares."""
    order = np.argsort(-counts, kind="stable")
    total = counts.sum()
    told = [(str(labels[k]), int(counts[k])) for k in order[:ACTIONS_SHOWN]]
    rest = counts[order[ACTIONS_SHOWN:]]
    if len(rest):
        told.append((f"{len(rest):,} others", int(rest.sum())))
    rows = [
        [name, fixed(count, 0), share(count / total), share_bar(count / total)]
        for name, count in told
    ]
    return table(["action", "rounds", "share", ""], rows)


# -- what logs hold, in short texts ----------------------------------------------------


def bandit_summary(logs):
    """Return rounds, actions, features, ranges and loggers as a dict of texts."""
    counts = logs._action_counts
    if not len(logs):
        return {"rounds": "0", "actions": f"{logs.n_actions}"}
    out = {
        "rounds": f"{len(logs):,}",
        "actions": f"{logs.n_actions} (logged {counts.min():,} to "
        f"{counts.max():,} times)",
        "features": f"{logs.n_features} ({type(logs.context).__name__})",
        "reward": f"{value_range(logs.reward)}, mean {figure(logs.reward.mean())}",
        "propensity": "unknown",
    }
    if logs.propensity is not None:
        out["propensity"] = value_range(logs.propensity)
    if logs.reward_range is not None:
        out["reward range"] = " to ".join(map(figure, logs.reward_range))
    if logs.loggers is not None:
        pairs = zip(logs.loggers.tolist(), logs._logger_counts.tolist(), strict=True)
        out["loggers"] = ", ".join(f"{name}: {size:,}" for name, size in pairs)
    if logs.group is not None:
        out["groups"] = f"{logs.n_groups:,}"
    if logs.available is not None:
        out["offered actions"] = value_range(logs.available.sum(axis=1))
    if logs.timestamp is not None:
        out["time"] = f"{logs.timestamp.min()} to {logs.timestamp.max()}"
    if logs.sample_weight is not None:
        out["sample weight"] = value_range(logs.sample_weight)
    if logs.columns:
        out["columns"] = ", ".join(logs.columns)
    return out

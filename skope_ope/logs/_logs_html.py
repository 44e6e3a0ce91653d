# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Logs as a notebook shows them."""

from __future__ import annotations

import numpy as np

from skope_ope.logs._bars import share_bar
from skope_ope.logs._html import card
from skope_ope.logs._markup import Markup, pairs, table
from skope_ope.logs._shown_numbers import fixed, share

SHOWN = 5  # actions, the most frequent ones


def logs_html(logs) -> str:
    """Return what logs hold as a card, with the shares of the actions."""
    facts = logs.summary()
    lead = f"{facts.pop('rounds')} rounds"
    content = [pairs(facts)]
    counts = getattr(logs, "_action_counts", None)  # slates have none
    if counts is not None and len(logs):
        content.insert(0, _shares(logs.actions, counts))
    return card(type(logs).__name__, *content, lead=lead)


def _shares(labels, counts) -> Markup:
    """Return the most frequent actions with bars of their shares."""
    order = np.argsort(-counts, kind="stable")
    total = counts.sum()
    told = [(str(labels[k]), int(counts[k])) for k in order[:SHOWN]]
    rest = counts[order[SHOWN:]]
    if len(rest):
        told.append((f"{len(rest):,} others", int(rest.sum())))
    rows = [
        [name, fixed(count, 0), share(count / total), share_bar(count / total)]
        for name, count in told
    ]
    return table(["action", "rounds", "share", ""], rows)

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""
What the example on a csv draws its log from: a news site with known click rates
================================================================================

A page has one place for a teaser. Who visits, what is shown and how often it is clicked
are known here, so the value of any policy is a sum over hours and devices.
"""

import numpy as np
import pandas as pd

from skope_ope import BanditLogs
from skope_ope.policies import action_probabilities

ITEMS = ["politics", "sport", "video"]
DEVICES, TRAFFIC = ["desktop", "phone", "tablet"], [0.3, 0.6, 0.1]
EVERY_CONTEXT = pd.DataFrame(
    [(hour, device) for hour in range(24) for device in DEVICES],
    columns=["hour", "device"],
)
SHARE = np.tile(TRAFFIC, 24) / 24


def click_rates(visits):
    """Return how often each item is clicked, (n_visits, n_items)."""
    evening, phone = visits["hour"] >= 18, visits["device"] == "phone"
    rates = [
        np.where(evening, 0.04, 0.07),
        np.where(evening, 0.13, 0.04),
        np.where(phone, 0.10, 0.03),
    ]
    return np.stack(rates, axis=1)


def site(visits):
    """Return with what probability the site shows each item, (n_visits, n_items)."""
    evening, desktop = visits["hour"] >= 18, visits["device"] == "desktop"
    odds = np.exp(np.stack([0.7 * desktop, 0.0 * evening, 0.6 * evening], axis=1))
    return odds / odds.sum(axis=1, keepdims=True)


def write_log(path, n_rounds, random_state):
    """Write four weeks of visits; some users click more than others."""
    rng = np.random.default_rng(random_state)
    visits = EVERY_CONTEXT.iloc[rng.choice(len(SHARE), n_rounds, p=SHARE)]
    visits = visits.reset_index(drop=True)
    proba, rows = site(visits), np.arange(n_rounds)
    shown = (rng.random((n_rounds, 1)) > proba.cumsum(axis=1)).sum(axis=1)
    shown = np.minimum(shown, len(ITEMS) - 1)
    user = rng.integers(n_rounds // 10, size=n_rounds)
    liking = rng.gamma(4, 1 / 4, n_rounds)[user]  # one on average
    click = rng.random(n_rounds) < liking * click_rates(visits)[rows, shown]
    seconds = 86_400 * rng.integers(28, size=n_rounds) + 3_600 * visits["hour"]
    seconds = seconds + rng.integers(3_600, size=n_rounds)
    log = pd.DataFrame(
        {
            "timestamp": pd.Timestamp("2026-03-02") + pd.to_timedelta(seconds, "s"),
            "user": [f"u{number:04}" for number in user],
            "hour": visits["hour"],
            "device": visits["device"],
            "item": np.take(ITEMS, shown),
            "click": click.astype(int),
            "propensity": proba[rows, shown],
        }
    )
    log.sort_values("timestamp").to_csv(path, index=False)


def true_value(policy=None):
    """Return the click rate of a policy; None: that of the site as it is."""
    if policy is None:
        proba = site(EVERY_CONTEXT)
    else:
        n = len(SHARE)
        rounds = BanditLogs(EVERY_CONTEXT, ITEMS[:1] * n, np.zeros(n), actions=ITEMS)
        proba = action_probabilities(policy, rounds)
    return float(SHARE @ (proba * click_rates(EVERY_CONTEXT)).sum(axis=1))

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""One small log as logs in memory and as columns of a lazy frame."""

import numpy as np

from skope_ope import (
    IPS,
    SNDR,
    SNIPS,
    BanditLogs,
    DirectMethod,
    DoublyRobust,
    DRos,
    ExplorationScavenging,
    LogSmoothing,
    MultiLoggerDR,
    MultiLoggerIPS,
    SubGaussianDR,
    SubGaussianIPS,
    SwitchDR,
)

LABELS = np.array(["x", "y", "z"])
POLICIES = {"one": "one", "two": "two"}
Q = {"reward_model": "q"}
ONE_LOGGER = {"IPS": IPS(), "clipped": IPS(cmax=1.5), "SNIPS": SNIPS()}
ONE_LOGGER |= {"DM": DirectMethod(**Q), "DR": DoublyRobust(**Q), "SNDR": SNDR(**Q)}
ONE_LOGGER |= {"DR of a number": DoublyRobust(reward_model=0.4, cmax=2.0)}
ONE_LOGGER |= {"SwitchDR": SwitchDR(tau=1, **Q), "DRos": DRos(**Q)}
ONE_LOGGER |= {"SubGaussianIPS": SubGaussianIPS(), "SubGaussianDR": SubGaussianDR(**Q)}
ONE_LOGGER |= {"LogSmoothing": LogSmoothing(lam=0.3)}
ONE_LOGGER |= {"scavenging": ExplorationScavenging()}
ONE_LOGGER |= {"normalized scavenging": ExplorationScavenging(self_normalized=True)}
WEIGHTED = {"pooling": "weighted", "divergences": {"A": 1.0, "B": 2.0}}
LOGGERS = {
    "naive": MultiLoggerIPS(),
    "balanced": MultiLoggerIPS(pooling="balanced", self_normalized=True),
    "naive DR": MultiLoggerDR(self_normalized=True, **Q),
    "balanced DR": MultiLoggerDR(pooling="balanced", **Q),
    "weighted": MultiLoggerIPS(**WEIGHTED),
    "mixture of arms": ExplorationScavenging(),
}


def columns(n_rounds=400, seed=0, shift=0.0):
    """Columns of a log of two loggers."""
    rng = np.random.default_rng(seed)
    k, n = len(LABELS), n_rounds
    rows = np.arange(n)
    every = np.stack([rng.dirichlet(np.ones(k), n) for _ in range(2)], axis=1)
    logger = rng.integers(0, 2, n)
    draws = (rng.random(n)[:, None] > every[rows, logger].cumsum(axis=1)).sum(1)
    action = np.minimum(draws, k - 1)
    under = every[rows, :, action]
    data = {
        "action": LABELS[action],
        "reward": (rng.random(n) < 0.3) + shift,
        "p": under[rows, logger],
        "logger": np.array(["A", "B"])[logger],
        "under_A": under[:, 0],
        "under_B": under[:, 1],
        "group": rng.integers(-30, 30, n),
        "weight": rng.exponential(size=n).round(2) * (rng.random(n) < 0.9),
        "day": rng.integers(0, 3, n),
    }
    spread = {"one": 1, "two": 0.3}
    tables = {name: rng.dirichlet(np.full(k, a), n) for name, a in spread.items()}
    tables["q"] = shift + rng.random((n, k))
    for name, table in tables.items():
        data |= {f"{name}_{a}": table[:, a] for a in range(k)}
        data[f"{name}_logged"] = table[rows, action]
    return data


def roles(groups=False, weights=False, loggers=False):
    """Which column is what, as `scan_logs` takes it."""
    tables = {name: [f"{name}_{a}" for a in range(3)] for name in ("one", "two", "q")}
    tables |= {name: name for name in ("one_logged", "two_logged", "day")}
    found = {"action": "action", "reward": "reward", "propensity": "p"}
    found["columns"] = tables
    if groups:
        found["group"] = "group"
    if weights:
        found["sample_weight"] = "weight"
    if loggers:
        found |= {"logger": "logger", "logger_proba": ["under_A", "under_B"]}
    return found


def in_memory(data, roles, **stated):
    """The same as ordinary logs."""

    def read(named):
        return {
            name: np.stack([data[one] for one in column], axis=1)
            if isinstance(column, list)
            else data[column]
            for name, column in named.items()
        }

    tables = read(roles["columns"])
    fields = read({name: one for name, one in roles.items() if name != "columns"})
    logs = BanditLogs(np.empty((len(data["p"]), 0)), **fields, **stated)
    return logs.with_columns(**tables)

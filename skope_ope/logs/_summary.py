# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What logs hold, in short texts."""

import numpy as np

from skope_ope.logs._shown_numbers import figure
from skope_ope.logs._validation import value_range


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
        "propensity": "unknown"
        if logs.propensity is None
        else value_range(logs.propensity),
    }
    if logs.reward_range is not None:
        out["reward range"] = " to ".join(map(figure, logs.reward_range))
    if logs.loggers is not None:
        sizes = np.bincount(logs.logger_index, minlength=len(logs.loggers))
        pairs = zip(logs.loggers.tolist(), sizes.tolist(), strict=True)
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

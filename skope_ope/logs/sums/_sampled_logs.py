# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Rows that were kept of a log, as logs."""

import numpy as np

from skope_ope.logs._bandit_logs import BanditLogs
from skope_ope.logs._coded_labels import Grouped
from skope_ope.logs.sums._sampled_slates import columns_of_slates, most_slates

MOST = 20_000  # rounds by lot
FEWEST = 2_000  # of them where the logger's whole distribution is known:
MOST_ENTRIES = 1_000_000  # of the distributions that are kept
FIRST = 5_000  # rounds from the start on
FIRST_ACTIONS = 100  # most of them whose distribution is kept of the first rounds
PLAIN = "reward", "propensity", "group", "timestamp"
WIDE = "logging_proba", "available"


def most_rows(logs):
    """Return how many rows are kept: 20,000, or fewer of many actions."""
    if hasattr(logs, "slate"):
        return most_slates(logs, MOST)
    wide = any(getattr(logs, name, None) is not None for name in WIDE)
    if not wide:
        return MOST
    return min(MOST, max(FEWEST, MOST_ENTRIES // logs.n_actions))


def columns_of(logs, rows):
    """Return what is kept of some rows, without their context."""
    found = {name: getattr(logs, name) for name in PLAIN}
    if hasattr(logs, "action_index"):
        found |= {
            "action": logs.action_index,
            "logger": logs.logger_index,
            "sample_weight": logs.sample_weight,
        }
        found |= {name: getattr(logs, name) for name in WIDE}
    found = {k: v[rows] for k, v in found.items() if v is not None}
    return found | columns_of_slates(logs, rows) if hasattr(logs, "slate") else found


def first_columns(logs, rows):
    """Return what is kept of the first rows, with a number for their context."""
    if not hasattr(logs, "action_index"):
        return {}
    found = columns_of(logs, rows)
    found.pop("available", None)
    if logs.n_actions > FIRST_ACTIONS:
        found.pop("logging_proba", None)
    context = logs.context
    if isinstance(context, np.ndarray) and context.dtype.kind in "biuf":
        from skope_ope.logs.checks._adaptive_logger import segment_numbers

        found["context"] = segment_numbers(context[rows])
    return found


def logs_of(sums, sample):
    """Return kept rows as logs."""
    if sums.actions is None or not len(sample):
        return None
    rows = sample.order()
    columns = {name: values[rows] for name, values in sample.columns.items()}
    state = dict.fromkeys((*BanditLogs._row_fields, *BanditLogs._carried_fields))
    state |= columns
    action, logger = columns["action"], columns.get("logger")
    state |= {
        "actions": sums.actions,
        "action_index": action,
        "action": sums.actions[action],
        "loggers": sums.loggers,
        "logger_index": logger,
        "logger": None if logger is None else sums.loggers[logger],
        "reward_range": sums.reward_range,
        "propensity_estimated": sums.propensity_estimated,
        "context": _context(columns.get("context"), len(rows)),
        "columns": {},
        "_origin": "+".join(sample.origins),
        "_position": sample.position[rows],
    }
    logs = object.__new__(BanditLogs)
    logs.__dict__.update(state)
    Grouped._set_group(logs, columns.get("group"))
    return logs


def _context(numbers, n_rounds):
    return np.zeros((n_rounds, 0)) if numbers is None else numbers[:, None]

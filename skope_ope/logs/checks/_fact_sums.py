# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Sums behind the facts that an audit tells of a log, which add up over parts."""

from copy import copy

import numpy as np

from skope_ope.logs._slate_logs import EMPTY, column_weights
from skope_ope.logs.sums._group_sums import MANY
from skope_ope.logs.sums._log_sums import LogSums
from skope_ope.logs.sums._merged_labels import merged_labels, placed

PER_PAGE = "candidates of a page"
MOST_VALUES = 1000  # of the rewards, that are counted


class FactSums:
    """What a log holds, in sums of all its rounds."""

    @np.errstate(over="ignore", invalid="ignore")  # sums of legal numbers may be inf
    def __init__(self, logs):
        self.log, self.n_features = LogSums.of(logs, logs, MANY), logs.n_features
        self.shown = self.n_shown = None
        slates = not hasattr(logs, "action_index")
        weight = column_weights(logs, of_part=True) if slates else logs.sample_weight
        given = {
            "reward": logs.reward,
            "propensity": logs.propensity,
            "sample weight": weight,
        }
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
        self.values = _distinct(logs.reward)

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
            merged, *places = merged_labels(
                *(getattr(one.log, labels) for one in (self, other))
            )
            both = [
                {name: placed(v, at, len(merged)) for name, v in one.items()}
                for one, at in zip(
                    (self.by_label[labels], other.by_label[labels]), places, strict=True
                )
            ]
            sums = {name: both[0][name] + both[1][name] for name in both[0]}
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
            out.values = values if len(values) <= MOST_VALUES else None
        if self.shown is not None:
            out.n_shown = self.n_shown + other.n_shown
            width = max(self.shown.shape[1], other.shown.shape[1])
            out.shown = _wider(self.shown, width) | _wider(other.shown, width)
        return out

    def __radd__(self, other):
        """Return self for the 0 that `sum` begins with."""
        return self if isinstance(other, int) and other == 0 else NotImplemented


def _distinct(values):
    """Return the distinct values, None where they are more than 1,000."""
    found = np.unique(values[: 4 * MOST_VALUES])
    if len(found) > MOST_VALUES:
        return None
    place = np.searchsorted(found, values)
    others = values[found.take(place, mode="clip") != values]
    if len(others):
        found = np.union1d(found, others)
    return found if len(found) <= MOST_VALUES else None


def _wider(shown, width):
    out = np.zeros((len(shown), width), dtype=bool)
    out[:, : shown.shape[1]] = shown
    return out

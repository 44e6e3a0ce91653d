# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Slates that were kept of a log, and what their pages offer.

Of a uniform logger they tell whether its pages fit, and with rewards of slots whether
rows of pages are missing. Other slates are not kept.
"""

import numpy as np

from skope_ope.logs._slate_fields import WEIGHT_COLUMN, column_weights, is_uniform
from skope_ope.logs._slate_logs import SlateLogs

FEWEST = 2_000  # rounds where pages offer different candidates:
MOST_BYTES = 8_000_000  # of what these offer
UNIFORM = "uniform"  # the column of slates whose logger is
ALL = np.zeros(0, dtype=np.uint8)  # of a page that offers all candidates


def most_slates(logs, most):
    """Return how many slates are kept: fewer where pages offer different ones."""
    if logs.offered is None or not _is_kept(logs):
        return most
    n_bytes = -(-logs.max_candidates // 8) * (
        logs.offered[:1].size // logs.max_candidates
    )
    return min(most, max(FEWEST, MOST_BYTES // max(n_bytes, 1)))


def _is_kept(logs):
    return is_uniform(logs) or logs.slot_reward is not None


def columns_of_slates(logs, rows):
    """Return what is kept of some slates: nothing where no test looks at them."""
    if not _is_kept(logs):
        return {}
    offered = np.tile(ALL, (len(rows), 1))
    if logs.offered is not None:
        bits = np.packbits(logs.offered[rows], axis=-1)
        offered = bits.reshape(len(rows), int(np.prod(bits.shape[1:])))
    found = {
        "slate": logs.slate[rows],
        "n_candidates": np.full(len(rows), logs.max_candidates),
        "offered": offered,
    }
    if is_uniform(logs):
        found[UNIFORM] = np.ones(len(rows), dtype=bool)
    if logs.slot_reward is not None:
        found["slot_reward"] = logs.slot_reward[rows]
    weight = column_weights(logs, of_part=True)
    if weight is not None:
        found[WEIGHT_COLUMN] = weight[rows]
    return found


def slates_of(sample):
    """Return kept slates as logs, in the order of the log."""
    rows = sample.order()
    kept = {name: values[rows] for name, values in sample.columns.items()}
    if not {"slate", "n_candidates", "offered"} <= kept.keys() or not len(rows):
        return None
    if (kept["n_candidates"] != kept["n_candidates"][0]).any():
        return None
    n_candidates, offered = int(kept["n_candidates"][0]), None
    if kept["offered"].shape[1]:
        bits = kept["offered"].reshape(len(rows), -1, -(-n_candidates // 8))
        offered = np.unpackbits(bits, axis=-1, count=n_candidates).astype(bool)
        offered = offered[:, 0] if offered.shape[1] == 1 else offered
    logs = SlateLogs(
        np.zeros((len(rows), 0)),
        kept["slate"],
        kept["reward"],
        n_candidates=n_candidates,
        candidates=offered,
        slot_reward=kept.get("slot_reward"),
        group=kept.get("group"),
    )
    return (
        logs.with_columns(**{WEIGHT_COLUMN: kept[WEIGHT_COLUMN]})
        if WEIGHT_COLUMN in kept
        else logs
    )

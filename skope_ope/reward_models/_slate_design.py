# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Features of slates, and of single candidates in slots."""

import numpy as np
from scipy import sparse
from sklearn.base import clone

from skope_ope.logs._frames import add_columns, import_narwhals
from skope_ope.logs._item_rows import item_rows
from skope_ope.logs._row_container import own, take_rows
from skope_ope.logs._slate_logs import EMPTY
from skope_ope.logs._validation import is_frame
from skope_ope.propensities._encoded import fit_encoded

DESIGN_BYTES = 2**26  # of the rows that are predicted at once


def slate_design(logs, slates):
    """Join the contexts with the features of what every slot shows."""
    rounds = np.arange(len(logs))
    parts = [candidate_features(logs, rounds, column) for column in slates.T]
    names = [f"slot_{j}_{k}" for j, p in enumerate(parts) for k in range(p.shape[1])]
    return _beside(logs.context, np.hstack(parts), names)


def slot_design(logs, rounds, slots, candidates):
    """Join contexts with the features of single candidates and their slots."""
    items = candidate_features(logs, rounds, candidates)
    slot = np.zeros((len(rounds), logs.n_slots))
    slot[np.arange(len(rounds)), slots] = 1.0
    names = [f"item_{k}" for k in range(items.shape[1])]
    names += [f"slot_{j}" for j in range(logs.n_slots)]
    context = take_rows(logs.context, rounds)
    return _beside(context, np.hstack([items, slot]), names)


def fit_design(model, X, y, odd=None):
    """Fit a clone of a model to a design, behind an encoder where it takes no texts."""
    return fit_encoded(
        lambda one: one.fit(own(X, one), own(y, one)), clone(model), X, odd
    )


def rows_at_once(logs):
    """Return how many rows of `slot_design` are made at once."""
    n_columns = logs.n_features
    if sparse.issparse(logs.context):
        n_columns = logs.context.nnz // max(len(logs), 1)
    n_columns += _width(logs) + logs.n_slots
    # features of candidates are held alone, beside the slots and beside the context
    return max(1, DESIGN_BYTES // (24 * n_columns))


def candidate_features(logs, rounds, candidates):
    """Return features of candidates of rounds, zeros for empty slots."""
    # Indicators of the candidate's index, where the logs have no `item_features`.
    if logs.item_features is None:
        features = np.zeros((len(rounds), logs.max_candidates))
        shown = np.flatnonzero(candidates != EMPTY)
        features[shown, candidates[shown]] = 1.0
        return features
    features = item_rows(logs, rounds, candidates)
    features[candidates == EMPTY] = 0.0
    return features


class ItemColumns:
    """How candidates are told apart by a model, to be compared with other logs."""

    def __init__(self, logs):
        self.indicators = logs.item_features is None
        self.width = _width(logs)

    def check(self, logs):
        """Raise where candidates of other logs have other columns."""
        indicators = logs.item_features is None
        if (indicators, _width(logs)) == (self.indicators, self.width):
            return
        if indicators and self.indicators:
            raise ValueError(
                f"the logs have {logs.max_candidates} candidates, those of the reward "
                f"model's fit had {self.width}. Without item_features the model "
                "identifies candidates by their index. Pass SlateLogs(..., "
                "item_features=...) in both, or the same n_candidates."
            )
        had, have = (
            "no item_features" if none else f"item_features of {width} columns"
            for none, width in (
                (self.indicators, self.width),
                (indicators, _width(logs)),
            )
        )
        raise ValueError(
            f"the logs have {have}, those of the reward model's fit had {had}. Use the "
            "same features of candidates in both."
        )


def _width(logs):
    """Return the number of columns of a candidate."""
    if logs.item_features is None:
        return logs.max_candidates
    return logs.item_features.shape[-1]


def _beside(context, features, names):
    if is_frame(context):
        frame = import_narwhals().from_native(context, eager_only=True)
        return add_columns(frame, dict(zip(names, features.T, strict=True)))
    if sparse.issparse(context):
        return sparse.hstack([context, sparse.csr_matrix(features)], format="csr")
    return np.hstack([context, features])

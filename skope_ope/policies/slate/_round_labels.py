# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Labels of rounds: a field or column of the logs, or an array for some rows."""

import numpy as np

from skope_ope.logs._frames import column_of, opened
from skope_ope.logs._row_container import own
from skope_ope.logs._row_labels import check_output_labels, check_row_labels
from skope_ope.logs._validation import check_labels, is_frame


class LabelsOfRows:
    """Labels that belong to given rows, wherever these rows are taken."""

    def __init__(self, labels, row_id):
        self.labels, self.row_id = labels, row_id

    def __call__(self, logs):
        """Return the labels of the rounds of logs."""
        known, asked = self.row_id, logs.row_id
        order = np.argsort(known.position, kind="stable")
        sorted_rows = known.position[order]
        place = np.searchsorted(sorted_rows, asked.position)
        place = np.minimum(place, len(order) - 1)
        here = known.origin == asked.origin
        if not (here and (sorted_rows[place] == asked.position).all()):
            raise ValueError(
                "`by` is an array, which belongs to the rows it was made for, and "
                "these are other rows. Carry the labels with "
                "logs.with_columns(name=...) and pass the column's name."
            )
        return self.labels[order[place]]


def round_labels(by, logs):
    """Return the label of every round, shape (n_rounds,)."""
    name = "by"
    if isinstance(by, str):
        name, by = f"by={by!r}", _field(by, logs)
    given = by
    if callable(by):
        given = by(own(logs, by))
        check_output_labels(f"the output of {name}", given, logs.context)
    else:
        check_row_labels(name, given, logs)
    labels = check_labels(name, given)
    if len(labels) != len(logs):
        raise ValueError(
            f"{name} must have one label per round ({len(logs)}), got {len(labels)}."
        )
    return labels


def _field(name, logs):
    if name in logs.columns:
        return logs.columns[name]
    if name in logs._row_fields and getattr(logs, name) is not None:
        return getattr(logs, name)
    if is_frame(logs.context):
        frame = opened(logs.context)
        if name in frame.columns:
            return column_of(frame, name)
    raise ValueError(
        f"the logs have no `{name}`, by which slates are given: neither a row field "
        f"nor a column (they have {sorted(logs.columns)}), nor one of the context. Add "
        "it with logs.with_columns."
    )

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Rounds that have the same labels in some columns."""

from math import prod

import numpy as np

from skope_ope.evaluators.core._rows import labels_of
from skope_ope.logs._coded_labels import coded_labels
from skope_ope.logs._factorise import factorise, rows_of_codes


class Cells:
    """Rounds that have the same labels in some columns."""

    def __init__(self, logs, names):
        self.names, self.labels, code = list(names), [], np.zeros(len(logs), np.intp)
        for name in self.names:
            labels, own = _labels_of(logs, name)
            self.labels.append(labels)
            code = code * len(labels) + own
        n_cells = prod(map(len, self.labels))
        self.found = np.arange(n_cells)
        if n_cells > 2 * len(code):
            self.found, code = np.unique(code, return_inverse=True)
        self.rows = rows_of_codes(code, len(self.found))

    def __iter__(self):
        for number, rows in zip(self.found.tolist(), self.rows, strict=True):
            if not len(rows):
                continue
            labels = []
            for some in reversed(self.labels):
                number, own = divmod(number, len(some))
                labels.append(some[own])
            yield labels[::-1], rows


def _labels_of(logs, name):
    """Return the distinct labels of a field or a column, and the code of each round."""
    values = labels_of(logs, name)
    if len(getattr(values, "shape", ())) > 1:
        raise ValueError(
            f"by={name!r} has {values.shape[1]} entries per round, and a part "
            "needs one label. Name a single column: scan_logs(..., "
            "columns=['day'])."
        )
    _, distinct, codes = coded_labels("by", values, copy=False)
    labels, place = factorise(distinct)
    return labels.tolist(), place[codes]

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Rounds that have the same labels in some columns."""

import numpy as np

from skope_ope.evaluators.core._rows import labels_of
from skope_ope.logs._coded_labels import coded_labels
from skope_ope.logs._factorise import factorise


class Cells:
    """Rounds that have the same labels in some columns.

    Parameters
    ----------
    logs : BanditLogs or SlateLogs
        The rounds.
    names : sequence of str
        The columns.
    """

    def __init__(self, logs, names):
        self.names, self.labels, code = list(names), [], np.zeros(len(logs), np.intp)
        for name in self.names:
            labels, own = _labels_of(logs, name)
            self.labels.append(labels)
            code = code * len(labels) + own
        self.found, code = np.unique(code, return_inverse=True)
        self.order = np.argsort(code, kind="stable")
        self.ends = np.cumsum(np.bincount(code, minlength=len(self.found)))

    def __iter__(self):
        begin = 0
        for number, end in zip(self.found.tolist(), self.ends.tolist(), strict=True):
            labels = []
            for some in reversed(self.labels):
                number, own = divmod(number, len(some))
                labels.append(some[own])
            yield labels[::-1], self.order[begin:end]
            begin = end


def _labels_of(logs, name):
    """Return the distinct labels of a field or a column, and the code of each round."""
    _, distinct, codes = coded_labels("by", labels_of(logs, name), copy=False)
    labels, place = factorise(distinct)
    return labels.tolist(), place[codes]

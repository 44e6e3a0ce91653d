# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What a bet on pages needs beside its ratios."""

import numpy as np

from skope_ope.logs._slate_logs import column_weights


def shares_of_pages(logs, rows, weighted=True):
    """Return the shares and the groups of pages, as `log_e_value` takes them."""
    share = np.ones(len(rows))
    weight = column_weights(logs) if weighted else None
    if weight is not None and weight[rows].any():
        share = weight[rows] / weight[rows].max()
    return share, None if logs.group is None else logs.group_index[rows]

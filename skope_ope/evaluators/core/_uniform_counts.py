# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Whether the counts of actions may come from a uniform logger."""

import numpy as np
from scipy.special import chdtrc

SURPRISE = 1e-6  # chances below this are told


def chance_if_uniform(counts):
    r"""Probability of counts at least as uneven as these under uniform logging."""
    # .. math:: P(\chi^2_{k - 1} \ge \sum_a (n_a - n / k)^2 / (n / k))
    counts = np.asarray(counts, dtype=float)
    if len(counts) < 2:
        return 1.0
    expected = counts.sum() / len(counts)
    return float(chdtrc(len(counts) - 1, ((counts - expected) ** 2).sum() / expected))

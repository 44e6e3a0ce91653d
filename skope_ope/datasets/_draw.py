# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Draw logged actions from a logging distribution."""

import numpy as np


def draw_actions(proba, rng):
    """Draw one action per row; never one of probability zero."""
    cumulative = np.cumsum(proba, axis=1)
    # Scaling by the row's own total keeps u below it whatever the rounding, and
    # "<=" steps over columns that add nothing.
    u = rng.random_sample(len(proba)) * cumulative[:, -1]
    action = (cumulative <= u[:, None]).sum(axis=1)
    return action, proba[np.arange(len(proba)), action]

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What a heavy tail of the weighted rewards means for their mean."""

from math import isnan

import numpy as np

from skope_ope.exceptions import TailWarning
from skope_ope.intervals._tail_shape import UNRELIABLE, is_bounded, tail_shape
from skope_ope.logs._shown_numbers import figure
from skope_ope.logs.checks._finding import Finding


def weighted_tail(weight, reward):
    """Return the shape of the tail of weighted rewards, and its standard error."""
    # Where the weights reach a bound, as those of a few recorded propensities do, the
    # tail is that of the rewards: a constant factor changes no shape. Products would
    # come in lumps, one for each size of the weights.
    counts = weight > 0
    weight, size = weight[counts], np.abs(reward[counts])
    return tail_shape(size if is_bounded(weight) else weight * size)


def tail_findings(shape, error):
    """Return a finding where a tail is heavy: an alarm where that is beyond doubt."""
    if isnan(shape) or shape <= UNRELIABLE:
        return []
    certain = shape - 2 * error > UNRELIABLE
    return [
        Finding(
            "heavy_tail",
            "warning" if certain else "note",
            f"The weighted rewards have a heavy tail: shape k = {shape:.2f} (tail "
            f"index {figure(1 / shape)}). From k = 0.5 on the variance is infinite. "
            "From k = 0.7 on no practical number of rounds makes a mean reliable. "
            "Standard errors and effective sizes are too optimistic.",
            (
                "Compare clipped values (cmax=...) and DRos, which limit the effect "
                "of a single round. Or collect logs closer to the policy.",
            ),
            number=shape,
            effect=shape,
            category=TailWarning,
        )
    ]

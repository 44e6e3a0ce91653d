# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What a heavy tail of the weighted rewards means for their mean."""

from math import isnan

from skope_ope.exceptions import TailWarning
from skope_ope.intervals._tail_shape import UNRELIABLE
from skope_ope.logs._shown_numbers import figure
from skope_ope.logs.checks._finding import Finding


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

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What we show: data, and a method `plot` that needs matplotlib."""

from skope_ope.displays._comparison_display import PolicyComparisonDisplay
from skope_ope.displays._curve_displays import (
    ClippingCurveDisplay,
    QuantileCurveDisplay,
)
from skope_ope.displays._overlap_displays import SupportDisplay, WeightsDisplay
from skope_ope.displays._sensitivity_display import SensitivityDisplay
from skope_ope.displays._sequence_displays import (
    ConfidenceSequenceDisplay,
    HistoryDisplay,
)
from skope_ope.displays._value_displays import ConvergenceDisplay, PolicyValueDisplay

__all__ = [
    "ClippingCurveDisplay",
    "ConfidenceSequenceDisplay",
    "ConvergenceDisplay",
    "HistoryDisplay",
    "PolicyComparisonDisplay",
    "PolicyValueDisplay",
    "QuantileCurveDisplay",
    "SensitivityDisplay",
    "SupportDisplay",
    "WeightsDisplay",
]

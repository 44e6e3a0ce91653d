# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What we show: data, and a method `plot` that needs matplotlib."""

from skope_ope.displays._clipping_curve_display import ClippingCurveDisplay
from skope_ope.displays._confidence_sequence_display import ConfidenceSequenceDisplay
from skope_ope.displays._convergence_display import ConvergenceDisplay
from skope_ope.displays._history_display import HistoryDisplay
from skope_ope.displays._policy_comparison_display import PolicyComparisonDisplay
from skope_ope.displays._policy_value_display import PolicyValueDisplay
from skope_ope.displays._quantile_curve_display import QuantileCurveDisplay
from skope_ope.displays._sensitivity_display import SensitivityDisplay
from skope_ope.displays._support_display import SupportDisplay
from skope_ope.displays._weights_display import WeightsDisplay

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

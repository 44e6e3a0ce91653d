# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Evaluators of logs whose logger learned while it acted."""

from skope_ope.evaluators.adaptive_logger._adaptive_dr import AdaptiveDR
from skope_ope.evaluators.adaptive_logger._adaptive_ips import AdaptiveIPS
from skope_ope.evaluators.adaptive_logger._confidence_sequence import ConfidenceSequence

__all__ = ["AdaptiveDR", "AdaptiveIPS", "ConfidenceSequence"]

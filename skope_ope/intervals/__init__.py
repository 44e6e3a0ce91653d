# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""How sure we are: intervals as pure functions."""

from skope_ope.intervals._clopper_pearson import clopper_pearson_interval
from skope_ope.intervals._confidence_interval import ConfidenceInterval
from skope_ope.intervals._gamma import gamma_interval
from skope_ope.intervals._standard import normal_interval, student_interval

__all__ = [
    "ConfidenceInterval",
    "clopper_pearson_interval",
    "gamma_interval",
    "normal_interval",
    "student_interval",
]

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Evaluators of logs that several loggers made."""

from skope_ope.evaluators.multi_logger._logger_overlap import (
    LoggerOverlap,
    logger_overlap,
)
from skope_ope.evaluators.multi_logger._multi_logger_dr import MultiLoggerDR
from skope_ope.evaluators.multi_logger._multi_logger_ips import MultiLoggerIPS
from skope_ope.evaluators.multi_logger._poolings import pooling_variance_ratio

__all__ = [
    "LoggerOverlap",
    "MultiLoggerDR",
    "MultiLoggerIPS",
    "logger_overlap",
    "pooling_variance_ratio",
]

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Estimate and bound propensities: from logs to logs."""

from skope_ope.propensities._propensity_estimator import (
    LoggerPropensityEstimator,
    PropensityClipper,
    PropensityEstimator,
)

__all__ = ["LoggerPropensityEstimator", "PropensityClipper", "PropensityEstimator"]

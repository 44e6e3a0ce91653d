# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Confidence intervals and confidence sequences, as functions of arrays."""

from skope_ope.intervals._bootstrap import bootstrap_interval, percentile_interval
from skope_ope.intervals._confidence_interval import (
    ConfidenceInterval,
    delta_ratio_interval,
    fieller_interval,
    normal_interval,
    student_interval,
)
from skope_ope.intervals._empirical_likelihood import (
    cressie_read_interval,
    cressie_read_value,
    empirical_likelihood_interval,
    empirical_likelihood_value,
)
from skope_ope.intervals._finite_sample import (
    betting_interval,
    betting_ratio_interval,
    clopper_pearson_interval,
    empirical_bernstein_interval,
    hoeffding_interval,
    log_smoothing_interval,
)
from skope_ope.intervals._gamma import gamma_interval
from skope_ope.intervals._sensitivity import breakdown_gamma, sensitivity_bounds
from skope_ope.intervals._sequences import (
    asymptotic_sequence,
    betting_sequence,
    empirical_bernstein_sequence,
)

__all__ = [
    "ConfidenceInterval",
    "asymptotic_sequence",
    "betting_interval",
    "betting_ratio_interval",
    "betting_sequence",
    "bootstrap_interval",
    "breakdown_gamma",
    "clopper_pearson_interval",
    "cressie_read_interval",
    "cressie_read_value",
    "delta_ratio_interval",
    "empirical_bernstein_interval",
    "empirical_bernstein_sequence",
    "empirical_likelihood_interval",
    "empirical_likelihood_value",
    "fieller_interval",
    "gamma_interval",
    "hoeffding_interval",
    "log_smoothing_interval",
    "normal_interval",
    "percentile_interval",
    "sensitivity_bounds",
    "student_interval",
]

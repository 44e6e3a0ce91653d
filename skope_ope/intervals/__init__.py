# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Confidence intervals and confidence sequences, as functions of arrays."""

from skope_ope.intervals._asymptotic_sequence import asymptotic_sequence
from skope_ope.intervals._betting import betting_interval, betting_ratio_interval
from skope_ope.intervals._betting_sequence import betting_sequence
from skope_ope.intervals._bootstrap import bootstrap_interval, percentile_interval
from skope_ope.intervals._clopper_pearson import clopper_pearson_interval
from skope_ope.intervals._confidence_interval import ConfidenceInterval
from skope_ope.intervals._cressie_read import cressie_read_interval, cressie_read_value
from skope_ope.intervals._empirical_bernstein import empirical_bernstein_interval
from skope_ope.intervals._empirical_bernstein_sequence import (
    empirical_bernstein_sequence,
)
from skope_ope.intervals._empirical_likelihood import (
    empirical_likelihood_interval,
    empirical_likelihood_value,
)
from skope_ope.intervals._gamma import gamma_interval
from skope_ope.intervals._hoeffding import hoeffding_interval
from skope_ope.intervals._log_smoothing import log_smoothing_interval
from skope_ope.intervals._ratio import delta_ratio_interval, fieller_interval
from skope_ope.intervals._sensitivity import breakdown_gamma, sensitivity_bounds
from skope_ope.intervals._standard import normal_interval, student_interval

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

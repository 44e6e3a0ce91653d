# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""How sure we are: intervals as pure functions."""

from skope_ope.intervals._asymptotic_sequence import asymptotic_sequence
from skope_ope.intervals._betting import betting_interval, betting_ratio_interval
from skope_ope.intervals._betting_sequence import betting_sequence
from skope_ope.intervals._clopper_pearson import clopper_pearson_interval
from skope_ope.intervals._confidence_interval import ConfidenceInterval
from skope_ope.intervals._cressie_read import cressie_read_interval, cressie_read_value
from skope_ope.intervals._empirical_bernstein_sequence import (
    empirical_bernstein_sequence,
)
from skope_ope.intervals._empirical_likelihood import (
    empirical_likelihood_interval,
    empirical_likelihood_value,
)
from skope_ope.intervals._gamma import gamma_interval
from skope_ope.intervals._standard import normal_interval, student_interval

__all__ = [
    "ConfidenceInterval",
    "asymptotic_sequence",
    "betting_interval",
    "betting_ratio_interval",
    "betting_sequence",
    "clopper_pearson_interval",
    "cressie_read_interval",
    "cressie_read_value",
    "empirical_bernstein_sequence",
    "empirical_likelihood_interval",
    "empirical_likelihood_value",
    "gamma_interval",
    "normal_interval",
    "student_interval",
]

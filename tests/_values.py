# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Values of policies that are stated, not estimated."""

import numpy as np

from skope_ope.evaluators import PolicyValue
from skope_ope.evaluators.core._design import Design
from skope_ope.evaluators.core._estimate import GivenEstimate
from skope_ope.evaluators.core._rows import Rows


def stated_value(
    value,
    standard_error,
    n_rounds,
    *,
    degrees_of_freedom=None,
    round_values=None,
    logs=None,
    **about,
):
    """Return a `PolicyValue` with these numbers; `about` are more of its arguments."""
    freedom = n_rounds - 1 if degrees_of_freedom is None else degrees_of_freedom
    z = np.full(n_rounds, value) if round_values is None else round_values
    design = Design(n_rounds)
    estimate = GivenEstimate(float(value), float(standard_error), freedom, z, design)
    return PolicyValue(estimate, Rows(design, z[None], logs=logs), **about)

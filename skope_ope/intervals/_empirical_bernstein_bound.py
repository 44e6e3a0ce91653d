# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The lower limit of a mean from the deviations of terms that are not negative."""

import numpy as np

from skope_ope.intervals._gamma_mixture import gamma_mixture_boundary
from skope_ope.intervals._sequence_rounds import running_sums

RHO = 10.0  # narrowest where squared deviations sum to about 100
PRIOR = 0.5  # a round of this term is counted with those that were seen


class EmpiricalBernsteinBound:
    """Lower limit of the mean of terms that are not negative, as rounds come in."""

    # It keeps three numbers, so that the result does not depend on how the rounds are
    # cut into parts.

    def __init__(self, needed, rho=RHO):
        self.needed, self.rho = needed, rho
        self.n, self.total, self.variation = 0, 0.0, 0.0

    def take(self, z, after):
        """Take the terms of further rounds."""
        totals = running_sums(self.total, z)
        rounds = np.arange(self.n + 1, self.n + len(z) + 1)
        known = (totals[:-1] + PRIOR) / rounds
        np.minimum(known, 1.0, out=known)  # or the process is no supermartingale
        variations = running_sums(self.variation, np.square(z - known, out=known))
        self.n += len(z)
        self.total, self.variation = float(totals[-1]), float(variations[-1])
        far = gamma_mixture_boundary(variations[after], self.needed, self.rho)
        return (totals[after] - far) / rounds[after - 1]

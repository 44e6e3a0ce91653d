# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The boundary of a gamma-exponential mixture, which sums cross with small chance."""

import numpy as np
from scipy.special import gammainc, gammaln, xlogy

STIRLING_FROM = 10.0  # from there four terms of the series give twelve digits
N_STEPS = 60
TOLERANCE = 1e-13  # relative, of a step of Newton's method


def gamma_mixture_boundary(variation, needed, rho):
    r"""Return how far a centred sum must rise for its mixture to reach exp(needed)."""
    # If :math:`\exp(\lambda S_t - \psi(\lambda) V_t)`, with :math:`\psi(\lambda) =
    # -\ln(1 - \lambda) - \lambda`, is a supermartingale for every :math:`\lambda` in
    # [0, 1), so is its average over a gamma distribution of :math:`1 - \lambda` that is
    # cut at 1 [1]_:
    #
    # .. math:: \ln W(s, v) = s + v + \rho \ln \rho - a \ln(s + a)
    #     + \ln\gamma(a, s + a) - \ln\gamma(\rho, \rho), \qquad a = v + \rho,
    #
    # with the lower incomplete gamma function. It rises in s and is convex, so that
    # Newton's method finds the s with :math:`\ln W(s, v) = needed`.
    a = np.asarray(variation, dtype=np.float64) + rho
    rest = _stirling_rest(a)
    known = rest - _stirling_rest(np.asarray(rho)) - np.log(gammainc(rho, rho))
    # about the boundary of normal sums
    s = np.sqrt(a * (2 * needed + np.log(a / rho))) + needed
    for _ in range(N_STEPS):
        share = gammainc(a, s + a)
        fall = s - a * np.log1p(s / a)
        density = np.exp(-rest - fall) / (s + a)  # of the gamma law, at s + a
        slope = s / (s + a) + density / share
        step = (fall + np.log(share) + known - needed) / slope
        s = np.maximum(s - step, 0.0)
        if np.all(np.abs(step) <= TOLERANCE * (1 + s)):
            break
    return s


def _stirling_rest(a):
    """Return ln Gamma(a) + a - a ln a, without the cancellation of large terms."""
    inverse = 1 / np.maximum(a, STIRLING_FROM)
    square = inverse * inverse
    series = 1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680))
    small = np.minimum(a, STIRLING_FROM)
    return np.where(
        a < STIRLING_FROM,
        gammaln(small) + small - xlogy(small, small),
        0.5 * np.log(2 * np.pi * inverse) + inverse * series,
    )

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import math

import numpy as np
import pytest
from scipy.integrate import quad

from skope_ope.intervals._sequences import gamma_mixture_boundary


def mixture(s, v, rho):
    """Average of exp(lambda s - psi(lambda) v), by quadrature over 1 - lambda."""

    def density(x):  # of 1 - lambda: a gamma law of shape and rate rho, cut at 1
        return x ** (rho - 1) * math.exp(-rho * x)

    def grown(x):
        return density(x) * math.exp((1 - x) * s - (-math.log(x) - (1 - x)) * v)

    return quad(grown, 0, 1)[0] / quad(density, 0, 1)[0]


@pytest.mark.parametrize("rho", [0.7, 1.0, 10.0])
@pytest.mark.parametrize("v", [0.0, 0.3, 5.0, 40.0])
def test_the_boundary_is_where_the_mixture_reaches_the_capital(rho, v):
    needed = math.log(40)
    [s] = gamma_mixture_boundary(np.array([v]), needed, rho)
    assert mixture(s, v, rho) == pytest.approx(40, rel=1e-7)


def test_vectors():
    """Of vw-estimators 0.2.2, whose capital at these sums is 20 to 1e-9."""
    found = gamma_mixture_boundary(np.array([0.1, 10.0, 1e4]), math.log(40), 1.0)
    np.testing.assert_allclose(found, [5.20850062, 13.1571731, 403.222295], rtol=1e-8)


def test_large_variations_keep_their_digits():
    v = np.array([1e6, 1e9, 1e12])
    far = gamma_mixture_boundary(v, math.log(40), 10.0)
    normal = np.sqrt((v + 10) * (np.log((v + 10) / 10) + 2 * math.log(40)))
    assert (np.abs(far / normal - 1) < 0.15).all()
    near = gamma_mixture_boundary(v * (1 + 1e-6), math.log(40), 10.0)
    assert ((near - far) / far / 5e-7 == pytest.approx(1, abs=0.2)) is True

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest

from skope_ope.evaluators.core._uniform_counts import chance_if_uniform


def test_chances_by_hand():
    # two degrees of freedom: exp(-10 / 2); one: a normal value beyond 2
    assert chance_if_uniform([10, 20, 30]) == pytest.approx(np.exp(-5), rel=1e-12)
    assert chance_if_uniform([60, 40]) == pytest.approx(0.0455002638963584, rel=1e-9)
    assert chance_if_uniform([50, 50]) == 1
    assert chance_if_uniform([900, 100]) < 1e-100
    assert chance_if_uniform([7]) == 1

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Equal weights are IPS; its formulas stand with those of AdaptiveDR."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import IPS, AdaptiveDR, AdaptiveIPS, ConstantPolicy
from skope_ope.datasets import make_adaptive_logs

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")


def test_equal_weights_are_ips():
    logs = make_adaptive_logs(200, random_state=0)
    ips = IPS().fit(logs).evaluate(ConstantPolicy(1))
    found = AdaptiveIPS().fit(logs).evaluate(ConstantPolicy(1))
    assert_allclose(found.value, ips.value)
    assert_allclose(found.standard_error, ips.standard_error)
    assert_allclose(found.round_values, ips.round_values)
    assert_allclose(found.effective_sample_size, ips.effective_sample_size)


@pytest.mark.parametrize("weighting", ["min_variance", "stable_variance", "cadr"])
def test_it_is_dr_with_a_model_of_zero(weighting):
    logs = make_adaptive_logs(200, random_state=0)
    pi = np.tile([0.2, 0.8], (200, 1))
    found = AdaptiveIPS(weighting=weighting).fit(logs).evaluate(pi)
    expected = AdaptiveDR(weighting=weighting).fit(logs, 0.0).evaluate(pi)
    assert_allclose(found.value, expected.value)
    assert_allclose(found.standard_error, expected.standard_error)

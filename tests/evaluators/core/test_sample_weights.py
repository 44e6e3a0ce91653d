# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope.evaluators.core._sample_weights import combined_weights
from tests._worlds import d8_logs


def test_sample_weights_are_multiplied_and_have_mean_one():
    a, b = np.arange(1.0, 9.0), np.linspace(2.0, 1.0, 8)
    assert combined_weights(d8_logs(), None) is None
    assert combined_weights(d8_logs(), np.full(8, 3.0)) is None  # equal: no matter
    assert_allclose(combined_weights(d8_logs(), a), a / 4.5)
    assert_allclose(combined_weights(d8_logs(sample_weight=a), None), a / 4.5)
    both = combined_weights(d8_logs(sample_weight=a), b)
    assert_allclose(both, a * b / (a * b).mean())
    assert combined_weights(d8_logs(sample_weight=a), 1 / a) is None


@pytest.mark.parametrize("weight", [np.zeros(8), -np.ones(8)], ids=["zero", "negative"])
def test_sample_weights_that_cannot_be(weight):
    with pytest.raises(ValueError, match="non-negative and positive somewhere"):
        combined_weights(d8_logs(), weight)


def test_weights_whose_product_is_zero():
    left, right = np.repeat([0.0, 1.0], 4), np.repeat([1.0, 0.0], 4)
    with pytest.raises(ValueError, match="is zero in every round: no round counts"):
        combined_weights(d8_logs(sample_weight=left), right)


def test_weights_must_fit_the_log():
    with pytest.raises(ValueError, match="sample_weight"):
        combined_weights(d8_logs(), np.ones(7))

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The template of static evaluators, by evaluators written for the occasion."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope import UniformPolicy
from skope_ope.base import StaticEvaluator
from skope_ope.evaluators.core._functions import ratio
from skope_ope.evaluators.core._sample_weights import combined_weights
from tests._worlds import d8, d8_logs

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")

LOG = d8()


class MeanWeight(StaticEvaluator):
    def _terms(self, rounds):
        return (rounds.w,)


class WeightedWeight(StaticEvaluator):
    """sum w^2 / sum w: a ratio of its own."""

    _combine = staticmethod(ratio)

    def _terms(self, rounds):
        return rounds.w**2, rounds.w


class Forgotten(StaticEvaluator):
    pass


W = LOG.pi[np.arange(8), LOG.action] / LOG.propensity


def test_one_formula_is_an_evaluator():
    result = MeanWeight().fit(d8_logs()).evaluate(LOG.pi)
    assert_allclose(result.value, W.mean(), rtol=1e-12)
    assert_allclose(result.standard_error, W.std(ddof=1) / 8**0.5, rtol=1e-12)
    assert_allclose(result.round_values, W, rtol=1e-12)
    assert result.estimator == "MeanWeight"
    assert result.diagnostics["altered_rows"] == 0


def test_ratios_are_linearised():
    result = WeightedWeight().fit(d8_logs()).evaluate(LOG.pi)
    value = (W**2).sum() / W.sum()
    assert_allclose(result.value, value, rtol=1e-12)
    z = value + (W**2 - value * W) / W.mean()
    assert_allclose(result.round_values, z, rtol=1e-12)
    assert_allclose(result.standard_error, z.std(ddof=1) / 8**0.5, rtol=1e-12)


def test_a_formula_is_needed():
    with pytest.raises(TypeError, match=r"Forgotten does not define _terms\(rounds\)"):
        Forgotten().fit(d8_logs()).evaluate(UniformPolicy())


def test_sample_weights_are_multiplied_and_have_mean_one():
    a, b = np.arange(1.0, 9.0), np.linspace(2.0, 1.0, 8)
    assert combined_weights(d8_logs(), None) is None
    assert combined_weights(d8_logs(), np.full(8, 3.0)) is None  # equal: no matter
    assert_allclose(combined_weights(d8_logs(), a), a / 4.5)
    assert_allclose(combined_weights(d8_logs(sample_weight=a), None), a / 4.5)
    both = combined_weights(d8_logs(sample_weight=a), b)
    assert_allclose(both, a * b / (a * b).mean())
    assert combined_weights(d8_logs(sample_weight=a), 1 / a) is None


def test_weights_given_are_left_alone():
    a, b = np.arange(1.0, 9.0), np.linspace(2.0, 1.0, 8)
    MeanWeight().fit(d8_logs(sample_weight=a)).evaluate(LOG.pi, sample_weight=b)
    assert_array_equal(a, np.arange(1.0, 9.0))
    assert_array_equal(b, np.linspace(2.0, 1.0, 8))


@pytest.mark.parametrize("weight", [np.zeros(8), -np.ones(8)], ids=["zero", "negative"])
def test_sample_weights_that_cannot_be(weight):
    with pytest.raises(ValueError, match="non-negative and positive somewhere"):
        combined_weights(d8_logs(), weight)

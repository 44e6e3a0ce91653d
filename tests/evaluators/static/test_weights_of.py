# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope import IPS, SNIPS, DirectMethod
from skope_ope.datasets import make_bandit_logs

LOGS, POLICY, _ = make_bandit_logs(300, random_state=0, return_truth=True)
W = POLICY.predict_proba(LOGS.context)[np.arange(300), LOGS.action_index]
W = W / LOGS.propensity


def test_weights_are_ratios_of_probabilities():
    weights, used = SNIPS().fit(LOGS)._weights_on(POLICY)
    assert_allclose(weights, W, rtol=1e-14)
    assert_array_equal(used, weights)


def test_used_weights_are_those_of_the_estimate():
    weights, used = IPS(cmax=1.5).fit(LOGS)._weights_on(POLICY, LOGS[:100])
    assert_allclose(weights, W[:100], rtol=1e-14)
    assert_array_equal(used, np.minimum(weights, 1.5))
    evaluator = IPS(cmax="auto").fit(LOGS)
    used = evaluator._weights_on(POLICY)[1]
    value = evaluator.evaluate(POLICY).value
    assert_allclose((used * LOGS.reward).mean(), value, rtol=1e-12)


def test_evaluators_without_weights_are_refused():
    with pytest.raises(ValueError, match="DirectMethod uses no importance weights"):
        DirectMethod().fit(LOGS)._weights_on(POLICY)

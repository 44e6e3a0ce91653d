# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope import IPS, DRos, SwitchDR
from skope_ope.datasets import make_bandit_logs

LOGS, POLICY, _ = make_bandit_logs(300, random_state=0, return_truth=True)


def test_every_bound_gives_the_value_of_an_evaluator_with_it():
    curve = IPS(cmax=2.0).fit(LOGS)._clipping_curve(POLICY, LOGS, [3.0, 0.5])
    assert curve["param_name"] == "cmax"
    assert curve["own"] == 2.0
    assert_array_equal(curve["param_range"], [0.5, 3.0])
    for bound, value in zip(curve["param_range"], curve["values"], strict=True):
        alone = IPS(cmax=bound).fit(LOGS).evaluate(POLICY)
        assert_allclose(value.value, alone.value, rtol=1e-14)
        assert_allclose(value.standard_error, alone.standard_error, rtol=1e-14)


def test_the_default_bounds_end_at_the_largest_weight():
    evaluator = SwitchDR(reward_model=0.3).fit(LOGS)
    curve = evaluator._clipping_curve(POLICY)
    assert curve["param_name"] == "tau"
    assert len(curve["values"]) == 30
    assert (np.diff(curve["param_range"]) > 0).all()
    assert curve["param_range"][-1] == evaluator._weights_on(POLICY)[0].max()


def test_evaluators_without_a_bound_are_refused():
    with pytest.raises(ValueError, match="DRos has no bound on the weights"):
        DRos().fit(LOGS)._clipping_curve(POLICY)

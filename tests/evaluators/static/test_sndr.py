# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import SNDR, SNIPS, DoublyRobust
from tests._worlds import FOUR_LOGS as LOGS
from tests._worlds import FOUR_PI as PI
from tests._worlds import FOUR_Q as Q

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")


def test_by_hand():
    v, w = np.array([1.2, 0, 2.6, 2]), np.array([2, 1, 0.5, 0])
    ratio = (2 * 2 - 1 - 0.5) / 3.5
    result = SNDR().fit(LOGS, Q).evaluate(PI)
    assert_allclose(result.value, v.mean() + ratio, rtol=1e-12)
    residual = np.array([2, -1, -1, -2])
    z = v + ratio + w * (residual - ratio) / (3.5 / 4)
    assert_allclose(result.round_values, z, rtol=1e-12)
    assert_allclose(result.standard_error, z.std(ddof=1) / 2, rtol=1e-12)


def test_a_constant_model_is_snips():
    for number in (0, 2.5):
        assert_allclose(
            SNDR(reward_model=number).fit(LOGS).score(PI), SNIPS().fit(LOGS).score(PI)
        )


def test_weights_of_mean_one_are_doubly_robust():
    mean_one = LOGS.replace(propensity=LOGS.propensity * 3.5 / 4)
    for evaluator in (SNDR(), DoublyRobust()):
        value = evaluator.fit(mean_one, Q).score(PI)
        assert_allclose(value, SNDR().fit(LOGS, Q).score(PI), rtol=1e-12)


def test_no_weight_no_value():
    never = np.array([[0.0, 1.0], [1.0, 0.0]] * 2)
    result = SNDR().fit(LOGS, Q).evaluate(never)
    assert np.isnan(result.value)
    assert any("has no estimate" in str(w) for w in result.warnings)

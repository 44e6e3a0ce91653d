# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""SNIPS by hand; values and exact bias in a tiny world are in test_vectors.py."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import SNIPS
from skope_ope.exceptions import LowOverlapWarning, SupportWarning
from tests._worlds import FOUR_LOGS as LOGS
from tests._worlds import FOUR_PI as PI

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")


def test_by_hand():
    result = SNIPS().fit(LOGS).evaluate(PI)
    assert_allclose(result.value, 7 / 3.5)
    z = 2 + np.array([2, 1, 0.5, 0]) * (np.array([3, -1, 4, 7]) - 2) / (3.5 / 4)
    assert_allclose(result.round_values, z, rtol=1e-12)
    assert_allclose(result.standard_error, z.std(ddof=1) / 2, rtol=1e-12)
    clipped = SNIPS(cmax=0.75).fit(LOGS).evaluate(PI)
    assert_allclose(clipped.value, (0.75 * 3 - 0.75 + 0.5 * 4) / 2)


def test_it_stays_within_the_rewards(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    for _ in range(20):
        reward = rng.normal(size=4)
        value = SNIPS().fit(LOGS.replace(reward=reward)).score(PI)
        assert reward[:3].min() - 1e-12 <= value <= reward[:3].max() + 1e-12


def test_no_weight_no_value():
    never = np.array([[0.0, 1.0], [1.0, 0.0]] * 2)
    with pytest.warns((LowOverlapWarning, SupportWarning)) as caught:
        result = SNIPS().fit(LOGS).evaluate(never)
    assert np.isnan(result.value)
    assert np.isnan(result.standard_error)
    assert any("has no estimate" in str(w.message) for w in caught)


def test_no_theorem():
    with pytest.raises(ValueError, match="no theorem bounds the deviation of SNIPS"):
        SNIPS().fit(LOGS).evaluate(PI).deviation_bound()

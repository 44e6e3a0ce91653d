# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.utils import get_tags

from skope_ope import SwitchDR
from tests._worlds import FOUR_LOGS as LOGS
from tests._worlds import FOUR_PI as PI
from tests._worlds import FOUR_Q as Q

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")

V, CORRECTION = np.array([1.2, 0, 2.6, 2]), np.array([4, -1, -0.5, 0])


@pytest.mark.parametrize(
    ("tau", "kept"),
    [
        (0, []),
        (0.4, []),
        (0.5, [2]),
        (1.5, [1, 2]),
        (2.0, [0, 1, 2]),
        (np.inf, [0, 1, 2]),
    ],
)
def test_by_hand(tau, kept):
    result = SwitchDR(tau=tau).fit(LOGS, Q).evaluate(PI)
    expected = V.copy()
    expected[kept] += CORRECTION[kept]
    assert_allclose(result.round_values, expected, rtol=1e-12, atol=1e-15)
    dropped = {0, 1, 2} - set(kept)
    assert result.diagnostics["altered_rows"] == len(dropped) / 4


def test_tags():
    assert get_tags(SwitchDR()).on_policy_mean
    assert get_tags(SwitchDR(tau=1)).on_policy_mean
    assert not get_tags(SwitchDR(tau=0.9)).on_policy_mean


@pytest.mark.parametrize("tau", [-1, np.nan, None, "10"])
def test_wrong_thresholds(tau):
    with pytest.raises(ValueError, match="'tau' parameter of SwitchDR must be a float"):
        SwitchDR(tau=tau).fit(LOGS)

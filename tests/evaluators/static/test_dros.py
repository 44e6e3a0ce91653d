# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.utils import get_tags

from skope_ope import DirectMethod, DoublyRobust, DRos
from tests._worlds import FOUR_LOGS as LOGS
from tests._worlds import FOUR_PI as PI
from tests._worlds import FOUR_Q as Q

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")


def test_by_hand():
    result = DRos(lam=4.0).fit(LOGS, Q).evaluate(PI)
    shrunk = np.array([8 / 8, 4 / 5, 2 / 4.25, 0])
    expected = np.array([1.2, 0, 2.6, 2]) + shrunk * np.array([2, -1, -1, -2])
    assert_allclose(result.round_values, expected, rtol=1e-12)


def test_limits():
    direct, robust = (
        e.fit(LOGS, Q).score(PI) for e in (DirectMethod(), DoublyRobust())
    )
    assert DRos(lam=0).fit(LOGS, Q).score(PI) == direct
    assert DRos(lam=np.inf).fit(LOGS, Q).score(PI) == robust
    assert_allclose(DRos(lam=1e-12).fit(LOGS, Q).score(PI), direct, rtol=1e-10)
    assert_allclose(DRos(lam=1e12).fit(LOGS, Q).score(PI), robust, rtol=1e-10)


def test_tags():
    assert get_tags(DRos(lam=np.inf)).on_policy_mean
    assert not get_tags(DRos()).on_policy_mean  # a weight of one is shrunk, too
    assert get_tags(DRos()).constant_reward


@pytest.mark.parametrize("lam", [-1, np.nan, None, "10"])
def test_wrong_shrinkage(lam):
    with pytest.raises(ValueError, match="'lam' parameter of DRos must be a float"):
        DRos(lam=lam).fit(LOGS)

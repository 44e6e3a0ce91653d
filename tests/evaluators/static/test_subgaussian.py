# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.utils import get_tags

from skope_ope import IPS, DoublyRobust, SubGaussianDR, SubGaussianIPS
from tests._worlds import FOUR_LOGS as LOGS
from tests._worlds import FOUR_PI as PI
from tests._worlds import FOUR_Q as Q

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")

HALF = np.array([4 / 3, 1, 2 / 3, 0])  # harmonic means with one


def test_by_hand():
    result = SubGaussianIPS(lam=0.5).fit(LOGS).evaluate(PI)
    assert_allclose(result.round_values, HALF * [3, -1, 4, 7], rtol=1e-12, atol=1e-15)
    result = SubGaussianDR(lam=0.5).fit(LOGS, Q).evaluate(PI)
    expected = np.array([1.2, 0, 2.6, 2]) + HALF * [2, -1, -1, -2]
    assert_allclose(result.round_values, expected, rtol=1e-12)


def test_limits():
    assert SubGaussianIPS(lam=0).fit(LOGS).score(PI) == IPS().fit(LOGS).score(PI)
    assert SubGaussianDR(lam=0).fit(LOGS, Q).score(PI) == (
        DoublyRobust().fit(LOGS, Q).score(PI)
    )
    # at one: the rewards of the rounds whose action the policy may take
    assert_allclose(SubGaussianIPS(lam=1).fit(LOGS).score(PI), (3 - 1 + 4) / 4)


def test_weights_are_bounded():
    tiny = LOGS.replace(propensity=np.full(4, 1e-9))
    value = SubGaussianIPS(lam=0.1).fit(tiny).score(PI)
    assert abs(value) <= 10 * LOGS.reward.max()


@pytest.mark.parametrize("cls", [SubGaussianIPS, SubGaussianDR])
def test_parameters_and_tags(cls):
    assert get_tags(cls()).on_policy_mean
    for lam in (-0.1, 1.1, np.nan, None):
        with pytest.raises(ValueError, match=f"'lam' parameter of {cls.__name__} must"):
            cls(lam=lam).fit(LOGS)

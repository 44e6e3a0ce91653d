# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.utils import get_tags

from skope_ope import IPS, BanditLogs, LogSmoothing
from tests._worlds import FOUR_LOGS, W1, exact_moments
from tests._worlds import FOUR_PI as PI

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")

LOGS = FOUR_LOGS.replace(reward=[3, 1, 4, 7])  # none is negative
WR = np.array([6, 1, 2, 0])


def test_by_hand():
    result = LogSmoothing(lam=0.25).fit(LOGS).evaluate(PI)
    assert_allclose(result.round_values, 4 * np.log1p(WR / 4), rtol=1e-12)
    default = LogSmoothing().fit(LOGS).evaluate(PI)  # 1 / sqrt(4)
    assert default.value == LogSmoothing(lam=0.5).fit(LOGS).score(PI)


def test_it_is_pessimistic_and_tends_to_ips():
    values = [LogSmoothing(lam=lam).fit(LOGS).score(PI) for lam in (2, 1, 0.1, 0)]
    assert values == sorted(values)
    assert values[-1] == IPS().fit(LOGS).score(PI)
    close = LogSmoothing(lam=1e-9).fit(LOGS).score(PI)
    assert_allclose(close, values[-1], rtol=1e-7)


def test_its_expectation_is_below_the_truth():
    def value(log):
        logs = BanditLogs(
            log.x.reshape(-1, 1), log.action, log.reward, log.propensity,
            actions=[0, 1, 2],
        )  # fmt: skip
        return LogSmoothing().fit(logs).score(log.pi)

    means = [exact_moments(W1, n, value)[0] for n in (1, 2)]
    assert means[0] < means[1] < W1.value  # lam falls as rounds are added


def test_negative_rewards_need_a_known_lower_bound():
    negative = LOGS.replace(reward=LOGS.reward - 5)
    with pytest.raises(ValueError, match=r"got -4 at row 1\. Pass reward_range"):
        LogSmoothing().fit(negative)
    with pytest.raises(ValueError, match="at row 1"):
        LogSmoothing().fit(LOGS).evaluate(PI, negative)
    shifted = BanditLogs(
        np.zeros((4, 1)), [0, 1, 0, 1], LOGS.reward - 5, LOGS.propensity,
        reward_range=(-5, 2),
    )  # fmt: skip
    result = LogSmoothing(lam=0.25).fit(shifted).evaluate(PI)
    assert_allclose(result.round_values, 4 * np.log1p(WR / 4) - 5, rtol=1e-12)
    at_zero = LogSmoothing(lam=0).fit(shifted).evaluate(PI)
    assert_allclose(at_zero.round_values, WR - 5, rtol=1e-12)


def test_a_positive_lower_bound_is_not_subtracted():
    ranged = BanditLogs(
        np.zeros((4, 1)), [0, 1, 0, 1], LOGS.reward, LOGS.propensity,
        reward_range=(1, 7),
    )  # fmt: skip
    expected = LogSmoothing().fit(LOGS).score(PI)
    assert LogSmoothing().fit(ranged).score(PI) == expected


def test_parameters_and_tags():
    assert not get_tags(LogSmoothing()).scale_equivariant
    assert get_tags(LogSmoothing(lam=0)).scale_equivariant
    for lam in (-1, np.nan, "auto"):
        with pytest.raises(ValueError, match="'lam' parameter of LogSmoothing must be"):
            LogSmoothing(lam=lam).fit(LOGS)

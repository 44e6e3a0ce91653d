# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope import BanditLogs, ConstantPolicy, DoublyRobust
from skope_ope.datasets import make_shop_frame

pytest.importorskip("pandas")
pytestmark = pytest.mark.frames
COLUMNS = {"action": "offer", "reward": "bought", "propensity": "p"}


def logs_of(frame):
    context = ["age", "visits", "mobile"]
    return BanditLogs.from_frame(frame, context=context, reward_range=(0, 1), **COLUMNS)


def test_columns_and_truth_agree():
    frame, truth = make_shop_frame(3000, random_state=0, return_truth=True)
    logs = logs_of(frame)
    assert_array_equal(logs.actions, truth.actions)
    assert truth.expected_rewards.shape == truth.logging_proba.shape == (3000, 3)
    rows = np.arange(3000)
    assert_array_equal(truth.logging_proba[rows, logs.action_index], logs.propensity)
    loyal = (frame["visits"] > 4).to_numpy()
    coupon = list(truth.actions).index("coupon")
    assert_allclose(truth.logging_proba[:, coupon], np.where(loyal, 0.6, 0.25))


def test_rewards_are_those_of_the_world():
    row = {"age": 30, "visits": 5, "mobile": 1}
    frame, truth = make_shop_frame(20_000, random_state=1, return_truth=True)
    same = (frame[list(row)] == list(row.values())).all(axis=1).to_numpy()
    assert same.any()
    expected = {
        "none": 0.04 + 0.004 * 5,
        "coupon": 0.05 + 0.0015 * 5 + 0.035,
        "shipping": 0.045 + 0.004 * 5,
    }
    assert_allclose(
        truth.expected_rewards[same][0], [expected[one] for one in truth.actions]
    )
    mean = (truth.logging_proba * truth.expected_rewards).sum(axis=1).mean()
    assert frame["bought"].mean() == pytest.approx(mean, abs=0.005)


def test_seeds():
    one, two = (make_shop_frame(50, random_state=seed) for seed in (3, 3))
    assert one.equals(two)
    assert not one.equals(make_shop_frame(50, random_state=4))


def test_intervals_cover_the_truth():
    covered = 0
    for seed in range(20):
        frame, truth = make_shop_frame(4000, random_state=seed, return_truth=True)
        value = DoublyRobust().fit(logs_of(frame)).evaluate(ConstantPolicy("coupon"))
        low, high = value.confidence_interval()
        coupon = list(truth.actions).index("coupon")
        covered += low <= truth.expected_rewards[:, coupon].mean() <= high
    assert covered >= 17


def test_a_round_is_needed():
    with pytest.raises(ValueError, match="n_rounds"):
        make_shop_frame(0)

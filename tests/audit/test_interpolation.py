# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest

from skope_ope.audit._reward_leak import interpolated, r2_of, varies


def test_interpolated_by_hand():
    # 2.0 between its neighbours 1 and 4 at a third of the way from 0 to 3
    values, reward = np.array([4.0, 2, 1]), np.array([3.0, 9, 0])
    np.testing.assert_allclose(interpolated(values, reward), [np.nan, 1, np.nan])
    # nine rounds of one value: the mean of the other eight
    values, reward = np.zeros(9), np.arange(9.0)
    np.testing.assert_allclose(interpolated(values, reward), (36 - reward) / 8)


def test_r2_by_hand():
    target = np.array([0.0, 2.0, 4.0])
    assert r2_of(target, target) == 1
    assert r2_of(np.array([1.0, 2.0, 3.0]), target) == 0.75
    assert r2_of(np.array([np.nan, 2.0, 3.0]), target) == 0.5
    assert r2_of(np.full(3, np.nan), target) == 0


def test_rounds_of_one_value_do_not_tell_each_other():
    # copies of a round: fewer than eight of a value are told by other values
    values = np.repeat([1.0, 2.0, 4.0], 7)
    reward = np.repeat([0.0, 9.0, 3.0], 7)
    np.testing.assert_allclose(
        interpolated(values, reward), np.repeat([np.nan, 1, np.nan], 7)
    )


def test_categories_and_missing_values_have_no_neighbours():
    reward = np.array([1.0, 2, 3, 6])
    others = (12 - reward) / 3
    codes = np.arange(4.0)
    np.testing.assert_allclose(interpolated(codes, reward, True), others)
    values = np.array([1.0, 2, 3, np.nan])
    predicted = interpolated(values, reward)
    np.testing.assert_allclose(predicted, [np.nan, 2, np.nan, 2])


@pytest.mark.parametrize("function", [np.exp, np.abs, np.sin])
def test_any_smooth_function_is_seen(function):
    x = np.random.default_rng(0).normal(size=2000)
    assert r2_of(interpolated(x, function(3 * x)), function(3 * x)) > 0.99


def test_heavy_tails_are_seen():
    reward = np.random.default_rng(0).pareto(1.0, 2000)
    assert r2_of(interpolated(2 - reward, reward), reward) == pytest.approx(1)


def test_varies():
    assert not varies(np.append(np.zeros(100), np.ones(7)))
    assert varies(np.append(np.zeros(100), np.ones(8)))

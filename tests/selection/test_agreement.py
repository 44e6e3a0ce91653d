# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest

from skope_ope import BanditLogs, ConstantPolicy, UniformPolicy
from skope_ope._shell._on_policy import agreement_caveat, drift
from skope_ope.evaluators._logged_value import logged_value
from tests._values import stated_value


def value(estimate, error):
    return stated_value(estimate, error, 1000, estimator="x")


def logs_of(propensity):
    n = len(propensity)
    return BanditLogs(np.zeros((n, 1)), np.arange(n) % 2, np.ones(n), propensity)


def test_a_policy_does_not_drift_from_itself():
    found = drift(UniformPolicy(), logs_of(np.full(100, 0.5)))
    assert found["low_ratio"] == found["high_ratio"] == 1
    assert found["differing_share"] == 0
    assert np.isnan(found["correlation"])


def test_drift_is_measured_on_the_logged_actions():
    proba = np.column_stack([np.linspace(0.2, 0.8, 100), np.linspace(0.8, 0.2, 100)])
    logged = proba[np.arange(100), np.arange(100) % 2]
    found = drift(proba, logs_of(logged / 2))
    assert found["low_ratio"] == pytest.approx(2)
    assert found["differing_share"] == 1
    assert found["correlation"] == pytest.approx(1)


def test_drift_is_unknown_without_propensities():
    logs = BanditLogs(np.zeros((2, 1)), [0, 1], [1.0, 1.0])
    assert drift(UniformPolicy(), logs) is None


def test_actions_never_taken_by_the_policy_do_not_break_the_correlation():
    found = drift(ConstantPolicy(0), logs_of(np.full(10, 0.5)))
    assert found["low_ratio"] == 0
    assert np.isnan(found["correlation"])


def test_many_rewards_and_the_same_policy_need_no_caveat():
    same = {"differing_share": 0.0}
    assert (
        agreement_caveat([value(0.5, 0.01)], value(0.5, 0.01), (900, 800), same) == ""
    )
    assert (
        agreement_caveat([value(0.5, 0.01)], value(0.5, 0.01), (900, 800), None) == ""
    )


def test_few_rewards_are_counted():
    text = agreement_caveat([value(0.5, 0.01)], value(0.5, 0.01), (46, 1069), None)
    assert text.startswith(
        "agreement decides nothing: with 46 rewarded rounds here and"
    )
    assert "1,069 there" in text
    # 2.8 * sqrt(2) * 0.01 = 0.0396, and 8% of 0.5
    assert "a true difference of 0.04 (8% of the on-policy value)" in text


def test_large_errors_are_a_reason_with_any_number_of_rewards():
    text = agreement_caveat([value(0.5, 0.2)], value(0.5, 0.2), (900, 800), None)
    assert "0.79 (158% of the on-policy value) would be missed" in text


def test_drift_is_a_reason():
    found = {
        "low_ratio": 0.054,
        "high_ratio": 2.7,
        "differing_share": 0.9,
        "correlation": 0.61,
    }
    text = agreement_caveat([value(0.5, 0.01)], value(0.5, 0.01), (900, 800), found)
    assert "is 0.054 to 2.7 times the recorded propensity" in text
    assert text.endswith("correlation of logs 0.61.")


def test_nothing_can_be_said_of_estimates_without_error():
    nan = float("nan")
    assert agreement_caveat([value(0.5, nan)], value(0.5, 0.1), (5, 5), None) == ""


def test_a_log_without_rewards_decides_nothing():
    logs = BanditLogs(np.zeros((9, 1)), [0] * 9, np.zeros(9), np.ones(9))
    text = agreement_caveat([value(0.5, 0.1)], logged_value(logs), (5, 0), None)
    assert "(inf% of the on-policy value)" in text

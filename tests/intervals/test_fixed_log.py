# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Every interval of the fixed log of eight rounds, through the public API.

The numbers were computed independently of this package. No weight of `W1` is above 4;
those of the likelihood methods are for a stated bound of 6.
"""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import IPS, SNIPS, BanditLogs, ConstantPolicy, DoublyRobust
from skope_ope.exceptions import FewEventsWarning
from skope_ope.intervals import (
    betting_interval,
    cressie_read_value,
    empirical_bernstein_interval,
    empirical_likelihood_value,
    hoeffding_interval,
)
from tests._worlds import d8, d8_logs

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")

LOGS = d8_logs(logging_proba=d8().mu, reward_range=(0, 1))


def value_of(evaluator, policy="pi"):
    return evaluator.fit(LOGS).evaluate(policy)


# method, its options, limits of IPS
INTERVALS = [
    ("normal", {}, (-0.141500, 2.066500)),
    ("student", {}, (-0.369435, 2.294435)),
    ("empirical_likelihood", {"max_weight": 6}, (0.211694, 0.967926)),
    ("cressie_read", {"max_weight": 6}, (0.0, 1.0)),
]


@pytest.mark.parametrize(("method", "options", "expected"), INTERVALS)
def test_intervals(method, options, expected):
    found = value_of(IPS()).confidence_interval(method=method, **options)
    assert_allclose(found, expected, rtol=0, atol=6e-7)
    assert found.method == method
    if options:  # what knows the mean weight is the same for both
        snips = value_of(SNIPS()).confidence_interval(method=method, **options)
        assert found == snips


@pytest.mark.parametrize(
    ("function", "expected"),
    [(empirical_likelihood_value, 0.772127), (cressie_read_value, 0.793805)],
)
def test_values_by_likelihood(function, expected):
    log = d8()
    w = log.pi[np.arange(8), log.action] / log.propensity
    value = function(w, log.reward, max_weight=6, reward_range=(0, 1))
    assert_allclose(value, expected, rtol=0, atol=5e-7)


@pytest.mark.parametrize(
    ("method", "function", "expected"),
    [
        ("betting", betting_interval, (0, 2.792)),
        ("hoeffding", hoeffding_interval, (-0.958146, 2.883146)),
        ("empirical_bernstein", empirical_bernstein_interval, (-6.5477, 8.4727)),
    ],
)
def test_those_of_bounded_terms_are_cut_to_the_range(method, function, expected):
    """No value of rewards in [0, 1] leaves [0, 1]; terms lie in [0, 4]."""
    value = value_of(IPS())
    digits = len(str(expected[1]).split(".")[1])
    assert_allclose(function(value.round_values, 4), expected, atol=0.6 * 10**-digits)
    assert value.confidence_interval(method=method, max_weight=4) == (0, 1)


def test_bootstrap():
    """Both numbers come from 20,000 resamples: four standard errors of each."""
    value = value_of(SNIPS())
    with pytest.warns(FewEventsWarning) as warned:
        found = value.confidence_interval(method="bootstrap", n_resamples=20_000)
    assert_allclose(found, (-1.109, 1.661), rtol=0, atol=0.08)
    [dropped] = re.findall(r"(\d+) resamples without a spread", str(warned[0].message))
    assert abs(int(dropped) - 458) < 4 * np.sqrt(2 * 458)


def test_paired_differences():
    other = np.array([[0.3, 0.3, 0.4], [0.4, 0.4, 0.2]])[d8().x]
    dr = DoublyRobust(reward_model="q_hat")
    first, second = value_of(dr), value_of(dr, other)
    gain = first - second
    assert_allclose(gain.value, 0.17125, rtol=0, atol=6e-13)
    assert_allclose(gain.standard_error, 0.133642, rtol=0, atol=6e-7)
    unpaired = np.hypot(first.standard_error, second.standard_error)
    assert_allclose(unpaired, 0.317682, rtol=0, atol=6e-7)
    half = 2.364624 * gain.standard_error  # Student's quantile with 7 degrees
    student = gain.confidence_interval(method="student")
    assert_allclose(student, (gain.value - half, gain.value + half), atol=6e-7)


def test_shares():
    """Twenty rounds of the policy's action among forty of a uniform logger."""
    for successes, expected in (
        (7, (0.153909, 0.592189)),
        (0, (0, 0.168433)),
        (20, (0.831567, 1)),
    ):
        reward = (np.arange(40) < successes).astype(float)
        given = np.zeros((40, 1)), np.repeat([0, 1], 20), reward, 0.5
        logs = BanditLogs(*given, reward_range=(0, 1))
        value = SNIPS().fit(logs).evaluate(ConstantPolicy(0))
        found = value.confidence_interval(method="clopper_pearson")
        assert_allclose(found, expected, rtol=0, atol=6e-7)

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest

from skope_ope import SNIPS, BanditLogs
from skope_ope.evaluators._logged_value import logged_value


def logs_of(seed, weight=False):
    rng = np.random.RandomState(seed)
    n = 200
    p = rng.uniform(0.2, 0.8, n)
    return BanditLogs(
        np.zeros((n, 1)),
        rng.randint(2, size=n),
        rng.standard_normal(n),
        p,
        sample_weight=rng.uniform(0.5, 2, n) if weight else None,
    )


# The propensities are drawn without regard to the actions, which is noticed.
@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.PropensityWarning")
@pytest.mark.parametrize("weight", [False, True])
def test_it_is_the_value_of_the_logger_itself(weight, global_random_seed):
    """SNIPS with weights of one is the (weighted) mean reward."""
    logs = logs_of(global_random_seed, weight)
    value, expected = logged_value(logs), SNIPS().fit(logs).evaluate(logs.propensity)
    assert value.value == pytest.approx(expected.value, rel=1e-12)
    assert value.standard_error == pytest.approx(expected.standard_error, rel=1e-10)
    np.testing.assert_allclose(value.round_values, expected.round_values, rtol=1e-9)
    gain = expected - value
    assert abs(gain.value) < 1e-12
    assert gain.standard_error < 1e-12


def test_sizes():
    logs = logs_of(0)
    assert logged_value(logs).effective_sample_size == 200
    assert logged_value(logs_of(0, True)).effective_sample_size < 200


def test_one_round_has_no_standard_error():
    value = logged_value(logs_of(0)[:1])
    assert np.isnan(value.standard_error)

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import IPS, SNIPS
from skope_ope.evaluators.core._jackknife import jackknife_error
from skope_ope.exceptions import OPEWarning
from tests.evaluators._summing import world

pytestmark = pytest.mark.filterwarnings(f"ignore::{OPEWarning.__module__}.OPEWarning")
LOGS = world(120, group=np.arange(120) % 17)


def error_by_leaving_out(score, n_groups=17):
    """Return the error from estimates on the rounds of all groups but one."""
    values = np.array([score(LOGS[LOGS.group != group]) for group in range(n_groups)])
    return np.sqrt((n_groups - 1) / n_groups * ((values - values.mean()) ** 2).sum())


@pytest.mark.parametrize("evaluator", [IPS(), SNIPS()])
def test_it_leaves_out_one_group_at_a_time(evaluator):
    value = evaluator.fit(LOGS).evaluate("pi")
    expected = error_by_leaving_out(lambda logs: evaluator.fit(logs).score("pi"))
    assert_allclose(jackknife_error(value), expected, rtol=1e-11)
    low, high = value.confidence_interval(method="jackknife")
    assert_allclose((low + high) / 2, value.value)
    if isinstance(evaluator, IPS) and not isinstance(evaluator, SNIPS):
        assert abs(expected / value.standard_error - 1) < 0.05


def test_of_a_difference_both_leave_out_the_same_group():
    def gain(logs):
        fitted = SNIPS().fit(logs)
        return fitted.score("pi") - fitted.score("other")

    fitted = SNIPS().fit(LOGS)
    found = fitted.evaluate("pi") - fitted.evaluate("other")
    assert_allclose(jackknife_error(found), error_by_leaving_out(gain), rtol=1e-11)


def test_it_needs_groups_and_a_function_of_sums():
    alone = IPS().fit(LOGS.replace(group=None)).evaluate("pi")
    with pytest.raises(ValueError, match="these rounds have none"):
        alone.confidence_interval(method="jackknife")
    one = IPS().fit(LOGS.replace(group=np.zeros(120))).evaluate("pi")
    assert np.isnan(jackknife_error(one))

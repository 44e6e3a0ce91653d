# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope import IPS, SNIPS, compare_policies
from skope_ope.datasets import make_bandit_logs
from skope_ope.displays import SensitivityDisplay

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
LOGS, POLICY, TRUTH = make_bandit_logs(random_state=0, return_truth=True)
EVALUATOR = SNIPS().fit(LOGS)
BASELINE = float(LOGS.reward.mean())


@pytest.fixture(scope="module")
def value():
    return EVALUATOR.evaluate(POLICY)


def test_bounds_are_those_of_the_value(value):
    display = SensitivityDisplay.from_values(value, gamma=[2, 1, 1.5], level=0.8)
    want = value.sensitivity([1, 1.5, 2], level=0.8)
    for name in ("gamma", "low", "high", "interval_low", "interval_high"):
        assert_array_equal(getattr(display, name), getattr(want, name))
    assert (display.value, display.name) == (value.value, "SNIPS")
    assert display.baseline is None and display.breakdown is None


def test_a_baseline(value):
    display = SensitivityDisplay.from_values(value, baseline=BASELINE)
    assert display.breakdown == value.breakdown_gamma(BASELINE)
    of_interval = value.breakdown_gamma(BASELINE, level=0.95)
    assert display.breakdown_of_interval == of_interval < display.breakdown
    at = np.interp(display.breakdown, display.gamma, display.low)
    assert_allclose(at, BASELINE, atol=2e-3)  # between points of the curve
    logger = compare_policies({"new": POLICY}, LOGS, evaluator=SNIPS()).reference
    paired = SensitivityDisplay.from_values(value, baseline=logger)
    assert paired.breakdown == display.breakdown
    assert paired.baseline == BASELINE


@pytest.mark.parametrize(
    "baseline, largest", [(None, 3), (BASELINE, 3), (0.4, 3.4), (0.0, 20)]
)
def test_the_curve_goes_beyond_the_baseline(value, baseline, largest):
    display = SensitivityDisplay.from_values(value, baseline=baseline)
    assert display.gamma[0] == 1
    assert display.gamma[-1] == pytest.approx(largest, abs=0.2)


def test_from_evaluator(value):
    given = {"gamma": [1, 2], "baseline": BASELINE}
    display = SensitivityDisplay.from_evaluator(EVALUATOR, POLICY, **given)
    assert_array_equal(display.low, value.sensitivity([1, 2]).low)
    part = SensitivityDisplay.from_evaluator(EVALUATOR, POLICY, logs=LOGS[:200])
    assert part.value == EVALUATOR.score(POLICY, LOGS[:200])


def test_bad_input(value):
    with pytest.raises(ValueError, match="sensitivity is for SNIPS"):
        SensitivityDisplay.from_evaluator(IPS().fit(LOGS), POLICY)
    with pytest.raises(TypeError, match="value must be a PolicyValue, got float"):
        SensitivityDisplay.from_values(0.5)
    with pytest.raises(ValueError, match="gamma must be at least 1"):
        SensitivityDisplay.from_values(value, gamma=[0.5])
    with pytest.raises(TypeError, match="baseline must be a number"):
        SensitivityDisplay.from_values(value, baseline="logger")


def corners(area):
    return area.get_paths()[0].vertices[:, 1]


def test_plot(pyplot, value):
    display = SensitivityDisplay.from_values(value, baseline=BASELINE)
    assert display.plot() is display
    assert_allclose(corners(display.bounds_).min(), display.low.min())
    assert_allclose(corners(display.intervals_).max(), display.interval_high.max())
    vertical = [line.get_xdata()[0] for line in display.ax_.lines[-2:]]
    assert vertical == [display.breakdown, display.breakdown_of_interval]
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert texts == [
        "with their\n95% intervals",
        "bounds of the estimate",
        "SNIPS, nothing hidden",
        "baseline",
        f"bounds reach it\nat {display.breakdown:.2f}",
        f"intervals reach it\nat {display.breakdown_of_interval:.2f}",
    ]


def test_a_baseline_that_is_not_reached_is_told(pyplot, value):
    display = SensitivityDisplay.from_values(value, gamma=[1, 1.2], baseline=BASELINE)
    label = display.plot().ax_.get_xlabel()
    assert label.endswith(f"the bounds reach the baseline at {display.breakdown:.2f}")
    never = SensitivityDisplay.from_values(value, baseline=-1.0).plot()
    assert never.breakdown == np.inf
    assert never.ax_.get_xlabel().endswith("the bounds never reach the baseline")

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope import (
    IPS,
    SNDR,
    SNIPS,
    BanditLogs,
    DirectMethod,
    DRns,
    ExplorationScavenging,
    SwitchDR,
    UniformPolicy,
    evaluate,
)
from skope_ope.datasets import make_bandit_logs
from skope_ope.displays import ConvergenceDisplay

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
LOGS, POLICY, TRUTH = make_bandit_logs(400, random_state=0, return_truth=True)
SIZES = [1, 150, 400]
EVALUATORS = [
    IPS(),
    SNIPS(),
    SNDR(reward_model=0.4),
    SwitchDR(reward_model=0.4),
    DirectMethod(reward_model=0.4),
    ExplorationScavenging(self_normalized=True),
]


@pytest.mark.parametrize("evaluator", EVALUATORS, ids=lambda e: type(e).__name__)
def test_values_are_those_of_shorter_logs(evaluator):
    """Ratios are formed anew, not averaged over linearised terms."""
    display = ConvergenceDisplay.from_evaluator(
        evaluator.fit(LOGS), POLICY, sizes=SIZES
    )
    for i, size in enumerate(SIZES):
        part = evaluator.fit(LOGS[:size]).evaluate(POLICY)
        [curve] = display.values.values()
        # of one round the value is 0, up to the rounding of terms near one
        assert_allclose(display.value[0, i], part.value, rtol=1e-10, atol=1e-14)
        assert_allclose(curve[i].standard_error, part.standard_error, rtol=1e-10)


def test_intervals_are_those_of_the_values():
    table = evaluate(POLICY, LOGS, evaluators=["SNIPS", "DirectMethod"])
    display = ConvergenceDisplay.from_values(table, sizes=SIZES, level=0.8)
    assert display.keys == ["SNIPS", "DirectMethod"]
    assert display.value.shape == display.low.shape == (2, 3)
    whole = table["SNIPS"].confidence_interval(0.8)
    assert (display.low[0, -1], display.high[0, -1]) == whole
    middle = display.values["SNIPS"][1].confidence_interval(0.8)
    assert (display.low[0, 1], display.high[0, 1]) == middle
    assert display.leaves_bias_out == [False, "the error of the reward model"]


def test_rounds_are_taken_by_their_timestamps():
    order = np.random.RandomState(0).permutation(400)
    time = np.empty(400)
    time[order] = np.arange(400)
    fields = LOGS.context, LOGS.action, LOGS.reward, LOGS.propensity
    shuffled = BanditLogs(*fields, timestamp=time)
    display = ConvergenceDisplay.from_evaluator(
        SNIPS().fit(shuffled), POLICY, sizes=[100]
    )
    part = SNIPS().fit(LOGS[order[:100]]).evaluate(POLICY)
    assert_allclose(display.value, [[part.value]])


def test_sizes():
    value = IPS().fit(LOGS).evaluate(POLICY)
    assert_array_equal(ConvergenceDisplay.from_values(value).sizes[[0, -1]], [14, 400])
    few = IPS().fit(LOGS[:5]).evaluate(UniformPolicy())
    assert_array_equal(ConvergenceDisplay.from_values(few).sizes, [1, 2, 3, 4, 5])
    for sizes in ([0, 5], [500], [1.5], []):
        with pytest.raises(ValueError, match="whole numbers of rounds from 1 to 400"):
            ConvergenceDisplay.from_values(value, sizes=sizes)


def test_what_has_no_prefix():
    value, other = (SNIPS().fit(LOGS).evaluate(p) for p in (POLICY, UniformPolicy()))
    with pytest.raises(ValueError, match=r"cannot be computed from sums.*logs\[:m\]"):
        ConvergenceDisplay.from_values({"gain": value - other})
    simulated = DRns(random_state=0).fit(LOGS).evaluate(POLICY)
    with pytest.raises(
        ValueError, match=r"cannot be computed from sums.*HistoryDisplay"
    ):
        ConvergenceDisplay.from_values(simulated)
    part = SNIPS().fit(LOGS[:100]).evaluate(POLICY)
    with pytest.raises(ValueError, match=r"of the same rounds, got \[100, 400\]"):
        ConvergenceDisplay.from_values({"one": value, "other": part})
    with pytest.raises(TypeError, match=r"must be a PolicyValue.*float"):
        ConvergenceDisplay.from_values({"IPS": 0.5})


def test_plot(pyplot):
    evaluators = {"IPS": IPS().fit(LOGS), "model": DirectMethod().fit(LOGS)}
    policies = {"sharp": POLICY, "uniform": UniformPolicy()}
    display = ConvergenceDisplay.from_evaluator(evaluators, policies, sizes=SIZES)
    assert display.plot(truth=0.6) is display
    for drawn, value in zip(display.lines_, display.value, strict=True):
        assert_array_equal(drawn.get_xdata(), SIZES)
        assert_array_equal(drawn.get_ydata(), value)
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    names = ["sharp,\nIPS", "sharp,\nmodel", "uniform,\nIPS", "uniform,\nmodel"]
    assert [text.replace("\n", " ") for text in texts] == [
        *(name.replace("\n", " ") for name in names),
        "truth",
    ]
    label = display.ax_.get_xlabel().replace("\n", " ")
    assert "95% intervals, each for one size chosen beforehand" in label
    assert "those of sharp, model, uniform, model leave out the error of the" in label
    ends = [line.get_ydata() for line in display.ax_.lines]
    assert any(np.array_equal(end, display.low[0], equal_nan=True) for end in ends)

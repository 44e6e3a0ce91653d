# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope import IPS, MRDR, SNIPS, DirectMethod, DRos, SwitchDR, UniformPolicy
from skope_ope.datasets import make_bandit_logs
from skope_ope.displays import WeightsDisplay
from skope_ope.policies import action_probabilities

LOGS, POLICY, TRUTH = make_bandit_logs(400, random_state=1, return_truth=True)
WEIGHTS = (
    action_probabilities(POLICY, LOGS)[np.arange(400), LOGS.action_index]
    / LOGS.propensity
)


@pytest.mark.parametrize(
    "evaluator, used",
    [
        (IPS(), WEIGHTS),
        (SNIPS(cmax=1.5), np.minimum(WEIGHTS, 1.5)),
        (SwitchDR(tau=1.2), np.where(WEIGHTS <= 1.2, WEIGHTS, 0)),
        (DRos(lam=2.0), 2 * WEIGHTS / (WEIGHTS**2 + 2)),
        (MRDR(), WEIGHTS),
    ],
    ids=lambda e: type(e).__name__,
)
def test_weights_are_those_of_the_evaluator(evaluator, used):
    display = WeightsDisplay.from_evaluator(evaluator.fit(LOGS), POLICY)
    assert_allclose(display.weights, WEIGHTS, rtol=1e-12)
    assert_allclose(display.used_weights, used, rtol=1e-12)
    assert display.name == type(evaluator).__name__


def test_numbers_are_those_of_the_diagnostics():
    result = IPS(cmax=1.5).fit(LOGS).evaluate(POLICY)
    display = WeightsDisplay.from_evaluator(IPS(cmax=1.5).fit(LOGS), POLICY)
    diagnostics = result.diagnostics
    assert_allclose(display.effective_sample_size, result.effective_sample_size)
    assert_allclose(display.max_weight, diagnostics["max_weight"])
    assert_allclose(display.max_weight_share, diagnostics["max_weight_share"])
    assert_allclose(display.altered_share, diagnostics["altered_rows"])


def test_weights_of_d8():
    """Effective size 3.328 and largest share .418 of the specification."""
    w = [0.2, 1 / 3, 4, 0.2, 1 / 6, 1 / 6, 3, 1.5]
    display = WeightsDisplay.from_values(w)
    assert_allclose(display.effective_sample_size, 3.328, atol=5e-4)
    assert_allclose(display.max_weight_share, 0.418, atol=5e-4)
    assert_allclose(display.share_of_largest(2 / 8), 7 / np.sum(w))
    assert_allclose(display.share_of_largest(0), 4 / np.sum(w))
    assert_allclose(display.share_of_largest(1), 1)


def test_other_logs_and_arrays():
    evaluator = IPS().fit(LOGS)
    part = WeightsDisplay.from_evaluator(evaluator, POLICY, LOGS[:50])
    assert_allclose(part.weights, WEIGHTS[:50])
    logged = WEIGHTS * LOGS.propensity
    display = WeightsDisplay.from_evaluator(evaluator, logged)
    assert_allclose(display.weights, WEIGHTS)


def test_no_weights_at_all():
    display = WeightsDisplay.from_values(np.zeros(3))
    assert np.isnan(display.effective_sample_size)
    assert np.isnan(display.max_weight_share)
    assert np.isnan(display.share_of_largest(0.5))
    assert display.zero_share == 1


def test_evaluators_without_weights_are_refused():
    with pytest.raises(ValueError, match="DirectMethod uses no importance weights"):
        WeightsDisplay.from_evaluator(DirectMethod().fit(LOGS), POLICY)
    with pytest.raises(TypeError, match="static evaluator is needed, got UniformP"):
        WeightsDisplay.from_evaluator(UniformPolicy().fit(LOGS), POLICY)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"weights": []}, "weights is empty"),
        ({"weights": [1.0, -2.0]}, "weights must not be negative, got -2 at row 1"),
        ({"weights": [1.0], "used_weights": [1, 1]}, "used_weights has 2 rows"),
    ],
)
def test_bad_weights(arguments, message):
    with pytest.raises(ValueError, match=message):
        WeightsDisplay.from_values(**arguments)


@pytest.mark.parametrize("fraction", [-0.1, 1.1, np.nan])
def test_bad_fraction(fraction):
    with pytest.raises(ValueError, match="fraction must lie"):
        WeightsDisplay.from_values([1.0]).share_of_largest(fraction)


def test_plot_draws_shares(pyplot):
    # Four rounds of ten carry nothing worth drawing, one carries 80 of 85.
    w = np.array([0, 0, 0, 0.001, 0.999, 1, 1, 1, 1, 80])
    display = WeightsDisplay.from_values(w).plot(bins=8)
    rounds = [bar.get_height() for bar in display.bars_]
    carried, edges, _ = display.line_.get_data()
    assert_allclose(sum(rounds), 0.6)
    assert_allclose(sum(carried), 1 - 0.001 / 85, rtol=1e-12)
    assert_allclose(rounds[-1], 0.1)
    assert_allclose(carried[-1], 80 / 85)
    assert edges[0] == 0.999
    assert edges[-1] == 80
    title = display.ax_.get_title()
    assert "1 effective rounds of 10" in title
    assert "largest weight 80, 94.1% of all" in title
    assert "40.0% of the rounds have weights below 0.085" in title
    assert display.ax_.get_xscale() == "log"


def test_plot_shows_what_clipping_takes(pyplot):
    display = WeightsDisplay.from_evaluator(IPS(cmax=1.0).fit(LOGS), POLICY).plot()
    labels = [t.get_text() for t in display.ax_.get_legend().get_texts()]
    assert "left by IPS" in labels
    assert "% of the weights are altered" in display.ax_.get_title()


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("weights", [[0.0, 0.0], [1.0], [0.0, 4.0, 4.0]])
def test_plot_of_degenerate_weights(pyplot, weights):
    display = WeightsDisplay.from_values(weights).plot()
    display.figure_.canvas.draw()
    heights = [bar.get_height() for bar in display.bars_]
    assert_allclose(sum(heights), np.mean(np.array(weights) > 0))
    assert "nan" not in display.ax_.get_title()
    if max(weights):
        assert_array_equal(max(display.line_.get_data().values), 1)


def test_keywords(pyplot):
    display = WeightsDisplay.from_values(WEIGHTS)
    display.plot(color="green", line_kw={"linewidth": 5})
    assert display.bars_[0].get_facecolor()[:3] == pytest.approx((0, 0.5, 0), abs=0.01)
    assert display.line_.get_linewidth() == 5


def test_shares_of_the_value_by_hand():
    given = {"used_weights": [1.0, 2, 2, 0], "rewards": [1.0, 0, 2, 5]}
    display = WeightsDisplay.from_values([1.0, 2, 7, 0], **given)
    assert_allclose(display.share_of_largest(0.25), 0.7)
    assert_allclose(display.share_of_largest(0.25, of="value"), 4 / 5)
    assert_allclose(display.share_of_largest(0.5, of="value"), 4 / 5)
    with pytest.raises(ValueError, match="of must be 'weight' or 'value', got 'reward"):
        display.share_of_largest(0.5, of="reward")
    for rewards, why in ((None, "not known"), ([1, -1], "partly below zero")):
        display = WeightsDisplay.from_values([1.0, 2], rewards=rewards)
        with pytest.raises(ValueError, match=why):
            display.share_of_largest(0.5, of="value")
    with pytest.raises(ValueError, match="rewards has 1 rows, weights has 2"):
        WeightsDisplay.from_values([1.0, 2], rewards=[1])


def test_rewards_are_those_of_the_rounds():
    display = WeightsDisplay.from_evaluator(IPS().fit(LOGS), POLICY, LOGS[:50])
    assert_array_equal(display.rewards, LOGS.reward[:50])


@pytest.mark.parametrize("index, heavy", [(1.2, True), (4.0, False)])
def test_the_tail_is_told(pyplot, index, heavy):
    weights = np.random.RandomState(0).pareto(index, 20_000) + 0.1
    display = WeightsDisplay.from_values(weights)
    assert abs(display.tail_shape - 1 / index) < 4 * display.tail_shape_error
    title = display.plot().ax_.get_title()
    assert f"tail shape k = {display.tail_shape:.2f}" in title
    assert ("heavy above 0.7" in title) == heavy


def test_the_tail_is_drawn_round_by_round(pyplot):
    w = np.array([0, 0, 0.5, 0.5, 1, 1, 1, 2, 4, 10])
    r = np.array([1, 1, 0, 1, 1, 0, 1, 1, 0, 1.0])
    display = WeightsDisplay.from_values(w, rewards=r).plot()
    tail = display.axes_[1]
    rounds, weight, value = tail.lines
    assert_array_equal(rounds.get_xdata(), np.sort(w)[::-1][:8])
    assert_allclose(rounds.get_ydata(), np.arange(1, 9) / 10)
    assert_allclose(weight.get_ydata()[:3], [10 / 20, 14 / 20, 16 / 20])
    assert_allclose(value.get_ydata()[:3], [10 / 14.5, 10 / 14.5, 12 / 14.5])
    assert tail.get_yscale() == "log" == tail.get_xscale()
    _, ax = pyplot.subplots()
    assert len(display.plot(ax).axes_) == 1  # one axes: the shares
    assert display.plot(panels="tail").ax_.lines[0].get_label() == "of the rounds"

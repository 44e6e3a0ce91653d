# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import warnings

import numpy as np
import pytest

from skope_ope import IPS, DRns, EpsilonGreedy, RejectionSampling, Replay, UniformPolicy
from skope_ope.displays import HistoryDisplay
from skope_ope.exceptions import OPEWarning
from tests._worlds import uniform_logs


def evaluated(evaluator, policy=None, n=600):
    logs = uniform_logs(n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)
        return logs, evaluator.fit(logs).evaluate(policy or EpsilonGreedy())


def test_a_single_history():
    logs, result = evaluated(Replay(random_state=0))
    display = HistoryDisplay.from_values(result)
    assert display.n_rounds == 600
    accepted = np.zeros(600)
    accepted[result.accepted] = 1
    np.testing.assert_array_equal(display.history_length, accepted.cumsum())
    assert display.acceptance_rate == len(result.accepted) / 600
    np.testing.assert_array_equal(display.value_rows, result.accepted)
    rewards = logs.reward[result.accepted]
    running = rewards.cumsum() / np.arange(1, len(rewards) + 1)
    np.testing.assert_allclose(display.cumulative_value, running, atol=1e-12)
    assert display.cumulative_value[-1] == pytest.approx(result.value)
    assert display.name == "Replay"


def test_drns_shows_the_ratio_of_sums():
    logs, result = evaluated(DRns(reward_model=0.5, random_state=0), UniformPolicy())
    w = 1 / logs.n_actions / logs.propensity
    c, r_k = result.acceptance_ratios, 0.5 + w * (logs.reward - 0.5)
    running = np.cumsum(c * r_k) / np.cumsum(c)
    display = HistoryDisplay.from_values(result)
    np.testing.assert_allclose(display.cumulative_value, running[result.accepted])
    np.testing.assert_array_equal(display.acceptance_ratios, c)


@pytest.mark.parametrize(
    "evaluator",
    [
        DRns(horizon=50, random_state=0),
        DRns(horizon=50, normalize=True, random_state=0),
        DRns(horizon=50, normalize=False, random_state=0),
        RejectionSampling(horizon=50, random_state=0),
    ],
)
def test_trajectories_are_averaged_as_they_end(evaluator):
    _, result = evaluated(evaluator)
    display = HistoryDisplay.from_values(result)
    m = result.n_trajectories
    assert m > 1
    np.testing.assert_array_equal(display.value_rows, result.trajectory_stops - 1)
    values, shares = result.trajectory_values, result.trajectory_shares
    means = [np.average(values[:k], weights=shares[:k]) for k in range(1, m + 1)]
    assert (np.ptp(shares) > 0) == (getattr(evaluator, "normalize", "") == "pooled")
    np.testing.assert_allclose(display.cumulative_value, means)
    assert display.cumulative_value[-1] == pytest.approx(result.value)


def test_from_evaluator_evaluates():
    logs = uniform_logs(600)
    fitted = RejectionSampling(random_state=0).fit(logs)
    display = HistoryDisplay.from_evaluator(fitted, UniformPolicy())
    np.testing.assert_array_equal(
        display.accepted, fitted.evaluate(UniformPolicy()).accepted
    )
    other = HistoryDisplay.from_evaluator(fitted, UniformPolicy(), logs[:300])
    assert other.n_rounds == 300


def test_plot(pyplot):
    _, result = evaluated(DRns(random_state=0))
    display = HistoryDisplay.from_values(result)
    assert display.plot() is display
    assert len(display.axes_) == 3
    assert display.ax_ is display.axes_[0]
    assert display.figure_ is display.ax_.figure
    labels = [ax.get_ylabel() for ax in display.axes_]
    assert labels == ["accepted rounds", "acceptance ratio c", "value so far"]
    assert display.axes_[-1].get_xlabel() == "row of the log"
    title = display.ax_.get_title()
    assert title.startswith(f"DRns: {len(result.accepted):,} of 600 rounds accepted")
    x, y = display.axes_[2].lines[0].get_data()
    np.testing.assert_array_equal(x, display.value_rows)
    np.testing.assert_array_equal(y, display.cumulative_value)
    display.figure_.canvas.draw()


def test_panels_and_own_axes(pyplot):
    _, result = evaluated(Replay(horizon=100, random_state=0))
    display = HistoryDisplay.from_values(result)
    _, ax = pyplot.subplots()
    display.plot(ax, panels="value", color="C3")
    assert display.ax_ is ax
    assert ax.lines[0].get_color() == "C3"
    _, axes = pyplot.subplots(1, 2)
    display.plot(axes, panels=["ratio", "length"])
    assert [one.get_ylabel() for one in display.axes_] == [
        "acceptance ratio c",
        "accepted rounds",
    ]
    with pytest.raises(ValueError, match="3 panels need as many axes, got 1"):
        display.plot(ax)
    with pytest.raises(ValueError, match=r"panels must be of .*'weight'"):
        display.plot(panels=("length", "weight"))


def test_empty_and_single_histories_are_drawn(pyplot):
    for horizon, n_points in ((1000, 0), (150, 150)):
        _, result = evaluated(Replay(horizon=horizon, random_state=0))
        display = HistoryDisplay.from_values(result).plot()
        assert len(display.cumulative_value) == n_points
        display.figure_.canvas.draw()
    assert display.cumulative_value[-1] == pytest.approx(result.value)
    _, result = evaluated(DRns(horizon=150, normalize=False, random_state=0))
    display = HistoryDisplay.from_values(result).plot(panels="value")
    assert result.n_trajectories == 1
    assert len(display.cumulative_value) == 150
    assert display.cumulative_value[-1] == pytest.approx(result.value)


def test_bad_input():
    logs = uniform_logs(100)
    with pytest.raises(TypeError, match="the value of IPS has no history"):
        HistoryDisplay.from_evaluator(IPS().fit(logs), UniformPolicy())
    with pytest.raises(TypeError, match="the value of float has no history"):
        HistoryDisplay.from_values(0.5)

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Displays of what happens along the log: histories and confidence sequences."""

import numpy as np
import pytest

from skope_ope import (
    IPS,
    ConfidenceSequence,
    DRns,
    EpsilonGreedy,
    RejectionSampling,
    Replay,
    UniformPolicy,
    evaluate,
)
from skope_ope.datasets import make_bandit_logs
from skope_ope.displays import ConfidenceSequenceDisplay, HistoryDisplay
from tests._quiet import quiet
from tests._worlds import uniform_logs

# Histories


def evaluated(evaluator, policy=None, n=600):
    logs = uniform_logs(n)
    return logs, quiet(evaluator.fit(logs), policy or EpsilonGreedy())


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


@pytest.mark.parametrize("normalize", ["pooled", True, False, None])
def test_trajectories_are_averaged_as_they_end(normalize):
    evaluator = RejectionSampling() if normalize is None else DRns(normalize=normalize)
    _, result = evaluated(evaluator.set_params(horizon=50, random_state=0))
    display = HistoryDisplay.from_values(result)
    m = result.n_trajectories
    assert m > 1
    np.testing.assert_array_equal(display.value_rows, result.trajectory_stops - 1)
    values, shares = result.trajectory_values, result.trajectory_shares
    means = [np.average(values[:k], weights=shares[:k]) for k in range(1, m + 1)]
    assert (np.ptp(shares) > 0) == (normalize == "pooled")
    np.testing.assert_allclose(display.cumulative_value, means)
    assert display.cumulative_value[-1] == pytest.approx(result.value)


def test_from_evaluator_evaluates():
    make = HistoryDisplay.from_evaluator
    fitted = RejectionSampling(random_state=0).fit(uniform_logs(600))
    accepted = fitted.evaluate(UniformPolicy()).accepted
    np.testing.assert_array_equal(make(fitted, UniformPolicy()).accepted, accepted)
    assert make(fitted, UniformPolicy(), fitted.logs_[:300]).n_rounds == 300
    with pytest.raises(TypeError, match="the value of IPS has no history"):
        make(IPS().fit(uniform_logs(100)), UniformPolicy())
    with pytest.raises(TypeError, match="the value of float has no history"):
        HistoryDisplay.from_values(0.5)


def test_plot_of_a_history(pyplot):
    _, result = evaluated(DRns(random_state=0))
    display = HistoryDisplay.from_values(result)
    labels = [ax.get_ylabel() for ax in display.plot().axes_]
    assert labels == ["accepted rounds", "acceptance ratio c", "value so far"]
    assert display.axes_[-1].get_xlabel() == "row of the log"
    title = display.ax_.get_title()
    assert title.startswith(f"DRns: {len(result.accepted):,} of 600 rounds accepted")
    x, y = display.axes_[2].lines[0].get_data()
    np.testing.assert_array_equal(x, display.value_rows)
    np.testing.assert_array_equal(y, display.cumulative_value)
    _, ax = pyplot.subplots()
    display.plot(ax, panels="value", color="C3")
    assert ax.lines[0].get_color() == "C3"
    _, axes = pyplot.subplots(1, 2)
    display.plot(axes, panels=["ratio", "length"])
    labels = [one.get_ylabel() for one in display.axes_]
    assert labels == ["acceptance ratio c", "accepted rounds"]
    with pytest.raises(ValueError, match="3 panels need as many axes, got 1"):
        display.plot(ax)
    with pytest.raises(ValueError, match=r"panels must be of .*'weight'"):
        display.plot(panels=("length", "weight"))


def test_empty_and_single_histories_are_drawn(pyplot):
    for evaluator, n_points in (
        (Replay(horizon=1000, random_state=0), 0),
        (Replay(horizon=150, random_state=0), 150),
        (DRns(horizon=150, normalize=False, random_state=0), 150),
    ):
        _, result = evaluated(evaluator)
        display = HistoryDisplay.from_values(result).plot(panels="value")
        display.figure_.canvas.draw()
        assert result.n_trajectories == (n_points > 0)
        assert len(display.cumulative_value) == n_points
        if n_points:
            assert display.cumulative_value[-1] == pytest.approx(result.value)


# Confidence sequences


@pytest.fixture(scope="module")
def world():
    """Logs with times, and a policy that is better than the logger."""
    logs, policy, _ = make_bandit_logs(4000, random_state=0, return_truth=True)
    time = np.datetime64("2026-01-01") + np.arange(4000) // 100
    return logs.replace(timestamp=time), policy


@pytest.fixture(scope="module")
def gain(world):
    return ConfidenceSequence(baseline="logger", every=100).update(*world)


def test_it_shows_what_the_sequence_has(gain):
    display = ConfidenceSequenceDisplay.from_sequence(gain)
    assert display.baseline == 0
    assert display.gain
    assert display.level == 0.95
    np.testing.assert_array_equal(display.intervals["gain"], gain.intervals_)
    low = gain.intervals_["low"]
    first = np.flatnonzero(low > 0)[0]
    assert first > 0
    assert display.decided_after == {"gain": gain.intervals_["n_rounds"][first]}


def test_a_value_below_its_baseline_is_decided_too(world):
    logs, policy = world
    sequence = ConfidenceSequence(every=500).update(logs, policy)
    for baseline, decided in ((0.9, True), (sequence.estimate_, False), (None, False)):
        display = ConfidenceSequenceDisplay.from_sequence(sequence, baseline=baseline)
        assert (display.decided_after["value"] is not None) == decided


def test_intervals_that_were_kept_elsewhere(gain):
    make = ConfidenceSequenceDisplay.from_values
    kept = {name: gain.intervals_[name] for name in gain.intervals_.dtype.names}
    display = make({"new": kept}, baseline=0.0, gain=True)
    assert display.decided_after["new"] is not None
    assert make({"new": gain.intervals_}).decided_after == {"new": None}


def test_plot_of_a_sequence(gain):
    pytest.importorskip("matplotlib")
    display = ConfidenceSequenceDisplay.from_sequence(gain)
    assert display.plot(truth=0.15) is display
    ax, [line] = display.ax_, display.lines_
    np.testing.assert_array_equal(line.get_ydata(), gain.intervals_["estimate"])
    np.testing.assert_array_equal(line.get_xdata(), gain.intervals_["n_rounds"])
    [area] = ax.collections
    ends = area.get_paths()[0].vertices[:, 1]
    assert ends.min() == gain.intervals_["low"].min()
    assert ends.max() == gain.intervals_["high"].max()
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    after = display.decided_after["gain"]
    decided = f"decided after\n{after:,} rounds"
    assert labels == ["gain", decided, "no gain", "truth"]
    assert ax.get_ylabel() == "gain (reward per round)"
    assert ax.get_xlabel() == "rounds so far (95% at all times together)"
    display.figure_.canvas.draw()
    assert any(text.get_text().startswith("+") for text in ax.get_yticklabels())


def test_plot_over_time_and_on_a_logarithmic_axis(gain):
    pytest.importorskip("matplotlib")
    display = ConfidenceSequenceDisplay.from_sequence(gain).plot(over="time")
    assert display.lines_[0].get_xdata()[0] == np.datetime64("2026-01-01")
    assert display.ax_.get_xlabel().startswith("time")
    display.figure_.canvas.draw()
    assert display.plot(log=True).ax_.get_xscale() == "log"
    display.figure_.canvas.draw()
    with pytest.raises(ValueError, match="over must be"):
        display.plot(over="day")
    with pytest.raises(ValueError, match="log=True is for numbers of rounds"):
        display.plot(over="time", log=True)


def test_plot_of_several_into_axes_of_the_user(world):
    plt = pytest.importorskip("matplotlib.pyplot")
    logs, policy = world
    named = {"$5 off": ConfidenceSequence(every=500).update(logs, policy)}
    other = ConfidenceSequence("asymptotic", every=500)
    named["asymptotic"] = other.update(logs, policy)
    ax = plt.figure().subplots()
    display = ConfidenceSequenceDisplay.from_sequence(named, baseline=0.5).plot(ax)
    assert display.ax_ is ax
    assert len({line.get_color() for line in display.lines_}) == 2
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels[0] == r"\$5 off"
    assert "baseline" in labels
    # a single interval is drawn
    sequence = ConfidenceSequence(baseline="logger").update(logs, policy)
    display = ConfidenceSequenceDisplay.from_sequence(sequence).plot()
    ends = display.ax_.collections[0].get_segments()[0][:, 1]
    np.testing.assert_allclose(ends, sequence.interval_)


def test_what_cannot_be_shown(world, gain):
    logs, policy = world

    def sequence(**given):
        return ConfidenceSequence(**given).update(logs, policy)

    value, kept = sequence(), {"n_rounds": [1], "low": [0], "high": [1]}
    of_sequence = ConfidenceSequenceDisplay.from_sequence
    of_values = ConfidenceSequenceDisplay.from_values
    for make, given, error, message in (
        (of_sequence, evaluate(policy, logs)["IPS"], TypeError, "a ConfidenceSequence"),
        (of_sequence, {}, ValueError, "sequence is empty"),
        (of_sequence, {"a": gain, "b": value}, ValueError, "some are of gains"),
        (of_sequence, {"a": sequence(level=0.9), "b": value}, ValueError, "same level"),
        (of_sequence, sequence(every=5000), ValueError, "has no interval yet"),
        (of_values, gain.intervals_, TypeError, "a dict of intervals by name"),
        (of_values, {"a": kept}, ValueError, r"intervals\['a'\] has no estimate"),
    ):
        with pytest.raises(error, match=message):
            make(given)
    pytest.importorskip("matplotlib")
    untimed = ConfidenceSequence().update(logs.replace(timestamp=None), policy)
    with pytest.raises(ValueError, match="have no times"):
        of_sequence(untimed).plot(over="time")

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest

from skope_ope import ConfidenceSequence, UniformPolicy, evaluate
from skope_ope.datasets import make_bandit_logs
from skope_ope.displays import ConfidenceSequenceDisplay


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
    kept = {name: gain.intervals_[name] for name in gain.intervals_.dtype.names}
    display = ConfidenceSequenceDisplay.from_values(
        {"new": kept}, baseline=0.0, gain=True
    )
    assert display.decided_after["new"] is not None
    display = ConfidenceSequenceDisplay.from_values({"new": gain.intervals_})
    assert display.decided_after == {"new": None}


def test_plot(gain):
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
    named = {
        "$5 off": ConfidenceSequence(every=500).update(logs, policy),
        "uniform": ConfidenceSequence("asymptotic", every=500).update(
            logs, UniformPolicy()
        ),
    }
    ax = plt.figure().subplots()
    display = ConfidenceSequenceDisplay.from_sequence(named, baseline=0.5).plot(ax)
    assert display.ax_ is ax
    colors = {line.get_color() for line in display.lines_}
    assert len(colors) == 2
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels[0] == r"\$5 off"
    assert "baseline" in labels


def test_a_single_interval_is_drawn(world):
    pytest.importorskip("matplotlib")
    logs, policy = world
    sequence = ConfidenceSequence(baseline="logger").update(logs, policy)
    display = ConfidenceSequenceDisplay.from_sequence(sequence).plot()
    ends = display.ax_.collections[0].get_segments()[0][:, 1]
    np.testing.assert_allclose(ends, sequence.interval_)


def test_what_cannot_be_shown(world, gain):
    logs, policy = world
    with pytest.raises(TypeError, match="a ConfidenceSequence, or a dict"):
        ConfidenceSequenceDisplay.from_sequence(evaluate(policy, logs)["IPS"])
    with pytest.raises(ValueError, match="sequence is empty"):
        ConfidenceSequenceDisplay.from_sequence({})
    value = ConfidenceSequence().update(logs, policy)
    with pytest.raises(ValueError, match="some are of gains"):
        ConfidenceSequenceDisplay.from_sequence({"a": gain, "b": value})
    other = ConfidenceSequence(level=0.9).update(logs, policy)
    with pytest.raises(ValueError, match="the same level"):
        ConfidenceSequenceDisplay.from_sequence({"a": other, "b": value})
    early = ConfidenceSequence(every=5000).update(logs, policy)
    with pytest.raises(ValueError, match="has no interval yet"):
        ConfidenceSequenceDisplay.from_sequence(early)
    with pytest.raises(TypeError, match="a dict of intervals by name"):
        ConfidenceSequenceDisplay.from_values(gain.intervals_)
    with pytest.raises(ValueError, match=r"intervals\['a'\] has no estimate"):
        ConfidenceSequenceDisplay.from_values(
            {"a": {"n_rounds": [1], "low": [0], "high": [1]}}
        )


def test_intervals_without_times_are_not_drawn_over_time(world):
    pytest.importorskip("matplotlib")
    logs, policy = world
    sequence = ConfidenceSequence().update(logs.replace(timestamp=None), policy)
    display = ConfidenceSequenceDisplay.from_sequence(sequence)
    with pytest.raises(ValueError, match="have no times"):
        display.plot(over="time")

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope import SNIPS, BanditLogs, ConstantPolicy, UniformPolicy, compare_policies
from skope_ope.displays import PolicyComparisonDisplay

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")


def compared(rates=(0.2, 0.5, 0.3), n=3000, **options):
    rng = np.random.RandomState(0)
    action = rng.randint(3, size=n)
    reward = (rng.random_sample(n) < np.take(rates, action)).astype(float)
    logs = BanditLogs(np.zeros((n, 1)), action, reward, np.full(n, 1 / 3))
    policies = {f"always {k}": ConstantPolicy(k).fit(logs) for k in range(3)}
    policies["uniform"] = UniformPolicy()
    return compare_policies(policies, logs, evaluator=SNIPS(), **options)


@pytest.fixture(scope="module")
def comparison():
    return compared(baseline="uniform", level=0.8)


def drawn(ax):
    """Return (low, estimate, high) of every row, top to bottom."""
    rows = []
    for container in ax.containers:
        line, _, bars = container
        (segment,) = bars[0].get_segments()
        rows.append((segment[0, 0], line.get_xdata()[0], segment[1, 0]))
    return np.array(rows)


def test_it_draws_what_the_table_says(comparison, pyplot):
    records = comparison.to_records()
    display = comparison.plot()
    assert display.policies == ["always 0", "always 1", "always 2"]
    keys = ("difference_low", "difference", "difference_high")
    gains = [[record[key] for key in keys] for record in records[:3]]
    assert_allclose(drawn(display.axes_[0])[:3], gains)
    values = [[record[key] for key in ("low", "value", "high")] for record in records]
    assert_allclose(drawn(display.axes_[1]), values)  # the baseline comes last
    assert_array_equal(display.gain_low, [row[0] for row in gains])
    for ax in display.axes_:
        assert "80% intervals, all together" in ax.get_xlabel()


@pytest.mark.parametrize("level", [0.6, 0.99])
def test_another_level(comparison, level, pyplot):
    display = comparison.plot(level=level)
    records = comparison.to_records(level)[:3]
    assert_array_equal(display.gain_low, [r["difference_low"] for r in records])
    assert f"{100 * level:.4g}%" in display.ax_.get_xlabel()


def test_baseline_and_choice_are_marked(comparison, pyplot):
    display = comparison.plot()
    assert display.choice == comparison.choice == "always 1"
    labels = [text.get_text() for text in display.ax_.get_yticklabels()]
    assert labels[1] == "always 1\ndeploy" and labels[3] == "uniform\nbaseline"
    assert display.ax_.get_title() == "deploy always 1"
    markers = [c[0].get_marker() for c in display.ax_.containers]
    assert markers[1] == "D" and markers[3] == "s" and markers[0] == "o"
    verticals = [line for line in display.ax_.lines if line.get_linestyle() == "--"]
    assert [list(line.get_xdata()) for line in verticals] == [[0.0, 0.0]]
    values = [line for line in display.axes_[1].lines if line.get_linestyle() == "--"]
    assert values[0].get_xdata()[0] == comparison["uniform"].value


def test_what_is_not_known_is_hollow(pyplot):
    found = compared(rates=(0.3, 0.3, 0.3))
    display = found.plot()
    assert display.decision == "undecided" and display.ax_.get_title() == "undecided"
    assert display.answers[0] == "cannot tell"
    assert display.ax_.containers[0][0].get_markerfacecolor() == "white"
    assert display.ax_.get_yticklabels()[-1].get_text() == "the logger\nbaseline"


def test_keep(pyplot):
    found = compared(baseline="always 1")
    assert found.decision == "keep"
    assert found.plot().ax_.get_title() == "keep always 1"


def test_axes_of_the_caller(comparison, pyplot):
    _, ax = pyplot.subplots()
    display = comparison.plot(ax)
    assert display.ax_ is ax and list(display.axes_) == [ax]
    _, axes = pyplot.subplots(1, 2)
    display = comparison.plot(axes)
    assert list(display.axes_) == list(axes) and axes[1].has_data()
    assert display.figure_ is axes[0].figure


def test_truth(comparison, pyplot):
    display = comparison.plot(truth={"always 0": 0.2, "always 1": 0.5, "uniform": 0.3})
    gains, values = (
        next(line for line in ax.lines if line.get_label() == "truth").get_xdata()
        for ax in display.axes_
    )
    assert_allclose(gains, [-0.1, 0.2, np.nan])
    assert_allclose(values, [0.2, 0.5, np.nan])
    display = comparison.plot(truth={"always 0": 0.2})  # no gain without the baseline
    assert all(line.get_label() != "truth" for line in display.ax_.lines)


def test_the_truth_of_the_logger(pyplot):
    display = compared().plot(truth={"always 1": 0.5, "logger": 0.3})
    [marks] = [one for one in display.ax_.lines if one.get_label() == "truth"]
    assert_allclose(marks.get_xdata(), [np.nan, 0.2, np.nan, np.nan])


def test_no_value(pyplot):
    logs = BanditLogs(
        np.zeros((40, 1)), [0] * 40, [0, 1] * 20, [0.5] * 40, actions=[0, 1]
    )
    policies = {f"always {k}": ConstantPolicy(k).fit(logs) for k in (0, 1)}
    display = compare_policies(policies, logs, evaluator=SNIPS()).plot()
    assert [text.get_text() for text in display.ax_.texts] == ["no value"]


def test_values_by_name_and_an_evaluator_give_the_same(comparison):
    make = PolicyComparisonDisplay
    want = make.from_values(comparison)
    logs = comparison["uniform"]._rows.logs
    policies = {f"always {k}": ConstantPolicy(k).fit(logs) for k in range(3)}
    policies["uniform"] = UniformPolicy()
    given = {"baseline": "uniform", "level": 0.8}
    for display in (
        make.from_values(dict(comparison), **given),
        make.from_evaluator(SNIPS().fit(logs), policies, **given),
    ):
        assert (display.choice, display.level) == (want.choice, want.level)
        for name in ("gain", "gain_low", "gain_high", "value", "low", "high"):
            assert_allclose(getattr(display, name), getattr(want, name), rtol=1e-12)


def test_bad_input(comparison):
    with pytest.raises(TypeError, match=r"values must be a ValueTable, a dict"):
        PolicyComparisonDisplay.from_values(0.5)
    with pytest.raises(
        ValueError, match=r"baseline must name one of at least two.*Non"
    ):
        PolicyComparisonDisplay.from_values(dict(comparison))
    with pytest.raises(ValueError, match="the comparison is with 'uniform', got base"):
        PolicyComparisonDisplay.from_values(comparison, baseline="always 1")

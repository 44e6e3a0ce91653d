# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Displays of values side by side, and of comparisons."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope import (
    IPS,
    SNIPS,
    BanditLogs,
    ConstantPolicy,
    DoublyRobust,
    EpsilonGreedy,
    Replay,
    UniformPolicy,
    compare_policies,
    evaluate,
)
from skope_ope.datasets import make_bandit_logs
from skope_ope.displays import PolicyComparisonDisplay, PolicyValueDisplay
from skope_ope.exceptions import LowOverlapWarning, SupportWarning

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")


# Values
GIVEN = {"logging_temperature": np.inf, "random_state": 0, "return_truth": True}
LOGS, POLICY, TRUTH = make_bandit_logs(300, **GIVEN)
POLICIES = {"sharp": POLICY, "uniform": UniformPolicy()}
EVALUATORS = ["IPS", "SNIPS", "DirectMethod"]


@pytest.fixture(scope="module")
def table():
    return evaluate(POLICY, LOGS, evaluators=EVALUATORS)


@pytest.fixture(scope="module")
def wide_table():
    return evaluate(POLICIES, LOGS, evaluators=EVALUATORS)


def tick_labels(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


def legend_texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


@pytest.mark.parametrize("method", ["student", "normal"])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_values_and_intervals_are_those_of_the_table(table, level, method):
    display = PolicyValueDisplay.from_values(table, level=level, method=method)
    assert display.keys == EVALUATORS
    for i, result in enumerate(table.values()):
        assert display.value[i] == result.value
        ends = result.confidence_interval(level, method)
        assert (display.low[i], display.high[i]) == ends
    display = PolicyValueDisplay.from_values(table)
    assert display.leaves_bias_out == [False, False, "the error of the reward model"]
    assert display.methods == [v.confidence_interval().method for v in table.values()]


def test_one_value_and_evaluators(table):
    display = PolicyValueDisplay.from_values(table["SNIPS"])
    assert display.keys == ["SNIPS"]
    assert_array_equal(display.value, [table["SNIPS"].value])
    make, evaluator = PolicyValueDisplay.from_evaluator, IPS().fit(LOGS)
    one = make(evaluator, POLICY, level=0.9)
    assert one.keys == ["IPS"]
    assert_array_equal(one.value, [evaluator.score(POLICY)])
    assert make(evaluator, POLICIES).keys == [("sharp", "IPS"), ("uniform", "IPS")]
    part = make(evaluator, POLICY, logs=LOGS[:100])
    assert_array_equal(part.value, [evaluator.score(POLICY, LOGS[:100])])
    evaluators = {"plain": evaluator, "normalised": SNIPS().fit(LOGS)}
    assert make(evaluators, POLICY).keys == ["plain", "normalised"]
    display = make(evaluators, POLICIES)
    assert display.keys[:2] == [("sharp", "plain"), ("sharp", "normalised")]
    assert display.value[1] == evaluators["normalised"].score(POLICY)


def test_marks_are_drawn(pyplot):
    names = ["DRos", "DoublyRobust", "DirectMethod", "SubGaussianDR"]
    display = evaluate(POLICY, LOGS, evaluators=names).plot()
    assert display.recommended == "DoublyRobust"
    marked = ["DRos *", "DoublyRobust\n(recommended)", "DirectMethod **"]
    assert tick_labels(display.ax_) == [*marked, "SubGaussianDR *"]
    methods = ", ".join(dict.fromkeys(display.methods))
    assert display.ax_.get_xlabel().replace("\n", " ") == (
        f"value (reward per round), 95% interval ({methods}) "
        "* leaves out the bias of shrunk weights "
        "** leaves out the error of the reward model"
    )
    one = evaluate(POLICIES, LOGS, evaluators=["DoublyRobust"]).plot()
    assert tick_labels(one.ax_) == ["sharp", "uniform"]
    assert one.ax_.get_xlabel().endswith("\nby DoublyRobust (recommended)")


def test_an_interval_that_misses_its_value_is_drawn_where_it_is(pyplot):
    """IPS leaves the range of the rewards, its interval does not."""
    rounds = (np.zeros((20, 1)), [0, 1] * 10, np.ones(20), [1 / 40] * 20)
    logs = BanditLogs(*rounds, reward_range=(0, 1))
    value = IPS().fit(logs).evaluate(UniformPolicy())
    display = PolicyValueDisplay.from_values(value).plot()
    assert display.high[0] <= 1 < value.value
    points, caps, (bars,) = display.errorbar_
    assert points.get_xdata()[0] == value.value
    [segment] = bars.get_segments()
    ends = [display.low[0], display.high[0]]
    assert segment[:, 0].tolist() == ends
    assert [cap.get_xdata()[0] for cap in caps] == ends


def test_other_values_are_refused():
    for values, error, message in (
        (0.5, TypeError, "a PolicyValue, got float"),
        ({}, ValueError, "empty"),
        ({"IPS": 0.5}, TypeError, r"values\['IPS'\] must be a PolicyValue.* float"),
    ):
        with pytest.raises(error, match=message):
            PolicyValueDisplay.from_values(values)


def test_a_difference_and_a_value_without_an_interval(pyplot):
    evaluator = DoublyRobust().fit(LOGS)
    difference = evaluator.evaluate(POLICY) - evaluator.evaluate(UniformPolicy())
    display = PolicyValueDisplay.from_values({"gain": difference})
    assert display.low[0] < difference.value < display.high[0]
    value = Replay(random_state=0).fit(LOGS).evaluate(EpsilonGreedy())
    display = PolicyValueDisplay.from_values(value).plot()
    assert np.isnan(display.low[0]) and np.isfinite(display.value[0])
    assert [text.get_text() for text in display.ax_.texts] == ["no interval"]


def test_plot_draws_values_and_intervals(pyplot, table):
    display = PolicyValueDisplay.from_values(table).plot()
    points, caps, (bars,) = display.errorbar_
    assert_array_equal(points.get_xdata(), display.value)
    assert_array_equal(points.get_ydata(), [0, 1, 2])
    ends = np.array([segment[:, 0] for segment in bars.get_segments()])
    assert_allclose(ends, np.column_stack([display.low, display.high]))
    assert len(caps) == 2
    ax = display.ax_
    assert tick_labels(ax) == ["IPS", "SNIPS", "DirectMethod *"]
    assert ax.get_xlabel().startswith("value (reward per round), 95% interval")
    assert ax.get_xlabel().endswith(")\n* leaves out the error of the reward model")
    low, high = ax.get_ylim()
    assert low > high  # the first row is on top
    assert ax.get_legend() is None
    assert display.truth_ is None
    hollow = [line for line in ax.lines if line.get_color() == "white"]
    # what leaves a bias out
    assert [line.get_ydata().tolist() for line in hollow] == [[2.0]]
    assert hollow[0].get_xdata()[0] == table["DirectMethod"].value
    display.plot(color="green", label="mine", capsize=0)
    assert display.errorbar_[0].get_color() == "green"
    assert display.errorbar_.get_label() == "mine"


def test_a_row_per_evaluator_and_a_colour_per_policy(pyplot, wide_table):
    display = PolicyValueDisplay.from_values(wide_table).plot()
    first, second = display.errorbar_
    assert tick_labels(display.ax_) == ["IPS", "SNIPS", "DirectMethod *"]
    assert legend_texts(display.ax_) == ["sharp", "uniform"]
    values = [wide_table["uniform", name].value for name in EVALUATORS]
    assert_array_equal(second[0].get_xdata(), values)
    assert_allclose(first[0].get_ydata() + second[0].get_ydata(), [0, 2, 4])
    assert (first[0].get_ydata() < second[0].get_ydata()).all()
    assert first[0].get_color() != second[0].get_color()
    # one evaluator: a row per policy
    numbered = dict(enumerate(POLICIES.values()))
    display = PolicyValueDisplay.from_evaluator(IPS().fit(LOGS), numbered)
    assert tick_labels(display.plot().ax_) == ["0", "1"]
    display = PolicyValueDisplay.from_evaluator(IPS().fit(LOGS), POLICIES).plot()
    assert tick_labels(display.ax_) == ["sharp", "uniform"]
    assert_array_equal(display.errorbar_[0].get_ydata(), [0, 1])


def test_truth_is_a_line_or_marks(pyplot, table, wide_table):
    display = table.plot(truth=TRUTH.value, level=0.8)
    assert isinstance(display, PolicyValueDisplay) and display.level == 0.8
    assert_array_equal(display.truth_.get_xdata(), [TRUTH.value] * 2)
    assert legend_texts(display.ax_) == ["truth"]

    truths = {"sharp": TRUTH.value, "uniform": TRUTH.expected_rewards.mean()}
    display = PolicyValueDisplay.from_values(wide_table)
    display.plot(truth=truths, truth_kw={"color": "red"})
    assert display.truth_.get_color() == "red"
    want = [truths[policy] for policy, _ in wide_table]
    assert_array_equal(display.truth_.get_xdata(), want)
    with pytest.raises(ValueError, match=r"truth lacks the policies \['uniform'\]"):
        display.plot(truth={"sharp": 0.5})


def test_nan_is_written_not_drawn(pyplot):
    pi = np.full((len(LOGS), LOGS.n_actions), 1 / (LOGS.n_actions - 1))
    pi[np.arange(len(LOGS)), LOGS.action_index] = 0  # never what was logged
    with pytest.warns((SupportWarning, LowOverlapWarning)):
        display = PolicyValueDisplay.from_evaluator(SNIPS().fit(LOGS), pi)
    assert np.isnan(display.value).all()
    display.plot()
    assert [text.get_text() for text in display.ax_.texts] == ["no value"]


def test_more_policies_than_evaluators_are_the_rows(pyplot, wide_table):
    values = dict(wide_table)
    del values["sharp", "SNIPS"], values["uniform", "SNIPS"]
    for i in range(3):
        for name in ("IPS", "DirectMethod"):
            values[f"more {i}", name] = wide_table["uniform", name]
    display = PolicyValueDisplay.from_values(values).plot()
    policies = ["sharp", "uniform", "more 0", "more 1", "more 2"]
    assert tick_labels(display.ax_) == policies
    assert legend_texts(display.ax_) == ["IPS", "DirectMethod *"]
    assert "\n* leaves out the error of" in display.ax_.get_xlabel()


def test_a_name_of_policy_and_evaluator_alike(pyplot, wide_table):
    names = {("DirectMethod", name): wide_table["sharp", name] for name in EVALUATORS}
    names |= {("other", name): wide_table["uniform", name] for name in EVALUATORS}
    display = PolicyValueDisplay.from_values(names).plot()
    assert tick_labels(display.ax_) == ["IPS", "SNIPS", "DirectMethod *"]
    assert legend_texts(display.ax_) == ["DirectMethod", "other"]


# Comparisons


def three_arms(rates=(0.2, 0.5, 0.3), n=3000):
    rng = np.random.RandomState(0)
    action = rng.randint(3, size=n)
    reward = (rng.random_sample(n) < np.take(rates, action)).astype(float)
    return BanditLogs(np.zeros((n, 1)), action, reward, np.full(n, 1 / 3))


def arms(logs):
    policies = {f"always {k}": ConstantPolicy(k).fit(logs) for k in range(3)}
    return policies | {"uniform": UniformPolicy()}


def compared(rates=(0.2, 0.5, 0.3), **options):
    logs = three_arms(rates)
    return compare_policies(arms(logs), logs, evaluator=SNIPS(), **options)


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
    display = comparison.plot(level=0.99)
    records = comparison.to_records(0.99)[:3]
    assert_array_equal(display.gain_low, [r["difference_low"] for r in records])
    assert "99%" in display.ax_.get_xlabel()


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
    kept = compared(baseline="always 1")
    assert kept.decision == "keep"
    assert kept.plot().ax_.get_title() == "keep always 1"


def test_truth_of_a_comparison(comparison, pyplot):
    display = comparison.plot(truth={"always 0": 0.2, "always 1": 0.5, "uniform": 0.3})
    gains, values = (
        next(line for line in ax.lines if line.get_label() == "truth").get_xdata()
        for ax in display.axes_
    )
    assert_allclose(gains, [-0.1, 0.2, np.nan])
    assert_allclose(values, [0.2, 0.5, np.nan])
    display = comparison.plot(truth={"always 0": 0.2})  # no gain without the baseline
    assert all(line.get_label() != "truth" for line in display.ax_.lines)

    display = compared().plot(truth={"always 1": 0.5, "logger": 0.3})
    [marks] = [one for one in display.ax_.lines if one.get_label() == "truth"]
    assert_allclose(marks.get_xdata(), [np.nan, 0.2, np.nan, np.nan])


def test_a_policy_without_a_value(pyplot):
    rounds = (np.zeros((40, 1)), [0] * 40, [0, 1] * 20, [0.5] * 40)
    logs = BanditLogs(*rounds, actions=[0, 1])
    policies = {f"always {k}": ConstantPolicy(k).fit(logs) for k in (0, 1)}
    display = compare_policies(policies, logs, evaluator=SNIPS()).plot()
    assert [text.get_text() for text in display.ax_.texts] == ["no value"]


def test_values_by_name_and_an_evaluator_give_the_same(comparison):
    make = PolicyComparisonDisplay
    want = make.from_values(comparison)
    logs = three_arms()
    given = {"baseline": "uniform", "level": 0.8}
    for display in (
        make.from_values(dict(comparison), **given),
        make.from_evaluator(SNIPS().fit(logs), arms(logs), **given),
    ):
        assert (display.choice, display.level) == (want.choice, want.level)
        for name in ("gain", "gain_low", "gain_high", "value", "low", "high"):
            assert_allclose(getattr(display, name), getattr(want, name), rtol=1e-12)


def test_what_is_no_comparison(comparison):
    make, two = PolicyComparisonDisplay.from_values, "must name one of at least two.*No"
    for values, given, error, message in (
        (0.5, None, TypeError, r"values must be a ValueTable, a dict"),
        (dict(comparison), None, ValueError, f"baseline {two}"),
        (comparison, "always 1", ValueError, "is with 'uniform', got base"),
    ):
        with pytest.raises(error, match=message):
            make(values, baseline=given)

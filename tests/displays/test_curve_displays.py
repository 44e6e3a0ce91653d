# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Displays of a value over a parameter: a bound, a quantile, an odds ratio, a size."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge

from skope_ope import (
    IPS,
    SNDR,
    SNIPS,
    BanditLogs,
    DirectMethod,
    DoublyRobust,
    DRns,
    DRos,
    EpsilonGreedy,
    ExplorationScavenging,
    Replay,
    SwitchDR,
    UniformPolicy,
    compare_policies,
    evaluate,
)
from skope_ope.datasets import make_bandit_logs
from skope_ope.displays import (
    ClippingCurveDisplay,
    ConvergenceDisplay,
    QuantileCurveDisplay,
    SensitivityDisplay,
)
from skope_ope.exceptions import BiasWarning, LowOverlapWarning
from tests._quiet import quiet

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
clipping = ClippingCurveDisplay.from_evaluator
quantiles = QuantileCurveDisplay.from_evaluator
sensitivity = SensitivityDisplay.from_values
convergence = ConvergenceDisplay.from_evaluator


def legend_of(display):
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]


# Bounds on the weights
LOGS, POLICY, _ = make_bandit_logs(400, random_state=1, return_truth=True)
BOUNDED = [IPS(), SNIPS(cmax=2.0), DoublyRobust(reward_model=Ridge())]
BOUNDED += [SwitchDR(reward_model=Ridge(), tau=3.0)]


@pytest.mark.few_cases(2)
@pytest.mark.parametrize("evaluator", BOUNDED, ids=lambda e: type(e).__name__)
def test_every_point_is_the_evaluator_with_that_bound(evaluator):
    evaluator.fit(LOGS)
    display = clipping(evaluator, POLICY, param_range=[2.0, 0.5, 1.0], level=0.9)
    assert_array_equal(display.param_range, [0.5, 1.0, 2.0])
    assert display.own == getattr(evaluator, display.param_name)
    for i, bound in enumerate(display.param_range):
        bounded = clone(evaluator).set_params(**{display.param_name: bound})
        result = bounded.fit(LOGS).evaluate(POLICY)
        assert_allclose(display.value[i], result.value, rtol=1e-12)
        ends = result.confidence_interval(0.9)
        assert_allclose((display.low[i], display.high[i]), ends, rtol=1e-12)
        altered = display.values[i].diagnostics["altered_rows"]
        assert altered == pytest.approx(result.diagnostics["altered_rows"])


def test_default_range_ends_without_clipping():
    evaluator = IPS().fit(LOGS)
    display = clipping(evaluator, POLICY)
    assert len(display.param_range) == 30
    assert (np.diff(display.param_range) > 0).all()
    assert display.value[-1] == evaluator.score(POLICY)
    assert (np.diff(display.value) >= 0).all()  # rewards of 0 and 1: clipping takes
    largest = evaluator.evaluate(POLICY).diagnostics["max_weight"]
    assert display.param_range[-1] == largest
    on_policy = clipping(evaluator, LOGS.propensity)  # equal weights have a range
    assert_allclose(on_policy.param_range[[0, -1]], [0.1, 1.0])
    assert_allclose(on_policy.value, LOGS.reward.mean() * on_policy.param_range)


def test_other_logs_and_sample_weights():
    evaluator = DoublyRobust(reward_model=Ridge()).fit(LOGS)
    weighted = LOGS[:100].replace(sample_weight=np.linspace(1, 2, 100))
    display = clipping(evaluator, POLICY, logs=weighted, param_range=[1e6])
    assert_allclose(display.value, [evaluator.score(POLICY, weighted)])


def test_what_has_no_bounds_is_refused():
    value = IPS().fit(LOGS).evaluate(POLICY)
    zeros = np.zeros(len(LOGS))
    for evaluator, policy, bounds, message in (
        (DRos(), POLICY, None, "DRos has no bound on the weights"),
        (IPS(), POLICY, [-1.0, 1.0], "'cmax' parameter of IPS"),
        (IPS(), zeros, None, "no weights to bound"),
    ):
        with pytest.raises(ValueError, match=message):
            clipping(evaluator.fit(LOGS), policy, param_range=bounds)
    for values, error, message in (
        (value, TypeError, "a dict of PolicyValue by the bound on the we"),
        ({"a": value}, ValueError, r"numbers in \[0, inf\], got the key 'a'"),
        ({-1: value}, ValueError, "got the key -1"),
    ):
        with pytest.raises(error, match=message):
            ClippingCurveDisplay.from_values(values)


def test_warnings_come_once():
    p = np.where(np.arange(400) == 7, 1e-4, LOGS.propensity)
    logs = LOGS.replace(propensity=p, logging_proba=None)
    with pytest.warns(LowOverlapWarning) as caught:
        clipping(IPS().fit(logs), UniformPolicy())
    texts = [str(warning.message) for warning in caught]
    assert len(texts) == len(set(texts)) == 2  # few rounds; outside of the range


def test_plot_of_bounds(pyplot):
    evaluator = IPS(cmax=1.5).fit(LOGS)
    display = clipping(evaluator, POLICY).plot(color="red")
    assert_array_equal(display.line_.get_xdata(), display.param_range)
    assert_array_equal(display.line_.get_ydata(), display.value)
    assert display.line_.get_color() == "red"
    corners = display.fill_between_.get_paths()[0].vertices
    assert_allclose(corners[:, 1].min(), display.low.min())
    assert_allclose(corners[:, 1].max(), display.high.max())
    assert_array_equal(display.own_line_.get_xdata(), [1.5, 1.5])
    assert legend_of(display) == ["IPS", "95% interval", "cmax = 1.5 in use"]
    assert display.ax_.get_xlabel().splitlines() == [
        "bound on the weights (cmax)",
        "intervals leave out the bias of clipped weights",
    ]
    assert clipping(IPS().fit(LOGS), POLICY).plot().own_line_ is None


def test_bounds_from_values():
    values = {b: IPS(cmax=b).fit(LOGS).evaluate(POLICY) for b in (2.0, 0.5)}
    given = {"own": 2.0, "level": 0.9, "name": "IPS"}
    display = ClippingCurveDisplay.from_values(values, **given)
    curve = {"param_range": [0.5, 2.0], "level": 0.9}
    evaluator = IPS(cmax=2.0).fit(LOGS)
    want = clipping(evaluator, POLICY, **curve)
    for name in ("param_name", "param_range", "value", "low", "high", "own", "name"):
        assert_array_equal(getattr(display, name), getattr(want, name))
    assert display.leaves_bias_out == ["the bias of clipped weights"] * 2


# Quantiles of DRns


def two_armed_log(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    action = rng.choice(2, n, p=[0.9, 0.1])
    reward = rng.random(n) < np.array([0.2, 0.8])[action]
    p = np.take([0.9, 0.1], action)
    return BanditLogs(rng.normal(size=(n, 2)), action, reward, p)


@pytest.fixture(scope="module")
def curve():
    evaluator = DRns(horizon=20, random_state=0).fit(two_armed_log())
    return quantiles(evaluator, EpsilonGreedy(0.5), level=0.9)


def test_every_point_is_the_evaluator_with_that_quantile():
    logs, policy = two_armed_log(), EpsilonGreedy(0.5)
    evaluator = DRns(q=0.1, horizon=20, reward_model=LogisticRegression())
    evaluator.set_params(random_state=0).fit(logs)
    before = dict(vars(evaluator))
    curve = quantiles(evaluator, policy, q_range=[0.5, 0.0, 0.5], level=0.8)
    assert_array_equal(curve.q, [0, 0.5])
    assert curve.own == 0.1
    for i, q in enumerate(curve.q):
        alone = quiet(clone(evaluator).set_params(q=q).fit(logs), policy)
        assert curve.value[i] == alone.value
        ends = alone.confidence_interval(0.8)
        assert_allclose((curve.low[i], curve.high[i]), ends)
        assert curve.bias_mass[i] == alone.bias_mass
        assert curve.bias_mass_error[i] == alone.diagnostics["bias_mass_error"]
        assert curve.n_accepted[i] == len(alone.accepted)
        alarm = any(isinstance(w, BiasWarning) for w in alone.warnings)
        assert curve.alarm[i] == alarm
    assert dict(vars(evaluator)) == before


def test_the_default_range_shows_where_the_bias_begins(curve):
    assert_array_equal(curve.q, [0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5])
    assert (np.diff(curve.bias_mass) >= -0.02).all()
    assert not curve.alarm[:2].any()
    assert curve.alarm[-2:].all()
    own = DRns(q=0.03, horizon=20, random_state=0).fit(two_armed_log())
    own = quantiles(own, EpsilonGreedy(0.5))
    assert 0.03 in own.q


def test_other_logs_and_columns():
    evaluator = DRns(random_state=0).fit(two_armed_log())
    other = two_armed_log(500, seed=1).with_columns(pi=np.full((500, 2), 0.5))
    curve = quantiles(evaluator, "pi", logs=other, q_range=[0.05])
    assert curve.value == [quiet(evaluator, "pi", other).value]
    assert curve.name == "pi"


def test_what_has_no_quantile_is_refused():
    logs = two_armed_log(200)
    with pytest.raises(NotFittedError):
        quantiles(DRns(), UniformPolicy())
    for evaluator in (DRns(acceptance="worst_case"), Replay()):
        fitted = evaluator.fit(logs.replace(propensity=np.full(200, 0.5)))
        with pytest.raises(TypeError, match="needs a DRns with acceptance='quantile'"):
            quantiles(fitted, UniformPolicy())
    fitted = DRns().fit(logs)
    for bad in ([], [0.1, 1.5], [-0.1]):
        with pytest.raises(ValueError, match="q_range must hold numbers in"):
            quantiles(fitted, UniformPolicy(), q_range=bad)


def test_plot_of_quantiles(pyplot, curve):
    assert curve.plot() is curve
    upper, lower = curve.axes_
    assert curve.ax_ is upper
    assert upper.get_title() == "DRns: EpsilonGreedy"
    labels = [text.get_text() for text in lower.get_xticklabels()]
    assert labels == ["0", "0.01", "0.02", "0.05", "0.1", "0.2", "0.5"]
    heights = [bar.get_height() for bar in lower.patches]
    assert_allclose(heights, curve.bias_mass)
    drawn = np.concatenate([box.lines[0].get_ydata() for box in upper.containers])
    assert_allclose(np.sort(drawn), np.sort(curve.value))
    said = ["q = 0.05 in use", "90% interval", "90% interval,\nbiased history"]
    assert legend_of(curve) == said
    figure, ax = pyplot.subplots()
    curve.plot(ax, panels="bias_mass")
    assert curve.figure_ is figure
    with pytest.raises(ValueError, match="2 panels need as many axes, got 1"):
        curve.plot(ax)
    with pytest.raises(ValueError, match="panels must be of"):
        curve.plot(panels=["value", "length"])


def test_quantiles_from_values(curve):
    values = dict(zip(curve.q.tolist(), curve.values, strict=True))
    given = {"own": 0.05, "level": 0.9, "name": "EpsilonGreedy"}
    made = QuantileCurveDisplay.from_values(dict(reversed(values.items())), **given)
    for name in ("q", "value", "low", "high", "bias_mass", "alarm", "own", "name"):
        assert_array_equal(getattr(made, name), getattr(curve, name))
    with pytest.raises(ValueError, match=r"numbers in \[0, 1\], got the key 2"):
        QuantileCurveDisplay.from_values({2: curve.values[0]})
    logs = BanditLogs(np.zeros((4, 1)), [0, 1] * 2, [0, 1, 1, 0], [0.5] * 4)
    other = IPS().fit(logs).evaluate(UniformPolicy())
    with pytest.raises(TypeError, match="values must come from DRns, got one of IPS"):
        QuantileCurveDisplay.from_values({0.1: other})


def test_a_value_without_an_interval_is_marked(pyplot):
    """A dot alone would look sure."""
    values = {}
    for q, horizon in ((0.0, 50), (0.1, 100), (0.2, 20)):
        evaluator = DRns(q=q, horizon=horizon, reward_model=0.5, random_state=0)
        values[q] = quiet(evaluator.fit(two_armed_log(300)), EpsilonGreedy(0.5))
    counts = [value.n_trajectories for value in values.values()]
    assert counts[0] == 1 and counts[1] == 0 and counts[2] > 1
    upper = QuantileCurveDisplay.from_values(values).plot().axes_[0]
    assert [(text.get_text(), text.xy[0]) for text in upper.texts] == [("no value", 1)]
    marks = {box.get_label(): box.lines[0] for box in upper.containers}
    assert marks["no interval"].get_marker() == "x"
    assert marks["no interval"].get_xdata().tolist() == [0]
    none = {1.0: values[0.1]}
    assert np.isnan(QuantileCurveDisplay.from_values(none).plot().value).all()


# Odds ratios
LOGS_1000, POLICY_1000, _ = make_bandit_logs(random_state=0, return_truth=True)
EVALUATOR = SNIPS().fit(LOGS_1000)
BASELINE = float(LOGS_1000.reward.mean())


@pytest.fixture(scope="module")
def snips_value():
    return EVALUATOR.evaluate(POLICY_1000)


def test_bounds_are_those_of_the_value(snips_value):
    display = sensitivity(snips_value, gamma=[2, 1, 1.5], level=0.8)
    want = snips_value.sensitivity([1, 1.5, 2], level=0.8)
    for name in ("gamma", "low", "high", "interval_low", "interval_high"):
        assert_array_equal(getattr(display, name), getattr(want, name))
    assert (display.value, display.name) == (snips_value.value, "SNIPS")
    assert display.baseline is None and display.breakdown is None


def test_a_baseline(snips_value):
    display = sensitivity(snips_value, baseline=BASELINE)
    assert display.breakdown == snips_value.breakdown_gamma(BASELINE)
    of_interval = snips_value.breakdown_gamma(BASELINE, level=0.95)
    assert display.breakdown_of_interval == of_interval < display.breakdown
    at = np.interp(display.breakdown, display.gamma, display.low)
    assert_allclose(at, BASELINE, atol=2e-3)  # between points of the curve
    compared = compare_policies({"new": POLICY_1000}, LOGS_1000, evaluator=SNIPS())
    paired = sensitivity(snips_value, baseline=compared.reference)
    assert paired.breakdown == display.breakdown
    assert paired.baseline == BASELINE
    for baseline, largest in ((None, 3), (BASELINE, 3), (0.4, 3.4), (0.0, 20)):
        display = sensitivity(snips_value, baseline=baseline)  # it goes beyond it
        assert display.gamma[0] == 1
        assert display.gamma[-1] == pytest.approx(largest, abs=0.2)


def test_sensitivity_from_evaluator(snips_value):
    make, given = SensitivityDisplay.from_evaluator, {"gamma": [1, 2]}
    display = make(EVALUATOR, POLICY_1000, baseline=BASELINE, **given)
    assert_array_equal(display.low, snips_value.sensitivity([1, 2]).low)
    part = make(EVALUATOR, POLICY_1000, logs=LOGS_1000[:200])
    assert part.value == EVALUATOR.score(POLICY_1000, LOGS_1000[:200])


def test_no_sensitivity(snips_value):
    for given, error, message in (
        ({"value": 0.5}, TypeError, "must be a PolicyValue, got float"),
        ({"gamma": [0.5]}, ValueError, "gamma must be at least 1"),
        ({"baseline": "logger"}, TypeError, "baseline must be a number"),
    ):
        with pytest.raises(error, match=message):
            sensitivity(**{"value": snips_value} | given)
    with pytest.raises(ValueError, match="sensitivity is for SNIPS"):
        SensitivityDisplay.from_evaluator(IPS().fit(LOGS_1000), POLICY_1000)


def corners(area):
    return area.get_paths()[0].vertices[:, 1]


def test_plot_of_sensitivity(pyplot, snips_value):
    display = sensitivity(snips_value, baseline=BASELINE)
    assert display.plot() is display
    assert_allclose(corners(display.bounds_).min(), display.low.min())
    assert_allclose(corners(display.intervals_).max(), display.interval_high.max())
    vertical = [line.get_xdata()[0] for line in display.ax_.lines[-2:]]
    assert vertical == [display.breakdown, display.breakdown_of_interval]
    assert legend_of(display) == [
        "with their\n95% intervals",
        "bounds of the estimate",
        "SNIPS, nothing hidden",
        "baseline",
        f"bounds reach it\nat {display.breakdown:.2f}",
        f"intervals reach it\nat {display.breakdown_of_interval:.2f}",
    ]


def test_a_baseline_that_is_not_reached_is_told(pyplot, snips_value):
    display = sensitivity(snips_value, gamma=[1, 1.2], baseline=BASELINE)
    label = display.plot().ax_.get_xlabel()
    assert label.endswith(f"the bounds reach the baseline at {display.breakdown:.2f}")
    never = sensitivity(snips_value, baseline=-1.0).plot()
    assert never.breakdown == np.inf
    assert never.ax_.get_xlabel().endswith("the bounds never reach the baseline")


# Sizes of the log
SIZES = [1, 150, 400]
EVALUATORS = [IPS(), SNIPS(), ExplorationScavenging(self_normalized=True)]
EVALUATORS += [make(reward_model=0.4) for make in (SNDR, SwitchDR, DirectMethod)]


@pytest.mark.parametrize("evaluator", EVALUATORS, ids=lambda e: type(e).__name__)
def test_values_are_those_of_shorter_logs(evaluator):
    """Ratios are formed anew, not averaged over linearised terms."""
    display = convergence(evaluator.fit(LOGS), POLICY, sizes=SIZES)
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
    shuffled = LOGS.replace(timestamp=order.argsort())
    display = convergence(SNIPS().fit(shuffled), POLICY, sizes=[100])
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
    simulated = DRns(random_state=0).fit(LOGS).evaluate(POLICY)
    part = SNIPS().fit(LOGS[:100]).evaluate(POLICY)
    sums = "cannot be computed from sums"
    for values, error, message in (
        ({"gain": value - other}, ValueError, rf"{sums}.*logs\[:m\]"),
        (simulated, ValueError, f"{sums}.*HistoryDisplay"),
        ({"one": value, "other": part}, ValueError, r"of the same rounds, got \[100,"),
        ({"IPS": 0.5}, TypeError, r"must be a PolicyValue.*float"),
    ):
        with pytest.raises(error, match=message):
            ConvergenceDisplay.from_values(values)


def test_plot_of_sizes(pyplot):
    evaluators = {"IPS": IPS().fit(LOGS), "model": DirectMethod().fit(LOGS)}
    policies = {"sharp": POLICY, "uniform": UniformPolicy()}
    display = convergence(evaluators, policies, sizes=SIZES)
    assert display.plot(truth=0.6) is display
    for drawn, value in zip(display.lines_, display.value, strict=True):
        assert_array_equal(drawn.get_xdata(), SIZES)
        assert_array_equal(drawn.get_ydata(), value)
    texts = [text.replace("\n", " ") for text in legend_of(display)]
    names = ["sharp, IPS", "sharp, model", "uniform, IPS", "uniform, model"]
    assert texts == [*names, "truth"]
    label = display.ax_.get_xlabel().replace("\n", " ")
    assert "95% intervals, each for one size chosen beforehand" in label
    assert "those of sharp, model, uniform, model leave out the error of the" in label
    ends = [line.get_ydata() for line in display.ax_.lines]
    assert any(np.array_equal(end, display.low[0], equal_nan=True) for end in ends)

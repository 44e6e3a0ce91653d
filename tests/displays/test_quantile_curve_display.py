# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from skope_ope import IPS, BanditLogs, DRns, EpsilonGreedy, Replay, UniformPolicy
from skope_ope.displays import QuantileCurveDisplay
from skope_ope.exceptions import BiasWarning
from tests._quiet import quiet


def two_armed_log(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    action = rng.choice(2, n, p=[0.9, 0.1])
    reward = rng.random(n) < np.array([0.2, 0.8])[action]
    p = np.take([0.9, 0.1], action)
    return BanditLogs(rng.normal(size=(n, 2)), action, reward, p)


@pytest.fixture(scope="module")
def display():
    evaluator = DRns(horizon=20, random_state=0).fit(two_armed_log())
    return QuantileCurveDisplay.from_evaluator(evaluator, EpsilonGreedy(0.5), level=0.9)


def test_every_point_is_the_evaluator_with_that_quantile():
    logs, policy = two_armed_log(), EpsilonGreedy(0.5)
    evaluator = DRns(
        q=0.1, horizon=20, reward_model=LogisticRegression(), random_state=0
    ).fit(logs)
    before = dict(vars(evaluator))
    display = QuantileCurveDisplay.from_evaluator(
        evaluator, policy, q_range=[0.5, 0.0, 0.5], level=0.8
    )
    np.testing.assert_array_equal(display.q, [0, 0.5])
    assert display.own == 0.1
    for i, q in enumerate(display.q):
        alone = quiet(clone(evaluator).set_params(q=q).fit(logs), policy)
        assert display.value[i] == alone.value
        np.testing.assert_allclose(
            (display.low[i], display.high[i]), alone._interval(0.8)
        )
        assert display.bias_mass[i] == alone.bias_mass
        assert display.bias_mass_error[i] == alone.diagnostics["bias_mass_error"]
        assert display.n_accepted[i] == len(alone.accepted)
        alarm = any(isinstance(w, BiasWarning) for w in alone.warnings)
        assert display.alarm[i] == alarm
    assert dict(vars(evaluator)) == before


def test_the_default_range_shows_where_the_bias_begins(display):
    np.testing.assert_array_equal(display.q, [0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5])
    assert (np.diff(display.bias_mass) >= -0.02).all()
    assert not display.alarm[:2].any()
    assert display.alarm[-2:].all()
    own = DRns(q=0.03, horizon=20, random_state=0).fit(two_armed_log())
    own = QuantileCurveDisplay.from_evaluator(own, EpsilonGreedy(0.5))
    assert 0.03 in own.q


def test_other_logs_and_columns():
    logs = two_armed_log()
    evaluator = DRns(random_state=0).fit(logs)
    other = two_armed_log(500, seed=1).with_columns(pi=np.full((500, 2), 0.5))
    display = QuantileCurveDisplay.from_evaluator(
        evaluator, "pi", logs=other, q_range=[0.05]
    )
    assert display.value == [quiet(evaluator, "pi", other).value]
    assert display.name == "pi"


def test_what_has_no_quantile_is_refused():
    logs = two_armed_log(200)
    with pytest.raises(NotFittedError):
        QuantileCurveDisplay.from_evaluator(DRns(), UniformPolicy())
    for evaluator in (DRns(acceptance="worst_case"), Replay()):
        fitted = evaluator.fit(logs.replace(propensity=np.full(200, 0.5)))
        with pytest.raises(TypeError, match="needs a DRns with acceptance='quantile'"):
            QuantileCurveDisplay.from_evaluator(fitted, UniformPolicy())
    fitted = DRns().fit(logs)
    for bad in ([], [0.1, 1.5], [-0.1]):
        with pytest.raises(ValueError, match="q_range must hold numbers in"):
            QuantileCurveDisplay.from_evaluator(fitted, UniformPolicy(), q_range=bad)


def test_a_value_without_an_interval_is_still_drawn(pyplot):
    logs = two_armed_log(100)
    fitted = DRns(horizon=200, random_state=0).fit(logs)
    display = QuantileCurveDisplay.from_evaluator(fitted, EpsilonGreedy(0.5))
    assert np.isnan(display.value).all()
    display.plot().figure_.canvas.draw()
    long = DRns(horizon=15, random_state=0).fit(logs[:60])
    display = QuantileCurveDisplay.from_evaluator(long, EpsilonGreedy(0.5))
    display.plot().figure_.canvas.draw()


def test_plot(pyplot, display):
    assert display.plot() is display
    upper, lower = display.axes_
    assert display.ax_ is upper
    assert upper.get_title() == "DRns: EpsilonGreedy"
    labels = [text.get_text() for text in lower.get_xticklabels()]
    assert labels == ["0", "0.01", "0.02", "0.05", "0.1", "0.2", "0.5"]
    heights = [bar.get_height() for bar in lower.patches]
    np.testing.assert_allclose(heights, display.bias_mass)
    drawn = np.concatenate(
        [np.atleast_2d(box.lines[0].get_xydata()) for box in upper.containers]
    )
    np.testing.assert_allclose(np.sort(drawn[:, 1]), np.sort(display.value))
    said = [text.get_text() for text in upper.get_legend().get_texts()]
    assert said == ["q = 0.05 in use", "90% interval", "90% interval,\nbiased history"]
    figure, ax = pyplot.subplots()
    display.plot(ax, panels="bias_mass")
    assert display.figure_ is figure
    with pytest.raises(ValueError, match="2 panels need as many axes, got 1"):
        display.plot(ax)
    with pytest.raises(ValueError, match="panels must be of"):
        display.plot(panels=["value", "length"])


def test_from_values(display):
    values = dict(zip(display.q.tolist(), display.values, strict=True))
    given = {"own": 0.05, "level": 0.9, "name": "EpsilonGreedy"}
    made = QuantileCurveDisplay.from_values(dict(reversed(values.items())), **given)
    for name in ("q", "value", "low", "high", "bias_mass", "alarm", "own", "name"):
        np.testing.assert_array_equal(getattr(made, name), getattr(display, name))
    with pytest.raises(ValueError, match=r"numbers in \[0, 1\], got the key 2"):
        QuantileCurveDisplay.from_values({2: display.values[0]})
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

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.linear_model import Ridge

from skope_ope import IPS, SNIPS, DoublyRobust, DRos, SwitchDR, UniformPolicy
from skope_ope.datasets import make_bandit_logs
from skope_ope.displays import ClippingCurveDisplay
from skope_ope.exceptions import LowOverlapWarning

LOGS, POLICY, TRUTH = make_bandit_logs(400, random_state=1, return_truth=True)


@pytest.mark.few_cases(2)
@pytest.mark.parametrize(
    "evaluator",
    [
        IPS(),
        SNIPS(cmax=2.0),
        DoublyRobust(reward_model=Ridge()),
        SwitchDR(reward_model=Ridge(), tau=3.0),
    ],
    ids=lambda e: type(e).__name__,
)
def test_every_point_is_the_evaluator_with_that_bound(evaluator):
    evaluator.fit(LOGS)
    display = ClippingCurveDisplay.from_evaluator(
        evaluator, POLICY, param_range=[2.0, 0.5, 1.0], level=0.9
    )
    assert_array_equal(display.param_range, [0.5, 1.0, 2.0])
    assert display.own == getattr(evaluator, display.param_name)
    for i, bound in enumerate(display.param_range):
        bounded = clone(evaluator).set_params(**{display.param_name: bound})
        result = bounded.fit(LOGS).evaluate(POLICY)
        assert_allclose(display.value[i], result.value, rtol=1e-12)
        ends = result.confidence_interval(0.9)
        assert_allclose((display.low[i], display.high[i]), ends, rtol=1e-12)
        assert display.values[i].diagnostics["altered_rows"] == pytest.approx(
            result.diagnostics["altered_rows"]
        )


def test_default_range_ends_without_clipping():
    evaluator = IPS().fit(LOGS)
    display = ClippingCurveDisplay.from_evaluator(evaluator, POLICY)
    assert len(display.param_range) == 30
    assert (np.diff(display.param_range) > 0).all()
    assert display.value[-1] == evaluator.score(POLICY)
    assert (np.diff(display.value) >= 0).all()  # rewards of 0 and 1: clipping takes
    largest = evaluator.evaluate(POLICY).diagnostics["max_weight"]
    assert display.param_range[-1] == largest


def test_equal_weights_have_a_range():
    on_policy = ClippingCurveDisplay.from_evaluator(IPS().fit(LOGS), LOGS.propensity)
    assert_allclose(on_policy.param_range[[0, -1]], [0.1, 1.0])
    assert_allclose(on_policy.value, LOGS.reward.mean() * on_policy.param_range)


def test_other_logs_and_sample_weights():
    evaluator = DoublyRobust(reward_model=Ridge()).fit(LOGS)
    weighted = LOGS[:100].replace(sample_weight=np.linspace(1, 2, 100))
    display = ClippingCurveDisplay.from_evaluator(
        evaluator, POLICY, logs=weighted, param_range=[1e6]
    )
    assert_allclose(display.value, [evaluator.score(POLICY, weighted)])


def test_evaluators_without_a_bound_are_refused():
    with pytest.raises(ValueError, match="DRos has no bound on the weights"):
        ClippingCurveDisplay.from_evaluator(DRos().fit(LOGS), POLICY)


def test_bad_bounds_are_refused():
    with pytest.raises(ValueError, match="'cmax' parameter of IPS"):
        ClippingCurveDisplay.from_evaluator(
            IPS().fit(LOGS), POLICY, param_range=[-1.0, 1.0]
        )


def test_policy_without_weights_is_refused():
    with pytest.raises(ValueError, match="no weights to bound"):
        ClippingCurveDisplay.from_evaluator(IPS().fit(LOGS), np.zeros(len(LOGS)))


def test_warnings_come_once():
    logs = LOGS.replace(
        propensity=np.where(np.arange(400) == 7, 1e-4, LOGS.propensity),
        logging_proba=None,
    )
    with pytest.warns(LowOverlapWarning) as caught:
        ClippingCurveDisplay.from_evaluator(IPS().fit(logs), UniformPolicy())
    texts = [str(warning.message) for warning in caught]
    assert len(texts) == len(set(texts)) == 2  # few rounds; outside of the range


def test_plot(pyplot):
    evaluator = IPS(cmax=1.5).fit(LOGS)
    display = ClippingCurveDisplay.from_evaluator(evaluator, POLICY).plot(color="red")
    assert_array_equal(display.line_.get_xdata(), display.param_range)
    assert_array_equal(display.line_.get_ydata(), display.value)
    assert display.line_.get_color() == "red"
    corners = display.fill_between_.get_paths()[0].vertices
    assert_allclose(corners[:, 1].min(), display.low.min())
    assert_allclose(corners[:, 1].max(), display.high.max())
    assert_array_equal(display.own_line_.get_xdata(), [1.5, 1.5])
    texts = [t.get_text() for t in display.ax_.get_legend().get_texts()]
    assert texts == ["IPS", "95% interval", "cmax = 1.5 in use"]
    assert display.ax_.get_xlabel().splitlines() == [
        "bound on the weights (cmax)",
        "intervals leave out the bias of clipped weights",
    ]


def test_plot_without_a_bound_of_its_own(pyplot):
    display = ClippingCurveDisplay.from_evaluator(IPS().fit(LOGS), POLICY).plot()
    assert display.own_line_ is None


def test_from_values():
    values = {b: IPS(cmax=b).fit(LOGS).evaluate(POLICY) for b in (2.0, 0.5)}
    given = {"own": 2.0, "level": 0.9, "name": "IPS"}
    display = ClippingCurveDisplay.from_values(values, **given)
    curve = {"param_range": [0.5, 2.0], "level": 0.9}
    evaluator = IPS(cmax=2.0).fit(LOGS)
    want = ClippingCurveDisplay.from_evaluator(evaluator, POLICY, **curve)
    for name in ("param_name", "param_range", "value", "low", "high", "own", "name"):
        assert_array_equal(getattr(display, name), getattr(want, name))
    assert display.leaves_bias_out == ["the bias of clipped weights"] * 2


def test_other_values_are_refused():
    value = IPS().fit(LOGS).evaluate(POLICY)
    with pytest.raises(TypeError, match="a dict of PolicyValue by the bound on the we"):
        ClippingCurveDisplay.from_values(value)
    with pytest.raises(ValueError, match=r"numbers in \[0, inf\], got the key 'a'"):
        ClippingCurveDisplay.from_values({"a": value})
    with pytest.raises(ValueError, match="got the key -1"):
        ClippingCurveDisplay.from_values({-1: value})

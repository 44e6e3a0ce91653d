# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge

from skope_ope import (
    IPS,
    SNIPS,
    BanditLogs,
    ConstantPolicy,
    DoublyRobust,
    DRos,
    SubGaussianDR,
    SubGaussianIPS,
    SwitchDR,
    UniformPolicy,
    evaluate,
)
from skope_ope.datasets import make_bandit_logs
from skope_ope.displays import ClippingCurveDisplay, WeightsDisplay
from skope_ope.evaluators.core._target import Target
from skope_ope.evaluators.static import _auto
from tests._worlds import d8, d8_logs

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")

AUTO = {
    "IPS": IPS(cmax="auto"),
    "SNIPS": SNIPS(cmax="auto"),
    "DoublyRobust": DoublyRobust(cmax="auto"),
    "SwitchDR": SwitchDR(tau="auto"),
    "DRos": DRos(lam="auto"),
    "SubGaussianIPS": SubGaussianIPS(lam="auto"),
    "SubGaussianDR": SubGaussianDR(lam="auto"),
}
LAMBDAS = [np.inf, 100.0, 16.0, 4.0, 1.0, 0.5]


def fitted(evaluator, logs):
    return clone(evaluator).fit(logs, "q_hat")


def parameter(evaluator):
    return evaluator._auto.name


def direct_losses(evaluator, grid, logs):
    """s^2 + (distance from the unmodified estimate)^2, one full evaluation each."""
    auto = evaluator._auto
    neutral = fitted(auto.fixed(evaluator, auto.neutral), logs).score("pi")
    losses = []
    for number in grid:
        value = fitted(auto.fixed(evaluator, number), logs).evaluate("pi")
        losses.append(value.standard_error**2 + (value.value - neutral) ** 2)
    return np.array(losses)


def test_losses_of_d8():
    losses = direct_losses(DRos(lam="auto"), LAMBDAS, d8_logs())
    expected = [0.060455, 0.049793, 0.039824, 0.049773, 0.053994, 0.054005]
    np.testing.assert_allclose(losses, expected, atol=5e-7)


def test_least_loss_is_chosen(monkeypatch):
    monkeypatch.setattr(DRos._auto, "grid", lambda w, n: np.array(LAMBDAS))
    evaluator = fitted(DRos(lam="auto"), d8_logs())
    value = evaluator.evaluate("pi")
    assert value.diagnostics["lam"] == 16.0
    assert not hasattr(evaluator, "lam_")
    assert value.value == fitted(DRos(lam=16.0), d8_logs()).score("pi")
    assert evaluator.lam == "auto"


@pytest.mark.parametrize("name", [name for name in AUTO if name != "SwitchDR"])
def test_choice_against_full_evaluations(name):
    logs, evaluator = d8_logs(), AUTO[name]
    w = logs.columns["pi"][range(8), logs.action] / logs.propensity
    grid = evaluator._auto.grid(w[w > 0], len(logs))
    best = grid[direct_losses(evaluator, grid, logs).argmin()]
    value = fitted(evaluator, logs).evaluate("pi")
    assert value.diagnostics[parameter(evaluator)] == best
    assert "w" not in value.diagnostics


@pytest.mark.parametrize("whole", [True, False])
def test_switch_by_its_bound(whole):
    log = d8()
    logs = d8_logs(logging_proba=log.mu) if whole else d8_logs()
    w = log.pi[range(8), log.action] / log.propensity
    grid = np.geomspace(*np.quantile(w, [0.95, 0.05]), 30)
    losses = []
    for tau in grid:
        if whole:
            mass = (log.pi * (log.pi / log.mu > tau)).sum(axis=1).mean()
        else:
            mass = (w * (w > tau)).mean()
        error = fitted(SwitchDR(tau=tau), logs).evaluate("pi").standard_error
        losses.append(error**2 + mass**2)  # rewards range over one
    value = fitted(SwitchDR(tau="auto"), logs).evaluate("pi")
    assert value.diagnostics["tau"] == pytest.approx(grid[np.argmin(losses)])


def test_grids():
    w = np.linspace(0.1, 2.0, 39)
    low, high = np.quantile(w, [0.05, 0.95])
    clip = _auto.clip_grid(w, 100)
    assert len(clip) == 31 and clip[0] == 10.0
    np.testing.assert_allclose(clip[1:], np.geomspace(high, low, 30))
    np.testing.assert_allclose(_auto.threshold_grid(w, 100), clip[1:])
    low, high = np.quantile(w**2, [0.05, 0.95])
    np.testing.assert_allclose(
        _auto.shrink_grid(w, 100), np.geomspace(100 * high, 0.01 * low, 30)
    )
    harmonic = _auto.harmonic_grid(w, 100)
    np.testing.assert_allclose(harmonic, 1 / (1 + np.exp(-np.linspace(-10, 10, 30))))


def test_many_rounds_allow_for_the_error_of_the_bias():
    logs, policy, _ = make_bandit_logs(1000, random_state=0, return_truth=True)
    w = Target(policy, logs).chunk(logs, 0)[range(1000), logs.action_index]
    w = w / logs.propensity
    log, width = np.log(40), np.ptp(logs.reward)
    expected = np.sqrt(2 * (w**2).mean() * log / 1000) + 2 * w.max() * log / 3000

    class Rounds:
        pass

    Rounds.w = w
    assert _auto._deviation(Rounds, logs) == pytest.approx(width * expected)
    Rounds.w = w[:999]
    assert _auto._deviation(Rounds, logs[:999]) == 0


@pytest.mark.few_cases(2)
@pytest.mark.parametrize("name", AUTO)
def test_laws_of_scale_and_shift(name):
    logs, policy, _ = make_bandit_logs(400, random_state=1, return_truth=True)
    logs = BanditLogs(logs.context, logs.action, logs.reward, logs.propensity)
    evaluator = clone(AUTO[name])
    if evaluator._uses_model:
        evaluator.set_params(reward_model=Ridge(), cv=2)
    value = evaluator.fit(logs).score(policy)
    scaled = evaluator.fit(logs.replace(reward=3 * logs.reward)).score(policy)
    assert scaled == pytest.approx(3 * value)
    if evaluator._moves is not None:
        moved = evaluator.fit(logs.replace(reward=logs.reward + 50)).score(policy)
        assert moved == pytest.approx(value + 50)


@pytest.mark.parametrize("name", AUTO)
def test_chosen_anew_for_every_policy(name):
    log, logs = d8(), d8_logs()
    evaluator = fitted(AUTO[name], logs)
    chosen = []
    for pi in (log.pi, np.tile([0.3, 0.3, 0.4], (8, 1)), log.pi):
        chosen.append(evaluator.evaluate(pi).diagnostics[parameter(evaluator)])
    assert chosen[0] == chosen[2]
    if "SubGaussian" not in name:  # whose grid does not follow the weights
        assert chosen[0] != chosen[1]


@pytest.mark.parametrize("name", AUTO)
def test_one_call(name):
    logs = d8_logs()
    table = evaluate("pi", logs, evaluators=[AUTO[name]], reward_model="q_hat")
    assert table[name].value == fitted(AUTO[name], logs).score("pi")
    assert parameter(AUTO[name]) in table[name].diagnostics


@pytest.mark.parametrize("name", AUTO)
def test_no_weight_at_all(name):
    logs = BanditLogs(
        np.zeros((4, 1)), [0] * 4, [0, 1, 1, 0], [0.5] * 4, actions=[0, 1]
    )
    evaluator = clone(AUTO[name])
    if evaluator._uses_model:
        evaluator.set_params(reward_model=0.5)
    value = evaluator.fit(logs).evaluate(ConstantPolicy(1))
    assert value.diagnostics[parameter(evaluator)] == evaluator._auto.neutral


def test_weights_of_the_logger_are_left_alone():
    logs = make_bandit_logs(200, logging_temperature=np.inf, random_state=0)
    for evaluator in (IPS(cmax="auto"), SubGaussianIPS(lam="auto")):
        value = evaluator.fit(logs).score(UniformPolicy())
        assert value == pytest.approx(logs.reward.mean())


def test_sample_weights():
    weight = np.linspace(0.5, 2, 8)
    logs = d8_logs(sample_weight=weight)
    for evaluator in AUTO.values():
        assert np.isfinite(fitted(evaluator, logs).score("pi"))


@pytest.mark.thorough
def test_displays(pyplot):
    logs = d8_logs()
    evaluator = fitted(IPS(cmax="auto"), logs)
    chosen = evaluator.evaluate("pi").diagnostics["cmax"]
    assert ClippingCurveDisplay.from_evaluator(evaluator, "pi").plot().own == chosen
    display = WeightsDisplay.from_evaluator(evaluator, "pi")
    assert display.used_weights.max() == pytest.approx(chosen)


def test_bad_input():
    with pytest.raises(ValueError, match="'cmax' parameter of IPS must be"):
        IPS(cmax="best").fit(d8_logs())

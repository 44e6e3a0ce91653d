# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Parameters that are "auto": the choice has the least of the losses."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.utils import get_tags

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
from skope_ope.policies import action_probabilities
from tests._worlds import d8, d8_logs
from tests.evaluators.core._asked import bare_logs

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")


def thresholds(w, n):
    return np.geomspace(*np.quantile(w, [0.95, 0.05]), 30)


def clips(w, n):
    return np.sort(np.append(thresholds(w, n), np.sqrt(n)))[::-1]


def shrinkages(w, n):
    low, high = np.quantile(w**2, [0.05, 0.95])
    return np.geomspace(100 * high, 0.01 * low, 30)


def harmonics(w, n):
    return expit(np.linspace(-10, 10, 30))


AUTO = {  # the parameter, what changes no weight, what is tried
    IPS: ("cmax", None, clips),
    SNIPS: ("cmax", None, clips),
    DoublyRobust: ("cmax", None, clips),
    SwitchDR: ("tau", np.inf, thresholds),
    DRos: ("lam", np.inf, shrinkages),
    SubGaussianIPS: ("lam", 0.0, harmonics),
    SubGaussianDR: ("lam", 0.0, harmonics),
}
every = pytest.mark.parametrize("cls", AUTO)


def with_number(cls, number, **given):
    return cls(**{AUTO[cls][0]: number}, **given)


def auto(cls, logs, model="q_hat"):
    return with_number(cls, "auto").fit(logs, model)


def chosen(cls, value):
    return value.diagnostics[AUTO[cls][0]]


def losses_of(cls, grid, logs, policy="pi", deviation=0.0):
    """s^2 + (distance from the unmodified estimate)^2, one full evaluation each."""
    neutral = with_number(cls, AUTO[cls][1]).fit(logs, "q_hat").score(policy)
    losses = []
    for number in grid:
        value = with_number(cls, number).fit(logs, "q_hat").evaluate(policy)
        gap = abs(value.value - neutral) + deviation
        losses.append(value.standard_error**2 + gap**2)
    return np.array(losses)


def test_losses_of_d8():
    losses = losses_of(DRos, [np.inf, 100.0, 16.0, 4.0, 1.0, 0.5], d8_logs())
    expected = [0.060455, 0.049793, 0.039824, 0.049773, 0.053994, 0.054005]
    assert_allclose(losses, expected, atol=5e-7)


@pytest.mark.parametrize("cls", [cls for cls in AUTO if cls is not SwitchDR])
def test_the_least_loss_is_chosen(cls):
    logs = d8_logs()
    w = logs.columns["pi"][range(8), logs.action] / logs.propensity
    grid = AUTO[cls][2](w[w > 0], len(logs))
    best = grid[losses_of(cls, grid, logs).argmin()]
    evaluator = auto(cls, logs)
    value = evaluator.evaluate("pi")
    assert chosen(cls, value) == best
    assert value.value == with_number(cls, best).fit(logs, "q_hat").score("pi")
    assert getattr(evaluator, AUTO[cls][0]) == "auto" and "w" not in value.diagnostics


@pytest.mark.parametrize("whole", [True, False])
def test_switch_by_its_bound(whole):
    log = d8()
    logs = d8_logs(logging_proba=log.mu) if whole else d8_logs()
    w = log.pi[range(8), log.action] / log.propensity
    losses = []
    for tau in (grid := thresholds(w, 8)):
        if whole:
            mass = (log.pi * (log.pi / log.mu > tau)).sum(axis=1).mean()
        else:
            mass = (w * (w > tau)).mean()
        error = SwitchDR(tau=tau).fit(logs, "q_hat").evaluate("pi").standard_error
        losses.append(error**2 + mass**2)  # rewards range over one
    value = auto(SwitchDR, logs).evaluate("pi")
    assert chosen(SwitchDR, value) == pytest.approx(grid[np.argmin(losses)])


def test_many_rounds_allow_for_the_error_of_the_bias():
    """From a thousand on, Bernstein's inequality bounds it; rewards tell how far."""
    drawn, policy, _ = make_bandit_logs(1000, random_state=0, return_truth=True)
    w = action_probabilities(policy, drawn)[range(1000), drawn.action_index]
    w, log = w / drawn.propensity, np.log(40)
    bound = np.sqrt(2 * (w**2).mean() * log / 1000) + 2 * w.max() * log / 3000
    for offset, factor, n in ((8, 0.9, 1000), (8.5, 1.2, 1000), (7.5, 0, 999)):
        rows = drawn.action, drawn.reward + offset, drawn.propensity
        logs = BanditLogs(drawn.context, *rows)[:n]
        logs = logs.with_columns(q_hat=np.zeros((n, logs.n_actions)))
        grid, deviation = harmonics(w, n), np.ptp(logs.reward) * bound

        def least(deviation, logs=logs, grid=grid):
            losses = losses_of(SubGaussianIPS, grid, logs, policy, deviation)
            return grid[losses.argmin()]

        found = chosen(SubGaussianIPS, auto(SubGaussianIPS, logs).evaluate(policy))
        if n == 999:
            assert found == least(0) != least(deviation)
        else:
            assert found == least(deviation) != least(factor * deviation)


@pytest.mark.few_cases(2)
@every
def test_laws_of_scale_and_shift(cls):
    logs, policy, _ = make_bandit_logs(400, random_state=1, return_truth=True)
    logs = BanditLogs(logs.context, logs.action, logs.reward, logs.propensity)
    evaluator = with_number(cls, "auto")
    if "reward_model" in evaluator.get_params():
        evaluator.set_params(reward_model=Ridge(), cv=2)
    value = evaluator.fit(logs).score(policy)
    scaled = clone(evaluator).fit(logs.replace(reward=3 * logs.reward)).score(policy)
    assert scaled == pytest.approx(3 * value)
    if get_tags(evaluator).shift_equivariant:
        moved = evaluator.fit(logs.replace(reward=logs.reward + 50)).score(policy)
        assert moved == pytest.approx(value + 50)


@every
def test_chosen_anew_for_every_policy(cls):
    log, evaluator = d8(), auto(cls, d8_logs())
    other = np.tile([0.3, 0.3, 0.4], (8, 1))
    policies = log.pi, other, log.pi
    one, two, again = (chosen(cls, evaluator.evaluate(pi)) for pi in policies)
    assert one == again
    if AUTO[cls][2] is not harmonics:  # which do not follow the weights
        assert one != two


@every
def test_one_call_sample_weights_and_no_weight_at_all(cls):
    given = {"evaluators": {"it": with_number(cls, "auto")}, "reward_model": "q_hat"}
    for logs in (d8_logs(), d8_logs(sample_weight=np.linspace(0.5, 2, 8))):
        value = evaluate("pi", logs, **given)["it"]
        assert value.value == auto(cls, logs).score("pi")
        assert chosen(cls, value) is not None
    logs = bare_logs([0] * 4, [0, 1, 1, 0], 0.5, actions=[0, 1])
    value = auto(cls, logs, 0.5).evaluate(ConstantPolicy(1))
    assert chosen(cls, value) == AUTO[cls][1]


def test_weights_of_the_logger_are_left_alone():
    logs = make_bandit_logs(200, logging_temperature=np.inf, random_state=0)
    for cls in (IPS, SubGaussianIPS):
        value = with_number(cls, "auto").fit(logs).score(UniformPolicy())
        assert value == pytest.approx(logs.reward.mean())


def test_displays():
    evaluator = auto(IPS, d8_logs())
    value = evaluator.evaluate("pi")
    bound = value.diagnostics["cmax"]
    assert ClippingCurveDisplay.from_evaluator(evaluator, "pi").own == bound
    used = WeightsDisplay.from_evaluator(evaluator, "pi").used_weights
    assert used.max() == pytest.approx(bound)
    assert_allclose((used * d8_logs().reward).mean(), value.value, rtol=1e-12)

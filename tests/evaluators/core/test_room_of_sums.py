# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What the engine has room for: further outcomes, and factors of weights.

No public call asks for these so far.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import IPS, SNIPS, BanditLogs, DoublyRobust
from skope_ope.evaluators.core._jobs import evaluate_jobs, prepared_job
from skope_ope.evaluators.core._rounds import PositiveRounds, WeightFactor
from skope_ope.evaluators.core._target import Target

N = 400
RNG = np.random.default_rng(0)
CHANCE = RNG.uniform(0.2, 0.8, N)
ACTION = (RNG.random(N) < CHANCE).astype(int)
PROPENSITY = np.where(ACTION, CHANCE, 1 - CHANCE)
LOGS = BanditLogs(RNG.random((N, 1)), ACTION, RNG.random(N), PROPENSITY)
COST = RNG.normal(3, 1, N)
PI = RNG.dirichlet([1, 1], N)
W = PI[np.arange(N), LOGS.action] / PROPENSITY


def rounds_of(**given):
    out = PositiveRounds(LOGS)
    vars(out).update(given)
    return out


def joint_covariance(one, other):
    """Covariance of two values, from the error of their difference."""
    errors = [x.standard_error**2 for x in (one, other, one - other)]
    return (errors[0] + errors[1] - errors[2]) / 2


@pytest.mark.parametrize("evaluator", [IPS(), SNIPS(), IPS(cmax=2)])
def test_a_second_outcome_gives_the_joint_covariance(evaluator):
    target, rounds = Target(PI, LOGS), rounds_of(outcomes={"cost": COST})
    jobs = [(evaluator, target, None), (evaluator, target, None, "cost")]
    click, cost = evaluate_jobs(jobs, rounds)
    w = np.minimum(W, evaluator.cmax or np.inf)
    total = w.sum() if isinstance(evaluator, SNIPS) else N
    values = [(w * r).sum() / total for r in (LOGS.reward, COST)]
    assert_allclose([click.value, cost.value], values, rtol=1e-12)
    # of psi = w (r - V), or w r - V, times n over the sum
    changes = [
        w * r - (w * v if isinstance(evaluator, SNIPS) else v)
        for r, v in zip((LOGS.reward, COST), values, strict=True)
    ]
    expected = (changes[0] @ changes[1]) / total**2 * N / (N - 1)
    assert joint_covariance(click, cost) == pytest.approx(expected, rel=1e-9)
    assert_allclose(cost.round_values.mean(), cost.value, rtol=1e-12)
    assert abs(np.corrcoef(click.round_values, cost.round_values)[0, 1]) < 1


def test_a_factor_flows_into_the_weights():
    factor = RNG.uniform(0.5, 2, N)
    bias = "the bias of a kernel"
    rounds = rounds_of(factors=(WeightFactor(factor, leaves_bias_out=bias),))
    target, source = Target(PI, LOGS), None
    ips, snips = evaluate_jobs(
        [(IPS(), target, source), (SNIPS(), target, source)], rounds
    )
    w = W * factor
    assert ips.value == pytest.approx((w * LOGS.reward).mean(), rel=1e-12)
    assert snips.value == pytest.approx((w @ LOGS.reward) / w.sum(), rel=1e-12)
    assert_allclose(ips.round_values, w * LOGS.reward, rtol=1e-12)
    assert ips.diagnostics["max_weight"] == pytest.approx(w.max(), rel=1e-12)
    assert (
        ips.leaves_bias_out == bias and not IPS().fit(LOGS).evaluate(PI).leaves_bias_out
    )
    two = rounds_of(factors=(WeightFactor(factor), WeightFactor(1 / factor)))
    [plain] = evaluate_jobs([(IPS(), target, source)], two)
    assert plain.value == pytest.approx((W * LOGS.reward).mean(), rel=1e-12)


def test_a_factor_reaches_a_model_and_clipping():
    factor = RNG.uniform(0.5, 2, N)
    rounds = rounds_of(factors=(WeightFactor(factor),))
    evaluator = DoublyRobust(reward_model=0.3, cmax=1.5).fit(LOGS)
    job = prepared_job(evaluator, Target(PI, LOGS), rounds)
    [found] = evaluate_jobs([job], rounds)
    w = np.minimum(W * factor, 1.5)
    assert found.value == pytest.approx(
        (0.3 + w * (LOGS.reward - 0.3)).mean(), rel=1e-12
    )

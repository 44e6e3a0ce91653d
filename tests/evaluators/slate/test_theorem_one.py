# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The bound of the deviation of the pseudoinverse."""

import pickle

import numpy as np
import pytest

from skope_ope import PlackettLuceSlatePolicy, PseudoInverse, SlateLogs
from skope_ope.policies import (
    EmpiricalSlatePolicy,
    MixtureSlatePolicy,
    ProductSlatePolicy,
)
from tests.evaluators.slate._worlds import quietly, rankings, world
from tests.evaluators.slate.test_pseudo_inverse import EXACT, golden_logs


def test_theorem_one():
    target = np.tile([2, 0], (5, 1))
    result = quietly(PseudoInverse(), target, golden_logs())
    log = np.log(2 / 0.1)
    expected = np.sqrt(2 * 5 * log / 5) + 2 * 6 * log / 15
    assert result.deviation_bound(0.1, reward_bound=1.0) == pytest.approx(expected)
    assert result.deviation_bound(0.1, reward_bound=2.0) == pytest.approx(2 * expected)
    tighter = result.deviation_bound(0.1, reward_bound=1.0, sigma2=1.0, rho=1.0)
    assert tighter == pytest.approx(np.sqrt(2 * log / 5) + 4 * log / 15)
    with pytest.raises(ValueError, match="needs reward_bound"):
        result.deviation_bound(0.1)
    copy = pickle.loads(pickle.dumps(result))
    assert copy.deviation_bound(0.1, reward_bound=1.0) == pytest.approx(expected)
    for other in (*EXACT[1:], PseudoInverse(cmax=9.0)):
        with pytest.raises(ValueError, match="no theorem"):
            quietly(other, target, golden_logs()).deviation_bound(reward_bound=1.0)


def test_theorem_one_is_that_of_the_rounds_that_are_used():
    # in half of the rounds the logger never shows what the policy wants
    logger = ProductSlatePolicy("proba")
    proba = np.zeros((40, 2, 3))
    proba[:, :, :2] = [0.9, 0.1]
    proba[20:] = [0.98, 0.01, 0.01]
    logs = SlateLogs(
        np.zeros((40, 1)),
        np.zeros((40, 2), int),
        np.ones(40),
        n_candidates=3,
        logging_policy=logger,
    ).with_columns(proba=proba)
    target = np.full((40, 2), 2)
    result = quietly(PseudoInverse(), target, logs)
    own = quietly(PseudoInverse(), target[20:], logs[20:])
    assert result.value == pytest.approx(own.value)
    for name in ("sigma2", "rho"):
        assert result.diagnostics[name] == pytest.approx(own.diagnostics[name])
    assert own.diagnostics["sigma2"] == pytest.approx(199)
    assert result.deviation_bound(reward_bound=1.0) == pytest.approx(
        own.deviation_bound(reward_bound=1.0)
    )
    nothing = quietly(PseudoInverse(), target[:20], logs[:20])
    assert np.isnan(nothing.deviation_bound(reward_bound=1.0))


def test_theorem_one_is_that_of_equal_weights():
    target = np.tile([2, 0], (5, 1))
    same = quietly(PseudoInverse(), target, golden_logs(), np.full(5, 3.0))
    plain = quietly(PseudoInverse(), target, golden_logs())
    bound = plain.deviation_bound(reward_bound=1.0)
    assert same.deviation_bound(reward_bound=1.0) == pytest.approx(bound)
    unequal = quietly(PseudoInverse(), target, golden_logs(), [9.0, 1, 1, 1, 1])
    with pytest.raises(ValueError, match="different sample weights"):
        unequal.deviation_bound(reward_bound=1.0)


def test_a_bound_on_the_largest_weight_is_called_so():
    slates = rankings(2, 3)
    ranked = PlackettLuceSlatePolicy([1.0, 2.0, 3.0], 2)
    mixed = MixtureSlatePolicy([EmpiricalSlatePolicy(slates[:3]), ranked], [0.5, 0.5])
    listed = EmpiricalSlatePolicy(slates, np.arange(1, 7) / 21)
    for logger, name in ((ranked, "rho"), (listed, "rho"), (mixed, "rho_bound")):
        logs, _ = world(logger, slates, 0.5, 3)
        result = quietly(PseudoInverse(), np.tile([0, 1], (6, 1)), logs)
        assert {"rho", "rho_bound"} & set(result.diagnostics) == {name}
        assert name in repr(result.diagnostics)
        sigma2, rho = result.diagnostics["sigma2"], result.diagnostics[name]
        radius = result.deviation_bound(reward_bound=1.0)
        stated = result.deviation_bound(reward_bound=1.0, sigma2=sigma2, rho=rho)
        assert radius == stated
        assert rho >= result._rows.terms[0].max() / 0.5 - 1e-9

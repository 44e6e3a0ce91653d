# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""DR by hand; bias, variance and efficiency are in test_vectors.py."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils import get_tags

from skope_ope import (
    IPS,
    BanditLogs,
    DirectMethod,
    DoublyRobust,
    DRos,
    SubGaussianDR,
    SwitchDR,
    UniformPolicy,
)
from skope_ope.exceptions import ModelErrorWarning
from tests._worlds import FOUR_LOGS as LOGS
from tests._worlds import FOUR_PI as PI
from tests._worlds import FOUR_Q as Q

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")


def test_by_hand():
    v = np.array([1.2, 0, 2.6, 2])
    correction = np.array([2 * 2, -1, 0.5 * -1, 0])
    result = DoublyRobust().fit(LOGS, Q).evaluate(PI)
    assert_allclose(result.round_values, v + correction, rtol=1e-12)
    clipped = DoublyRobust(cmax=0.75).fit(LOGS, Q).evaluate(PI)
    expected = v + np.array([0.75 * 2, -0.75, -0.5, 0])
    assert_allclose(clipped.round_values, expected, rtol=1e-12)
    assert_allclose(
        DoublyRobust(cmax=0).fit(LOGS, Q).score(PI),
        DirectMethod().fit(LOGS, Q).score(PI),
    )


def test_a_model_that_is_right_leaves_no_noise(global_random_seed):
    """Linear rewards without noise and a linear model: DR is the mean of v."""
    rng = np.random.RandomState(global_random_seed)
    X, action = rng.normal(size=(200, 2)), rng.randint(2, size=200)
    q = np.column_stack([X @ [1, 2], X @ [-1, 0.5] + 3])
    logs = BanditLogs(X, action, q[np.arange(200), action], np.full(200, 0.5))
    fitted = DoublyRobust(reward_model=LinearRegression()).fit(logs)
    result = fitted.evaluate(UniformPolicy())
    assert_allclose(result.value, q.mean(), rtol=1e-9)
    ips = IPS().fit(logs).evaluate(UniformPolicy())
    assert result.standard_error < 0.8 * ips.standard_error
    assert_allclose(result.round_values, q.mean(axis=1), rtol=1e-8, atol=1e-8)


def test_no_round_is_scored_by_a_model_that_saw_its_reward():
    """A tree that remembers would make every residual zero."""
    rng = np.random.RandomState(0)
    X, reward = rng.normal(size=(300, 2)), rng.normal(size=300)
    logs = BanditLogs(X, np.arange(300) % 2, reward, np.full(300, 0.5))
    fitted = DoublyRobust(reward_model=DecisionTreeRegressor(random_state=0)).fit(logs)
    found = fitted.evaluate(UniformPolicy()).diagnostics
    assert found["model_r2"] < -0.3  # noise predicts noise
    again = fitted.evaluate(UniformPolicy(), logs[rng.permutation(300)])
    assert again.diagnostics["model_r2"] == pytest.approx(found["model_r2"])


def test_columns_travel_where_arrays_cannot():
    logs = LOGS.with_columns(pi=PI, q_hat=Q)
    fitted = DoublyRobust(reward_model="q_hat").fit(logs)
    part = logs[[3, 1]]
    expected = DoublyRobust().fit(part, Q[[3, 1]]).score(PI[[3, 1]])
    assert fitted.score("pi", part) == expected
    with pytest.raises(ValueError, match=r"cannot predict for other logs.*q_hat"):
        DoublyRobust().fit(LOGS, Q).evaluate(PI[:2], LOGS[:2])


@pytest.mark.parametrize(
    ("cmax", "kept"), [(None, True), (1, True), (0.9, False), (0, False)]
)
def test_on_policy_weights_are_kept_by_clipping_above_one(cmax, kept):
    assert get_tags(DoublyRobust(cmax=cmax)).on_policy_mean is kept
    assert get_tags(DoublyRobust(cmax=cmax)).shift_equivariant


@pytest.mark.parametrize(
    "evaluator", [SwitchDR(tau=3), DRos(lam=2), SubGaussianDR(lam=0.5)], ids=str
)
def test_a_bias_that_shrinking_lets_in_is_told(evaluator, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    n = 5000
    action = (rng.random_sample(n) < 0.1).astype(int)  # rare, with weight five
    X, p = np.zeros((n, 1)), np.array([0.9, 0.1])
    reward = rng.random_sample(n) < 0.5
    logs = BanditLogs(X, action, reward, p[action])
    wrong, right = np.tile([0.5, 0.9], (n, 1)), np.full((n, 2), 0.5)
    result = evaluator.fit(logs, wrong).evaluate(UniformPolicy())
    whole = DoublyRobust().fit(logs, wrong).evaluate(UniformPolicy())
    [warning] = [w for w in result.warnings if type(w) is ModelErrorWarning]
    assert "leaves that bias out" in str(warning)
    gap = whole - result  # in pairs: what was taken away
    assert warning.value == pytest.approx(gap.value / gap.standard_error)
    # the right model takes nothing away on average, and DR itself leaves nothing out
    for quiet in (evaluator.fit(logs, right).evaluate(UniformPolicy()), whole):
        assert ModelErrorWarning not in map(type, quiet.warnings)

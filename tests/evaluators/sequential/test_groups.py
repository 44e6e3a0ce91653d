# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Rounds of a group depend on each other: what becomes of the standard errors."""

import warnings

import numpy as np
import pytest

from skope_ope import (
    BanditLogs,
    DRns,
    EpsilonGreedy,
    RejectionSampling,
    Replay,
    UniformPolicy,
)
from skope_ope.exceptions import FewGroupsWarning, OPEWarning
from skope_ope.utils._cluster_checks import cluster_checks_of

N_USERS, PER_USER = 100, 10
SINGLE = [
    Replay(random_state=0),
    RejectionSampling(random_state=0),
    DRns(reward_model=0.5, random_state=0),
    DRns(reward_model=0.5, normalize=False, random_state=0),
]


def logs_of_users(seed=0, group=True):
    """Users whose rewards have a part of their own, rounds in random order."""
    rng = np.random.default_rng(seed)
    user = rng.permutation(np.repeat(np.arange(N_USERS), PER_USER))
    n = len(user)
    action = rng.integers(0, 2, n)
    reward = rng.random(n) < 0.1 + 0.8 * (rng.random(N_USERS) < 0.5)[user]
    rounds = np.zeros((n, 1)), action, reward, np.full(n, 0.5)
    return BanditLogs(*rounds, actions=[0, 1], group=user if group else None)


def quiet(evaluator, policy, logs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)
        return evaluator.fit(logs).evaluate(policy)


@pytest.mark.parametrize("evaluator", SINGLE, ids=str)
def test_errors_of_a_single_trace_are_those_of_users(evaluator):
    logs = logs_of_users()
    pi = np.tile([0.7, 0.3], (len(logs), 1))
    result = quiet(evaluator, pi, logs)
    plain = quiet(evaluator, pi, logs_of_users(group=False))
    assert result.value == plain.value
    n = len(logs)
    sums = np.bincount(logs.group, result.round_values - result.value)
    error = np.sqrt((sums**2).sum() / (n * (n - 1)))
    assert result.standard_error == pytest.approx(error, rel=1e-12)
    assert result.standard_error > 1.2 * plain.standard_error
    assert result.degrees_of_freedom == N_USERS - 1
    assert result.diagnostics["n_groups"] == N_USERS
    assert result.diagnostics["effective_groups"] == pytest.approx(N_USERS)
    effect = (result.standard_error / plain.standard_error) ** 2
    assert result.diagnostics["design_effect"] == pytest.approx(effect)
    # accepted rewards are no independent draws
    assert result.successes is None
    gap = result - quiet(evaluator, np.tile([0.3, 0.7], (n, 1)), logs)
    sums = np.bincount(logs.group, gap.round_values - gap.value)
    error = np.sqrt((sums**2).sum() / (n * (n - 1)))
    assert gap.standard_error == pytest.approx(error, rel=1e-12)
    halves = result.by(logs.group < 50)
    for half, size in ((halves[True], 50), (halves[False], 50)):
        assert half.diagnostics["n_groups"] == size


@pytest.mark.few_cases(2)
@pytest.mark.parametrize("evaluator", SINGLE, ids=str)
def test_identities_of_clusters(evaluator):
    for check in cluster_checks_of(evaluator):
        check(evaluator)


@pytest.mark.theory
def test_intervals_cover_where_users_differ():
    """The value is 1/2; users were drawn, too."""
    covered = np.zeros(2)
    n_logs = 300
    for seed in range(n_logs):
        for k, group in enumerate((True, False)):
            logs = logs_of_users(seed, group)
            evaluator = DRns(reward_model=0.5, random_state=seed)
            low, high = quiet(evaluator, UniformPolicy(), logs).confidence_interval()
            covered[k] += low <= 0.5 <= high
    covered /= n_logs
    assert 0.91 < covered[0] < 0.98
    assert covered[1] < 0.85


@pytest.mark.parametrize(
    ("evaluator", "policy"),
    [
        (DRns(horizon=50, reward_model=0.5, random_state=0), EpsilonGreedy()),
        (DRns(n_splits=4, reward_model=0.5, random_state=0), UniformPolicy()),
        (Replay(horizon=50, random_state=0), EpsilonGreedy()),
    ],
    ids=str,
)
def test_several_trajectories_tell_by_their_own_spread(evaluator, policy):
    result = quiet(evaluator, policy, logs_of_users())
    plain = quiet(evaluator, policy, logs_of_users(group=False))
    assert result.standard_error == plain.standard_error
    assert result.degrees_of_freedom == plain.degrees_of_freedom
    # nothing says that groups were reckoned with
    assert "n_groups" not in result.diagnostics
    assert not [w for w in result.warnings if isinstance(w, FewGroupsWarning)]


def test_users_count_in_the_test_of_the_mean_weight():
    """Groups of rounds that go along with the weights tell less of their mean."""
    logs = logs_of_users()
    wrong = logs.replace(propensity=np.full(len(logs), 0.35))
    side = wrong.replace(group=2 * (logs.group % 40) + logs.action_index)
    for evaluator in (RejectionSampling(random_state=0), DRns(random_state=0)):
        pi = np.tile([0.9, 0.1], (len(logs), 1))
        texts = [str(quiet(evaluator, pi, one).warnings) for one in (wrong, side)]
        assert "mean importance weight" in texts[0]
        assert texts[0] != texts[1]

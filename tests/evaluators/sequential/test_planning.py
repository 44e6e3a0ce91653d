# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest

from skope_ope import BanditLogs, ConstantPolicy, Replay
from skope_ope.evaluators import replay_log_length


def test_the_example_of_the_specification():
    assert replay_log_length(100, 20) == 2000
    assert replay_log_length(100, 20, delta=0.05) == 2331
    bound = replay_log_length(100, 20, delta=0.05, exact=False)
    assert bound == pytest.approx(4119.8, abs=0.05)


def test_one_action_is_always_accepted():
    assert replay_log_length(7, 1, delta=0.01) == 7


@pytest.mark.parametrize("n_actions", [2, 5, 20])
@pytest.mark.parametrize("delta", [0.5, 0.05, 0.001])
def test_the_bound_holds_and_the_quantile_is_the_smallest(n_actions, delta):
    from scipy.stats import binom

    for n_accepted in (1, 10, 300):
        exact = replay_log_length(n_accepted, n_actions, delta=delta)
        bound = replay_log_length(n_accepted, n_actions, delta=delta, exact=False)
        assert exact <= bound
        # the log of this length is too short with probability at most delta
        assert binom.cdf(n_accepted - 1, exact, 1 / n_actions) <= delta + 1e-12
        assert binom.cdf(n_accepted - 1, exact - 1, 1 / n_actions) > delta


def test_replayed_logs_are_long_enough(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    length, delta, n_logs = int(replay_log_length(10, 3, delta=0.2)), 0.2, 300
    short = 0
    for _ in range(n_logs):
        logs = BanditLogs(
            np.empty((length, 0)), rng.randint(0, 3, length), np.ones(length)
        )
        fitted = Replay().fit(logs)
        rows = fitted._result(ConstantPolicy(0).fit(logs), None, None).accepted
        short += len(rows) < 10
    assert short / n_logs < delta + 4 * np.sqrt(delta * (1 - delta) / n_logs)


def test_bad_input():
    for arguments in ((0, 3), (3, 0), (2.5, 3)):
        with pytest.raises(ValueError, match="parameter of replay_log_length"):
            replay_log_length(*arguments)
    for delta in (0, 1, 1.5):
        with pytest.raises(ValueError, match="'delta' parameter"):
            replay_log_length(3, 3, delta=delta)

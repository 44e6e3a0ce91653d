# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest

from skope_ope import BanditLogs, SlateLogs
from skope_ope.logs._known_range import known_range
from skope_ope.logs.sums._log_sums import LogSums


def logs_of(reward, **fields):
    n = len(reward)
    return BanditLogs(
        np.zeros((n, 1)), np.arange(n) % 2, reward, np.full(n, 0.5), **fields
    )


@pytest.mark.parametrize(
    ("reward", "expected"),
    [
        ([0, 1, 0], (0.0, 1.0)),
        ([1, 1, 1], (0.0, 1.0)),
        ([0, 0, 0], None),
        ([0, 1, 0.5], None),
        ([0, 1, -1], None),
        ([1, 0, 2], None),
        ([3, 0, 1], None),
    ],
)
def test_yes_and_no_have_a_range(reward, expected):
    logs = logs_of(reward)
    assert known_range(logs) == expected
    assert known_range(logs) == expected  # and once more, from what was found
    slates = SlateLogs(np.zeros((3, 1)), [[0], [1], [0]], reward)
    assert known_range(slates) == expected


def test_a_stated_range_comes_first():
    assert known_range(logs_of([0, 1, 0], reward_range=(0, 5))) == (0.0, 5.0)


def test_other_rewards_and_rows_are_looked_at_anew():
    logs = logs_of([0, 1, 0])
    assert known_range(logs) == (0.0, 1.0)
    assert known_range(logs[[0, 2]]) is None
    assert known_range(logs.replace(reward=[0.0, 0.5, 1.0])) is None


def test_rounds_that_weigh_nothing_do_not_tell_the_range():
    logs = logs_of([0, 0, 0, 1], sample_weight=[1, 1, 1, 0])
    assert not logs._says_yes_and_no
    parts = LogSums.of(logs[:2]) + LogSums.of(logs[2:])
    assert not parts._says_yes_and_no
    assert logs_of([1, 0, 5], sample_weight=[1, 1, 0])._says_yes_and_no

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
from dataclasses import replace

import numpy as np

from skope_ope import EpsilonGreedy, Replay
from tests.examples._assertions import every_assertion_can_fail

fit = Replay.fit
noise = np.random.RandomState(0)


def clicks_lost_by_day(self, logs):
    """Every fit has shares of its own."""
    kept = noise.uniform(0.1, 1, size=16)[logs.columns["day"]]
    reward = logs.reward * (noise.random_sample(len(logs)) < kept)
    return fit(self, replace(logs, reward=reward).with_columns(**logs.columns))


def few_rounds(self, logs):
    return fit(self, logs[::10])


def quick(*args, **options):
    """In place of regressions, which take most of the time."""
    return EpsilonGreedy(epsilon=0.0)


OTHERS = {
    "skope_ope.policies.OnlineClassifierPolicy": quick,
    "skope_ope.Replay.score": lambda self, policy: 0.1,
}
test_every_assertion_can_fail = every_assertion_can_fail(
    "4_papers/plot_does_replay_agree_with_the_online_bucket.py",
    {
        "clicks lost by day": OTHERS | {"skope_ope.Replay.fit": clicks_lost_by_day},
        "few rounds, one segment": OTHERS
        | {
            "skope_ope.Replay.fit": few_rounds,
            "skope_ope.policies.SegmentedPolicy": lambda policy, segment: policy,
        },
    },
    args=["--n-rounds", "128000", "--n-runs", "6"],
)

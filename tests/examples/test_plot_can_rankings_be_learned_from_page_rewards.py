# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The example on learned rankings sees rankers that have learned nothing."""

from skope_ope import UniformSlatePolicy
from tests.examples._assertions import every_assertion_can_fail


def at_random(ranker, *data):
    """Learn nothing: rank at random, and say that half of it is outside the range."""
    policy = UniformSlatePolicy(3)
    policy.outside_range_share_ = 0.5
    return policy


test_every_assertion_can_fail = every_assertion_can_fail(
    "4_papers/plot_can_rankings_be_learned_from_page_rewards.py",
    {
        "rankers at random": {
            "skope_ope.RankingPolicy.fit": at_random,
            "skope_ope.PseudoInverseRanker.fit": at_random,
        }
    },
    args=["--pages", "10000", "--data", ""],
)

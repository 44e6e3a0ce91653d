# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest

from skope_ope import SlateLogs, UniformSlatePolicy, audit
from skope_ope.logs.checks._lost_rows import page_reward_findings

N, K, SLOTS = 400, 6, 3


def logs_of(slot_reward, seed=0):
    rng = np.random.RandomState(seed)
    slates = np.array([rng.permutation(K)[:SLOTS] for _ in range(N)])
    policy = UniformSlatePolicy(SLOTS)
    return SlateLogs(
        np.zeros((N, 1)),
        slates,
        n_candidates=K,
        slot_reward=slot_reward,
        logging_policy=policy,
    )


def bought(share=0.2, seed=1):
    return (np.random.RandomState(seed).random_sample(N) < share).astype(float)


def test_the_reward_of_the_page_in_each_slot_is_an_error():
    logs = logs_of(np.repeat(bought()[:, None], SLOTS, axis=1))
    _, [found] = page_reward_findings(logs)
    assert (found.name, found.severity) == ("page_reward", "error")
    assert found.number == np.count_nonzero(logs.reward)
    assert "reward=... and without slot_reward" in found.advice[0]
    assert "page_reward" in [one.name for one in audit(logs).alarms]


@pytest.mark.parametrize("share", [0.01, 0.2, 0.9])
def test_clicks_of_slots_are_none(share):
    clicks = np.column_stack([bought(share, seed) for seed in range(SLOTS)])
    assert page_reward_findings(logs_of(clicks)) == ({}, [])


def test_few_rewards_tell_nothing():
    rare = np.zeros(N)
    rare[:9] = 1
    assert page_reward_findings(logs_of(np.repeat(rare[:, None], SLOTS, 1)))[1] == []
    without = SlateLogs(np.zeros((N, 1)), logs_of(np.zeros((N, SLOTS))).slate, bought())
    assert page_reward_findings(without) == ({}, [])

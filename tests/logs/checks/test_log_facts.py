# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest

from skope_ope import BanditLogs, SlateLogs
from skope_ope.logs.checks._log_facts import log_facts


def found(logs):
    return {one.name: one for one in log_facts(logs)[1]}


def test_facts_by_hand():
    logs = BanditLogs(
        np.zeros((4, 2)),
        ["b", "a", "b", "b"],
        [1.0, 0.0, -2.0, 3.0],
        [0.5, 0.25, 0.5, 0.8],
        actions=["a", "b", "c"],
        logger=["x", "y", "y", "y"],
        group=[1, 1, 1, 2],
        sample_weight=[1.0, 2, 3, 4],
        timestamp=[10.0, 20, 30, 40],
    )
    facts, _ = log_facts(logs)
    assert facts["rounds"] == 4
    assert facts["features"] == 2
    assert (facts["number of actions"], facts["actions logged"]) == (3, 2)
    table = facts["actions"]
    assert table["action"] == ["a", "b", "c"]
    assert table["rounds"] == [1, 3, 0]
    np.testing.assert_allclose(table["mean reward"], [0, 2 / 3, np.nan])
    np.testing.assert_allclose(table["mean propensity"], [0.25, 0.6, np.nan])
    assert facts["loggers"]["logger"] == ["x", "y"]
    assert facts["loggers"]["rounds"] == [1, 3]
    told = [facts[f"reward, {name}"] for name in ("lowest", "highest", "mean")]
    assert told == [-2, 3, 0.5]
    assert facts["reward, share not zero"] == 0.75
    assert facts["reward, distinct values"] == 4
    assert facts["propensity, lowest"] == 0.25
    assert facts["sample weight, mean"] == 2.5
    assert facts["groups"] == 2
    assert facts["rounds of a group, median"] == 2
    assert facts["rounds of a group, most"] == 3
    assert facts["effective groups"] == pytest.approx(16 / 10)
    assert (facts["first time"], facts["last time"]) == (10, 40)


def test_of_many_actions_the_most_and_the_least():
    action = np.append(np.arange(100_000), np.full(7, 1234))
    logs = BanditLogs(np.zeros((len(action), 1)), action, np.ones(len(action)))
    facts, _ = log_facts(logs)
    assert facts["number of actions"] == 100_000
    table = facts["actions, most and least"]
    assert len(table["action"]) == 100
    assert (table["action"][0], table["rounds"][0]) == (1234, 8)
    assert table["rounds"][-1] == 1
    assert "mean propensity" not in table
    assert "actions" not in facts


def test_many_rewards_are_not_counted():
    reward = np.random.default_rng(0).random(10_000)
    logs = BanditLogs(np.zeros((10_000, 1)), np.zeros(10_000), reward)
    assert log_facts(logs)[0]["reward, distinct values"] == "more than 1,000"


def test_unseen_actions():
    logs = BanditLogs(np.zeros((2, 1)), [0, 1], [1.0, 0], actions=range(10))
    one = found(logs)["unseen_actions"]
    assert (one.severity, one.number, one.effect) == ("note", 8, 0.8)
    assert "8 (2, 3, 4, 5, 6 and 3 more)" in one.found
    assert one.actions == (2, 3, 4, 5, 6, 7, 8, 9)


def test_few_rewards():
    def of(reward):
        reward = np.asarray(reward, dtype=float)
        logs = BanditLogs(np.zeros((len(reward), 1)), np.zeros(len(reward)), reward)
        return found(logs).get("few_rewards")

    assert of(np.arange(100) < 10) is None
    assert of(np.arange(100) < 9).severity == "note"
    assert "Only 1 of 100 rounds has a reward" in of(np.arange(100) < 1).found
    none = of(np.zeros(100))
    assert none.severity == "warning"
    assert "No round has a reward" in none.found
    assert "All rewards are 3" in of(np.full(100, 3.0)).found
    assert of([1.0]).severity == "note"  # of one round nobody expects more


def test_few_groups():
    def of(group):
        zeros = np.zeros(len(group))
        reward = np.arange(len(group)) % 2.0
        logs = BanditLogs(zeros[:, None], zeros, reward, group=group)
        return found(logs).get("few_groups")

    assert of(np.arange(200) % 40) is None
    one = of(np.arange(200) % 39)
    assert (one.severity, round(one.number)) == ("warning", 39)
    unequal = np.append(np.zeros(1000, int), np.arange(1, 100))
    assert "100 groups, which count as 1.2" in of(unequal).found
    assert "1 group." in of(np.zeros(9)).found


def test_slates():
    slate = [[0, 1], [2, -1], [1, 0], [0, -1]]
    logs = SlateLogs(np.zeros((4, 1)), slate, [1.0, 0, 2, 0]).with_columns(
        sample_weight=[1.0, 1, 2, 2]
    )
    facts, findings = log_facts(logs)
    assert facts["empty slots, share"] == 0.25
    assert facts["slots"] == {
        "slot": [0, 1],
        "share filled": [1, 0.5],
        "distinct candidates": [3, 2],
    }
    assert "candidates of a page, highest" not in facts
    offered = [[1, 1, 0], [1, 1, 1], [1, 1, 0], [1, 0, 0]]
    some = SlateLogs(
        logs.context, slate, logs.reward, candidates=np.array(offered, dtype=bool)
    )
    told = log_facts(some)[0]
    assert told["candidates, most"] == 3
    ends = [told[f"candidates of a page, {end}"] for end in ("lowest", "highest")]
    assert ends == [1, 3]
    assert facts["sample weight, mean"] == 1.5
    assert [one.name for one in findings] == ["few_rewards"]


def test_dates_are_told_as_texts():
    time = np.array(["2026-01-02", "2026-01-01"], dtype="datetime64[s]")
    logs = BanditLogs(np.zeros((2, 1)), [0, 1], [1.0, 0], timestamp=time)
    assert log_facts(logs)[0]["first time"] == "2026-01-01T00:00:00"

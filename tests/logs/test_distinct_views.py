# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

from itertools import groupby

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from skope_ope import BanditLogs, Replay, UniformPolicy
from skope_ope.exceptions import LogsWarning
from skope_ope.logs import DistinctViews


def logs_of(users, actions, rewards, **fields):
    context, reward = np.arange(len(users))[:, None] * 1.0, np.array(rewards, float)
    return BanditLogs(context, list(actions), reward, 0.5, group=list(users), **fields)


def literal(users, actions, rewards):
    """For each user, runs of the same action: (first row, largest reward)."""
    views = []
    for user in sorted(set(users)):
        rows = [k for k in range(len(users)) if users[k] == user]
        for _, run in groupby(rows, key=lambda k: actions[k]):
            run = list(run)
            views.append((run[0], max(rewards[k] for k in run)))
    return sorted(views)


def test_runs_of_a_users_own_sequence():
    users, actions = "aabaabbb", "xxyxyyyx"
    rewards = [0, 1, 0, 0, 0, 0, 1, 1]
    logs = logs_of(users, actions, rewards)
    views = DistinctViews().fit_transform(logs)
    assert views.row_id.position.tolist() == [0, 2, 4, 7]
    assert views.action.tolist() == ["x", "y", "y", "x"]
    assert views.reward.tolist() == [1, 1, 0, 1]
    assert views.row_id.origin == logs.row_id.origin
    np.testing.assert_array_equal(views.context[:, 0], [0, 2, 4, 7])
    assert DistinctViews().fit(logs).n_merged_ == 4
    logs = logs_of("abc", "xxx", [1, 0, 1])
    views = DistinctViews().fit_transform(logs)
    assert views.row_id == logs.row_id
    assert DistinctViews().fit(logs).n_merged_ == 0
    views = DistinctViews().fit_transform(logs_of("aaaa", "xxxx", [0, 0, 1, 0]))
    assert views.reward.tolist() == [1]


def test_literal_loop(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    for _ in range(30):
        n = rng.randint(1, 60)
        users, actions = rng.randint(0, 5, n).tolist(), rng.randint(0, 3, n).tolist()
        rewards = rng.choice([-1.0, 0.0, 0.5, 2.0], n).tolist()
        views = DistinctViews().fit_transform(logs_of(users, actions, rewards))
        found = list(zip(views.row_id.position, views.reward, strict=True))
        assert found == literal(users, actions, rewards)


def test_merging_twice_is_merging_once():
    rng = np.random.RandomState(0)
    logs = logs_of(rng.randint(0, 4, 80), rng.randint(0, 2, 80), rng.randint(0, 2, 80))
    before = logs.reward.copy()
    once = DistinctViews().fit_transform(logs)
    twice = DistinctViews().fit_transform(once)
    assert twice.row_id == once.row_id
    np.testing.assert_array_equal(twice.reward, once.reward)
    np.testing.assert_array_equal(logs.reward, before)  # which are left alone


def test_group_by_the_name_of_a_column():
    logs = logs_of("aabb", "xxxx", [0, 1, 0, 0]).with_columns(session=[1, 2, 3, 3])
    views = DistinctViews("session").fit_transform(logs)
    assert views.row_id.position.tolist() == [0, 1, 2]
    assert views.columns["session"].tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match=r"'user' is not a column .*\['session'\]"):
        DistinctViews("user").fit(logs)


def test_in_front_of_an_evaluator():
    rng = np.random.RandomState(1)
    logs = logs_of(*(rng.randint(0, k, 500) for k in (90, 2, 2)))
    steps = make_pipeline(DistinctViews(), Replay(random_state=0)).fit(logs)
    alone = Replay(random_state=0).fit(DistinctViews().fit_transform(logs))
    assert steps.score(UniformPolicy()) == alone.score(UniformPolicy())
    policy = UniformPolicy()
    assert DistinctViews().fit(logs).transform(policy) is policy
    assert clone(DistinctViews("day")).group == "day"


def test_time_that_runs_backwards_within_a_group_warns():
    logs = logs_of("aab", "xyx", [0, 1, 0], timestamp=[5, 3, 1])
    with pytest.warns(LogsWarning, match=r"within a group at row 1 \(1 such rows\)"):
        DistinctViews().fit(logs)
    # users one after the other is no disorder
    DistinctViews().fit(logs_of("aabb", "xyxy", [0] * 4, timestamp=[5, 6, 1, 2]))


def test_bad_input():
    bare = BanditLogs(np.zeros((2, 1)), [0, 1], [0.0, 1.0])
    with pytest.raises(ValueError, match=r"needs the groups of the .*group=\.\.\."):
        DistinctViews().fit(bare)
    with pytest.raises(TypeError, match="DistinctViews takes BanditLogs, got ndarray"):
        DistinctViews().fit(np.zeros((2, 1)))
    with pytest.raises(ValueError, match="'group' parameter of DistinctViews"):
        DistinctViews(group=3).fit(logs_of("aa", "xx", [0, 1]))

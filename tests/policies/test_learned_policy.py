# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingClassifier

from skope_ope import BanditLogs
from skope_ope.policies._policy_files import divide, learn_policy


def logs_of(seed=0, n=400, **fields):
    """Action 1 is right where x > 0, action 0 elsewhere."""
    rng = np.random.RandomState(seed)
    X = rng.standard_normal((n, 2))
    action = rng.randint(2, size=n)
    reward = (action == (X[:, 0] > 0)).astype(float)
    return BanditLogs(X, action, reward, np.full(n, 0.5), **fields)


def test_parts_are_disjoint_and_in_order():
    logs = logs_of()
    train, test = divide(logs, 0.25, random_state=3)
    assert (len(train), len(test)) == (100, 300)
    rows = np.concatenate([train.row_id.position, test.row_id.position])
    assert sorted(rows) == list(range(400))
    assert (np.diff(test.row_id.position) > 0).all()
    again, _ = divide(logs, 0.25, random_state=3)
    assert again.row_id == train.row_id
    other, _ = divide(logs, 0.25, random_state=4)
    assert other.row_id != train.row_id


def test_groups_stay_together():
    train, test = divide(logs_of(group=np.arange(400) // 10))
    assert not set(train.group) & set(test.group)


def test_a_few_rounds_cannot_be_divided():
    with pytest.raises(ValueError, match=r"on 3 round\(s\); at least 4 are needed"):
        divide(logs_of(n=3))


@pytest.mark.few_cases
@pytest.mark.parametrize("learner", ["logistic", "hist"])
@pytest.mark.parametrize("shift", [0, -1, -5])
def test_the_right_action_is_learned_from_rewards_of_any_sign(learner, shift):
    logs = logs_of(n=1000)
    logs = logs.replace(reward=logs.reward + shift)
    policy = learn_policy(logs, learner)
    X = logs_of(1).context
    right = policy.predict(X) == (X[:, 0] > 0)
    assert right.mean() > (0.9 if shift else 0.95)


def test_learner_and_exploration():
    policy = learn_policy(logs_of(), "hist", epsilon=0.2, random_state=7)
    assert isinstance(policy.classifier_, HistGradientBoostingClassifier)
    assert policy.classifier_.random_state == 7
    assert policy.predict_proba(np.zeros((1, 2))).min() == pytest.approx(0.1)


def test_what_a_learner_cannot_take_is_said():
    logs = logs_of()
    wide = BanditLogs(sparse.csr_matrix(logs.context), logs.action, logs.reward)
    with pytest.raises(ValueError, match="the learner 'hist' cannot take the 2 hashed"):
        learn_policy(wide, "hist")
    assert learn_policy(wide).classes_.tolist() == [0, 1]

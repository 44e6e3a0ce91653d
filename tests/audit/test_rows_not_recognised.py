# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""An audit says where nobody can tell whether a policy has learned from the rounds."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import Ridge

from skope_ope import (
    IPS,
    BanditLogs,
    ClassifierPolicy,
    DRPolicy,
    MixturePolicy,
    PseudoInverseRanker,
    RewardModelPolicy,
    SlateLogs,
    UniformPolicy,
    UniformSlatePolicy,
    audit,
)
from skope_ope.datasets import make_bandit_logs
from skope_ope.exceptions import LearnedRoundsWarning

N = 120
LOGS = make_bandit_logs(N, reward="binary", random_state=0)
DUMMY = DummyClassifier(strategy="prior")
LEARNER = ClassifierPolicy(DUMMY, epsilon=0.5)


def learned(policy, logs):
    """Return what an audit tells about rounds that a policy may have learned from."""
    known = "rows_not_recognised", "learned_rounds", "learned_groups"
    return [one for one in audit(policy, logs).findings if one.name in known]


def coarse(n_rounds=N, seed=0, **fields):
    """Logs built by themselves, with four contexts."""
    rng = np.random.RandomState(seed)
    x, action = rng.randint(4, size=(n_rounds, 1)), np.arange(n_rounds) % 2
    reward = (x[:, 0] + action) % 2
    return BanditLogs(x, action, reward, np.full(n_rounds, 0.5), **fields)


@pytest.mark.parametrize("policy", [LEARNER, DRPolicy(DUMMY)])
def test_rounds_that_nothing_tells_apart_are_a_note(policy):
    logs = coarse()
    policy = clone(policy).fit(logs[:100])
    assert learned(policy, logs[100:]) == []  # parts of one log are told
    again = coarse()
    for other in (again, again[:50], again.replace(reward=np.zeros(N)), coarse(seed=1)):
        for known in (policy, pickle.loads(pickle.dumps(policy))):
            [found] = learned(known, other)
            assert (found.name, found.severity) == ("rows_not_recognised", "note")
            assert found.number == pytest.approx(0.92)  # 8 contents in 100 rounds
            assert "92.0% repeat an earlier one" in found.text
            assert found.effect == 1
            assert "100.0% of these rounds have the same content" in found.text
            assert "train_test_split(logs)" in found.text
    [found] = learned(policy, coarse(group=np.arange(N)))
    assert "GroupShuffleSplit" in found.text and "train_test" not in found.text


def test_rounds_that_can_be_told_need_no_note():
    """Also where none of them comes back, and where the others are coarse."""
    policy = clone(LEARNER).fit(make_bandit_logs(N, random_state=1))
    assert learned(policy, LOGS) == []
    policy = clone(LEARNER).fit(LOGS[:60])
    rng = np.random.RandomState(0)
    few = BanditLogs(LOGS.context[:2][rng.randint(2, size=N)], LOGS.action, LOGS.reward)
    assert learned(policy, few) == []
    hour = np.arange(N)  # tells the rounds apart
    policy = clone(LEARNER).fit(coarse(timestamp=hour))
    assert learned(policy, coarse(seed=1, timestamp=hour + N)) == []
    day = np.zeros(N)  # other rounds, as their content shows
    policy = clone(LEARNER).fit(coarse(timestamp=day))
    assert learned(policy, coarse(timestamp=day + 1)) == []
    [found] = learned(policy, coarse())  # no day: nobody knows
    assert np.isnan(found.effect)
    assert "lack columns or fields" in found.text
    half = np.arange(N) % 2
    [found] = learned(policy, coarse(timestamp=half))
    assert found.effect == 0.5
    assert learned(UniformPolicy().fit(coarse()), coarse()) == []
    assert learned("pi", coarse().with_columns(pi=np.full((N, 2), 0.5))) == []


def test_what_is_known_for_certain_comes_first():
    """Of a mixture one part has learned from these rounds, the other from some."""
    logs = coarse()
    two = [clone(LEARNER).fit(logs[:60]), clone(LEARNER).fit(coarse())]
    [found] = learned(MixturePolicy(two, [0.5, 0.5]), logs)
    assert found.name == "learned_rounds"
    [found] = learned(MixturePolicy(two, [0.5, 0.5]), logs[60:])
    assert found.name == "rows_not_recognised"


def test_the_note_is_no_warning():
    policy = clone(LEARNER).fit(coarse())
    with warnings.catch_warnings():
        warnings.simplefilter("error", LearnedRoundsWarning)
        IPS().fit(coarse()).evaluate(policy)
    found = audit(policy, coarse())
    assert "rows_not_recognised" in [one.name for one in found.findings]
    assert "rows_not_recognised" not in [one.name for one in found.alarms]


def test_slates():
    def slates():
        rng = np.random.default_rng(0)
        order = rng.permuted(np.tile(np.arange(3), (60, 1)), axis=1)[:, :2]
        fields = {"n_candidates": 3, "item_features": np.eye(3)}
        fields["logging_policy"] = UniformSlatePolicy(2)
        return SlateLogs(np.zeros((60, 1)), order, order[:, 0] / 2, **fields)

    logs = slates()
    policy = PseudoInverseRanker(Ridge()).fit(logs[:40])
    assert learned(policy, logs[40:]) == []
    [found] = learned(policy, slates()[40:])
    assert found.name == "rows_not_recognised"


def test_other_rounds_of_the_same_users():
    logs = make_bandit_logs(2000, random_state=0)
    user = np.arange(2000) // 2
    logs = logs.replace(group=user)
    policy = RewardModelPolicy(Ridge()).fit(logs[::2])
    (one,) = learned(policy, logs[1::2])
    assert (one.name, one.severity, one.effect) == ("learned_groups", "note", 1.0)
    assert "GroupShuffleSplit" in one.advice[0]
    by_user = RewardModelPolicy(Ridge()).fit(logs[user < 500])
    assert learned(by_user, logs[user >= 500]) == []
    assert learned(policy, logs[1::2].replace(group=None)) == []
    again = pickle.loads(pickle.dumps(policy))
    assert learned(again, logs[1::2])[0].name == "learned_groups"

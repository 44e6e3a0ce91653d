# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pickle
import random
import re

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skope_ope import IPS, UCB1, DRns, EpsilonGreedy, LinUCB, Replay
from skope_ope.base import AdaptivePolicy
from skope_ope.datasets import make_bandit_logs
from skope_ope.evaluators import repeated_runs
from skope_ope.exceptions import OPEWarning
from skope_ope.policies import (
    AdaptiveFunctionPolicy,
    EpochGreedy,
    OnlineClassifierPolicy,
    SegmentedPolicy,
    action_probabilities,
)
from skope_ope.utils import all_policies
from skope_ope.utils.estimator_checks import check_adaptive_policy
from tests._quiet import quiet
from tests.policies._histories import live, make_logs, replayed, row_by_row


def high(X):
    return X[:, 0] > 0


def softmax_of_successes(X, history):
    successes = np.bincount(history.actions, history.rewards, minlength=4)
    weight = np.exp(successes - successes.max())
    return np.tile(weight / weight.sum(), (X.shape[0], 1))


POLICIES = [
    AdaptiveFunctionPolicy(softmax_of_successes),
    EpochGreedy(LogisticRegression(), exploit=4),
    EpsilonGreedy(),
    LinUCB(),
    OnlineClassifierPolicy(GaussianNB(), update_every=5),
    SegmentedPolicy(EpsilonGreedy(), high),
    SegmentedPolicy(OnlineClassifierPolicy(GaussianNB(), update_every=5), high),
    SegmentedPolicy(LinUCB(), high),
    UCB1(),
]
every_policy = pytest.mark.parametrize(
    "policy", POLICIES, ids=lambda policy: re.split(r",| at 0x", repr(policy))[0]
)


def test_all_of_them_are_here():
    adaptive = {
        name for name, value in all_policies() if issubclass(value, AdaptivePolicy)
    }
    assert adaptive == {type(policy).__name__ for policy in POLICIES}


@pytest.mark.few_cases(6)
@every_policy
@pytest.mark.parametrize("available", [False, True])
def test_the_engine_lives_the_life_of_single_rows(
    policy, available, global_random_seed
):
    logs = make_logs(130, seed=global_random_seed, available=available)
    draws = np.random.RandomState(global_random_seed).random_sample(len(logs))
    told, _, _ = row_by_row(policy, logs, draws)
    assert len(told) > 20
    assert_array_equal(replayed(policy, logs, draws), told)


@every_policy
def test_fits_updates_and_frozen_policies(policy):
    logs = make_logs(60)
    before = repr(policy.get_params())
    replayed(policy, logs)
    assert repr(policy.get_params()) == before
    assert not hasattr(policy, "classes_")
    with pytest.raises(NotFittedError):
        policy.predict_proba(logs.context)
    # fit only starts anew
    fitted = clone(policy).fit(logs)
    first = fitted.predict_proba(logs.context)
    changes = 0
    for row, action in enumerate(logs.action_index.tolist()):
        x = logs.context[row : row + 1]
        fitted.update(x, action, float(action == 1), 0.25)
        changes += (fitted.predict_proba(logs.context) != first).any()
    assert changes > 10
    assert_array_equal(fitted.fit(logs).predict_proba(logs.context), first)
    assert_array_equal(fitted.classes_, logs.actions)
    assert fitted.n_features_in_ == 3
    with pytest.raises(TypeError, match=r"is fitted on BanditLogs, got ndarray"):
        fitted.fit(logs.context, logs.action)
    # frozen policies learn no more
    frozen, exploring = fitted.frozen(), fitted.frozen(explore=True)
    told = [fitted.predict_proba(logs.context), frozen.predict_proba(logs.context)]
    assert_array_equal(exploring.predict_proba(logs.context), told[0])
    assert set(np.unique(told[1])) <= {0, 1}
    live(fitted, logs.action_index.tolist(), logs.reward.tolist(), logs.context)
    assert_array_equal(exploring.predict_proba(logs.context), told[0])
    assert_array_equal(frozen.predict_proba(logs.context), told[1])
    # a pickle learns on as the policy does
    other = pickle.loads(pickle.dumps(fitted))
    for policy in (fitted, other):
        live(policy, [0] * 20, [1.0] * 20, logs.context[:20])
    again = other.predict_proba(logs.context)
    assert_array_equal(fitted.predict_proba(logs.context), again)
    assert clone(frozen) is frozen
    assert frozen.fit(logs) is frozen
    assert_array_equal(action_probabilities(frozen, logs), told[1])
    offered = make_logs(60, available=True)
    proba = action_probabilities(fitted.frozen(), offered)
    assert not proba[~offered.available].any()


class Counter(AdaptivePolicy):
    """The least that a policy of one's own writes."""

    def reset(self, logs):
        super().reset(logs)
        self.n_updates_ = 0

    def _proba(self, X, available):
        proba = np.zeros((len(X), len(self.classes_)))
        proba[:, self.n_updates_ % len(self.classes_)] = 1.0
        return proba

    def update(self, X, action, reward, proba):
        self.n_updates_ += 1
        self.last_ = X
        return self.n_updates_ % 2 == 0


def test_the_least_one_has_to_write():
    logs = make_logs(40)
    assert len(replayed(Counter(), logs)) > 3
    policy = Counter().fit(logs)
    assert policy.predict(logs.context[:1]).tolist() == ["a0"]
    block = policy.look_ahead(logs.context)
    assert block.refresh(3, 0) is False
    rounds = logs.action_index[:3], logs.reward[:3], logs.propensity[:3]
    assert policy.update_many(logs.context[:3], *rounds) is True
    assert policy.n_updates_ == 3
    assert_array_equal(policy.last_, logs.context[2:3])
    assert policy.frozen().predict(logs.context[:1]).tolist() == ["a3"]

    # what must be defined
    class Silent(AdaptivePolicy):
        """Nothing."""

    policy = Silent().fit(make_logs(4))
    with pytest.raises(TypeError, match="Silent does not define update"):
        policy.update(None, 0, 1.0, 1.0)
    with pytest.raises(TypeError, match="Silent defines neither predict_proba nor"):
        policy.predict_proba(np.zeros((1, 3)))


def test_a_row_of_probabilities_is_enough_without_contexts():
    class Matching(AdaptivePolicy):
        """Plays every action as often as it has won."""

        context_free = True

        def reset(self, logs):
            super().reset(logs)
            self.wins_ = np.ones(logs.n_actions)

        def action_row(self):
            return (self.wins_ / self.wins_.sum()).tolist()

        def update(self, X, action, reward, proba):
            self.wins_[action] += reward
            return reward != 0

    check_adaptive_policy(Matching())  # with offers that vary, too
    policy = Matching().fit(make_logs(4, n_actions=2))
    offered = np.array([[True, False], [True, True]])
    proba = policy.predict_proba(np.zeros((2, 3)), offered)
    assert_array_equal(proba, [[1.0, 0.0], [0.5, 0.5]])


def test_what_cannot_live():
    with pytest.raises(ValueError, match="'alpha' parameter of LinUCB"):
        replayed(LinUCB(alpha=-1.0), make_logs(4))
    policy = make_pipeline(StandardScaler(), LinUCB())
    with pytest.raises(TypeError, match="Pipeline cannot end in LinUCB, which learns"):
        DRns().fit(make_logs(4)).evaluate(policy)


def test_a_frozen_estimator_learns_no_more():
    logs = make_logs(60)
    policy = LinUCB().fit(logs)
    columns = logs.action_index[:30], logs.reward[:30], logs.propensity[:30]
    policy.update_many(logs.context[:30], *columns)
    frozen = FrozenEstimator(policy)
    expected = policy.predict_proba(logs.context)
    assert_array_equal(action_probabilities(frozen, logs), expected)
    evaluator, ips = DRns(random_state=0).fit(logs), IPS().fit(logs)
    values = [quiet(evaluator, p) for p in (frozen, policy.frozen(explore=True))]
    assert quiet(ips, frozen).value == quiet(ips, expected).value
    assert values[0].value == values[1].value
    assert not values[0].adaptive
    # frozen policy of segments in the logs
    logs = make_logs(40)
    logs = logs.with_columns(group_of=high(logs.context))
    frozen = SegmentedPolicy(UCB1(), "group_of").fit(logs).frozen()
    proba = action_probabilities(frozen, logs)
    assert_array_equal(proba, np.tile([1.0, 0, 0, 0], (40, 1)))


# Random numbers of its own must follow random_state, or all histories share them.


class Held:
    """Holds a generator, and itself: no end of it."""

    def __init__(self, generator):
        self.inner, self.itself, self.kind = generator, self, np.random.RandomState


HOLDERS = {  # the name that is told: what holds the generator
    "held_": np.random.RandomState,
    "held_[0]": lambda seed: (np.random.default_rng(seed),),
    "held_[1]['deep']": lambda seed: [1, {"deep": np.random.PCG64(seed)}],
    "held_.inner": lambda seed: Held(random.Random(seed)),
}


class Sampler(AdaptivePolicy):
    """Prefers each action in turn, and holds a generator."""

    def __init__(self, hold=np.random.RandomState, random_state=0):
        self.hold = hold
        self.random_state = random_state

    def reset(self, logs):
        super().reset(logs)
        self.best_, self.held_ = 0, self.hold(self._seed())

    def _seed(self):
        return self.random_state

    def _proba(self, X, available):
        best = np.arange(len(self.classes_)) == self.best_
        return np.tile(0.1 + best * (1 - 0.1 * len(best)), (len(X), 1))

    def update(self, X, action, reward, proba):
        self.best_ = (self.best_ + 1) % len(self.classes_)
        return True


class SameSampler(Sampler):
    def _seed(self):
        return 7


UNIFORM = make_bandit_logs(600, n_actions=3, logging_temperature=np.inf, random_state=0)


@pytest.mark.parametrize(
    ("evaluator", "name"),
    [(DRns(horizon=40), "held_"), *((Replay(horizon=40), name) for name in HOLDERS)],
)
def test_trajectories_that_draw_alike_are_told(evaluator, name):
    def told(policy):
        found = quiet(evaluator, policy).warnings
        return [str(w) for w in found if "the same in every history" in str(w)]

    evaluator = clone(evaluator).set_params(random_state=0).fit(UNIFORM)
    (warning,) = told(SameSampler(HOLDERS[name]))
    assert f"{name!r} does not follow random_state" in warning
    assert not told(Sampler(HOLDERS[name]))
    evaluator = evaluator.set_params(horizon=None).fit(UNIFORM)
    assert not told(SameSampler(HOLDERS[name]))  # one history, one seed


def test_runs_that_draw_alike_are_told():
    with pytest.warns(OPEWarning, match="SameSampler are the same in every history"):
        repeated_runs(Replay(), SameSampler(), UNIFORM, n_runs=3, random_state=0)
    repeated_runs(Replay(), Sampler(), UNIFORM, n_runs=3, random_state=0)
